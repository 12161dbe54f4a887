from __future__ import annotations

import dataclasses
import re

import pytest
from tests.reporting.page.sample_page import addition, planning, sample_page

from svrl.paper.catalogue import load_all
from svrl.reporting.page.content import (
    VERDICTS,
    capital,
    figure_labels,
    minutes_text,
    runs_text,
    says_title,
    sentence,
    verdict_counts,
)


def test_names_of_the_paper_can_be_addresses_and_are_unique():
    experiments = load_all()
    claims = [claim.name for experiment in experiments for claim in experiment.claims]
    for names in ([experiment.name for experiment in experiments], claims):
        assert all(re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", name) for name in names)
        # Addresses of headings have neither capitals nor points, and some file systems no capitals.
        assert len({name.lower().replace(".", "") for name in names}) == len(names)


def test_claims_are_counted_by_verdict_in_the_order_of_the_experiments():
    assert [claim.name for claim in sample_page().claims] == ["svp-fifth", "svp-rank", "svp-time", "sv-better"]
    assert verdict_counts(()) == dict.fromkeys(VERDICTS, 0)
    assert verdict_counts(planning().claims) == dict(zip(VERDICTS, (1, 1, 0, 0, 0, 0, 1), strict=True))


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
    assert runs_text(planning()) == "All of it, about 38 minutes on two cores:"
    assert runs_text(dataclasses.replace(planning(), minutes=0.0)) == "All of it:"


def test_figures_of_the_paper_have_numbers_and_additions_titles():
    section, ours = planning(), addition()
    table = dataclasses.replace(section.figures[0], id="table1", label="Table 1")
    mixed = dataclasses.replace(section, figures=(section.figures[0], table, *ours.figures))
    assert [figure_labels(one) for one in (section, ours, mixed)] == [
        "Figures 3, 10",
        "how fast the error falls",
        "Figure 3, Table 1, how fast the error falls",
    ]
    assert says_title(section, section.figures[0]) == "The paper"
    assert says_title(section, ours.figures[0]) == "Why it is here"
    assert says_title(dataclasses.replace(section, addition=True), section.figures[0]) == "Why it is here"
