from __future__ import annotations

import dataclasses

import pytest
from tests.reporting.page.sample_page import addition, planning, sample_page

from svrl.reporting.page.content import (
    VERDICTS,
    ClaimRow,
    FigureEntry,
    Section,
    apart,
    capital,
    counts_text,
    figure_labels,
    minutes_text,
    runs_text,
    says_title,
    sentence,
    verdict_counts,
)


def renamed(section: Section) -> Section:
    """With a claim whose name differs from another's by points and capitals only."""
    return dataclasses.replace(
        section, claims=(section.claims[0], dataclasses.replace(section.claims[0], name="SVP-fif.th"))
    )


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        (lambda: (planning(), dataclasses.replace(planning(), name="again", claims=())), "Two figures are called fig3"),
        (
            lambda: (planning(), dataclasses.replace(addition(), figures=(), claims=planning().claims)),
            "Two claims are called svp-fifth",
        ),
        (lambda: (renamed(planning()),), "or nearly so"),
    ],
)
def test_two_of_a_kind_cannot_share_a_name(sections, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(sample_page(), sections=sections())


@pytest.mark.parametrize("name", ["", "a b", "a/b", 'a"b', "../up", ".hidden", "a\n"])
def test_a_name_can_be_part_of_an_address(name):
    with pytest.raises(ValueError, match="letters, digits, hyphens, underscores and points"):
        dataclasses.replace(sample_page(), sections=(dataclasses.replace(addition(), name=name),))


def test_a_verdict_is_one_of_seven():
    words = {"name": "x", "section": "", "figure": "fig1", "says": "", "paper": "", "test": ""}
    assert len(VERDICTS) == 7
    for verdict in VERDICTS:
        assert ClaimRow(**words, verdict=verdict).verdict == verdict
    with pytest.raises(ValueError, match="'perhaps'"):
        ClaimRow(**words, verdict="perhaps")


def test_claims_come_in_the_order_of_the_experiments():
    assert [claim.name for claim in sample_page().claims] == ["svp-fifth", "svp-rank", "svp-time", "sv-better"]


def test_counts_have_every_verdict():
    assert verdict_counts(()) == dict.fromkeys(VERDICTS, 0)
    assert verdict_counts(planning().claims) == dict(zip(VERDICTS, (1, 1, 0, 0, 0, 0, 1), strict=True))


def test_claims_of_the_paper_and_of_additions_are_counted_apart():
    mine, other = (ClaimRow(**claim_words(section), verdict="reproduced") for section in ("3.3", ""))
    groups = apart((mine, other, mine))
    assert {whose: len(some) for whose, some in groups.items()} == {"of the paper": 2, "of our additions": 1}
    assert counts_text(groups["of the paper"], "of the paper") == "2 claims of the paper: 2 reproduced."
    assert counts_text(groups["of our additions"], "of our additions") == "1 claim of our additions: 1 reproduced."
    assert apart(()) == {}


def claim_words(section: str) -> dict[str, str]:
    return {"name": "x", "section": section, "figure": "fig1", "says": "x", "paper": "x", "test": "x"}


@pytest.mark.parametrize(
    ("minutes", "text"),
    [
        (0.0, ""),
        (0.2, "less than a minute"),
        (1.0, "about 1 minute"),
        (38.4, "about 38 minutes"),
        (120.0, "about 2 hours"),
        (60.0 * 24 * 1500, "about 1,500 days"),
    ],
)
def test_durations_are_rounded(minutes, text):
    assert minutes_text(minutes) == text


def test_words_become_sentences():
    assert capital("cart-pole: SVP") == "Cart-pole: SVP"
    assert capital("") == ""
    assert sentence("laptop scale, committed") == "Laptop scale, committed."
    assert sentence("Done.") == "Done."


def test_figures_are_called_by_numbers_and_additions_by_titles():
    section = planning()
    assert figure_labels(section) == "Figures 3, 10"
    assert figure_labels(addition()) == "how fast the error falls"
    table = dataclasses.replace(section.figures[0], id="table1", label="Table 1")
    mixed = dataclasses.replace(section, figures=(section.figures[0], table, *addition_in_the_paper()))
    assert figure_labels(mixed) == "Figure 3, Table 1, how fast the error falls"


def addition_in_the_paper() -> tuple[FigureEntry, ...]:
    """An addition drawn by an experiment of the paper."""
    return addition().figures


def test_the_paper_says_nothing_on_additions():
    section = planning()
    assert says_title(section, section.figures[0]) == "The paper"
    assert says_title(section, addition_in_the_paper()[0]) == "Why it is here"
    assert says_title(dataclasses.replace(section, addition=True), section.figures[0]) == "Why it is here"


def test_an_unknown_time_is_not_told():
    assert runs_text(planning()) == "All of it, about 38 minutes on two cores:"
    assert runs_text(dataclasses.replace(planning(), minutes=0.0)) == "All of it:"
