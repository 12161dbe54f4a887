from __future__ import annotations

import pytest

from svrl.envs.atari_games import GAMES as ALL_GAMES
from svrl.paper.claim import Evidence, Verdict
from svrl.paper.experiments.atari_diagnosis import EXPERIMENT, GAMES
from svrl.paper.experiments.trainings import centred_rank_share
from svrl.paper.store import Kept

from .hand_made_trainings import evidence, seeds, series_of, training

CLAIMS = {claim.name: claim for claim in EXPERIMENT.claims}
PAPER = {"frostbite": (2.0, 0.5), "krull": (2.1, 0.4), "alien": (5.0, 0.1), "seaquest": (10.0, -0.2)}


def pair(
    game: str, rank: float, gain: float, others: tuple[float, float, float] = (13.0, 14.0, 16.0), count: int = 3
) -> list[Kept]:
    """Some seeds of each arm whose relative gain is `gain`; `rank` is that of plain DQN."""
    env, base = f"atari/{game}", ALL_GAMES[game].random_score
    plain = 1000.0 * (1 - gain) if gain > 0 else 1000.0
    structured = 1000.0 if gain > 0 else 1000.0 * (1 + gain)
    ranks, spread = (rank, *others), [k - (count - 1) / 2 for k in range(count)]
    return [
        *seeds(env, "dqn", [base + plain + k for k in spread], ranks=ranks),
        *seeds(env, "sv-dqn", [base + structured + k for k in spread], ranks=ranks),
    ]


def found(games: dict[str, tuple[float, float]], scale: str = "full") -> Evidence:
    return evidence(*(pair(game, rank, gain) for game, (rank, gain) in games.items()), scale=scale)


def falling(sign: float) -> dict[str, tuple[float, float]]:
    """Eight games whose gain falls (sign -1) or rises with the rank."""
    some = (*GAMES, "breakout", "zaxxon", "hero", "pong")
    return {game: (1.0 + k, sign * 0.1 * (k - 3.5)) for k, game in enumerate(some)}


@pytest.mark.parametrize("game", GAMES)
def test_ranks_as_in_the_paper(game: str):
    claim = CLAIMS[f"rank-of-{game}"]
    assert claim.judged(found(PAPER)).verdict is Verdict.REPRODUCED
    assert claim.judged(found(PAPER, "short")).verdict is Verdict.SUPPORTED
    assert claim.judged(found(PAPER, "smoke")).verdict is Verdict.NOT_RUN
    for scale, verdict in (("full", Verdict.NOT_REPRODUCED), ("short", Verdict.CONTRADICTED)):
        finding = claim.judged(found({game: (1.0, 0.1)}, scale))
        assert (finding.verdict, finding.value, finding.interval) == (verdict, 1.0, (1.0, 1.0))


def test_ranks_that_differ_over_seeds_leave_it_open():
    # Of 1, 1 and 6 the mean, 2.7, is not within 25% of 2, and Student's interval of three seeds is from -4.5 to 9.8.
    cells = [training("atari/krull", "dqn", k, 9.0, ranks=(rank, 14, 14, 14)) for k, rank in enumerate((1, 1, 6))]
    finding = CLAIMS["rank-of-krull"].judged(evidence(cells, scale="short"))
    assert finding.interval == pytest.approx((8 / 3 - 4.3027 * 5 / 3, 8 / 3 + 4.3027 * 5 / 3), abs=1e-3)
    assert (finding.verdict, "The interval reaches into 1.5 to 2.5: open either way." in finding.note) == (
        Verdict.UNDECIDED,
        True,
    )


def test_a_rank_under_another_definition_is_named():
    cells = pair("seaquest", 1.0, 0.1, others=(3.0, 9.5, 15.0))
    for scale, verdict in (("full", Verdict.OTHERWISE), ("short", Verdict.UNDECIDED)):
        finding = CLAIMS["rank-of-seaquest"].judged(evidence(cells, scale=scale))
        assert (finding.verdict, finding.value, finding.interval) == (verdict, 9.5, (9.5, 9.5))
        assert finding.ours == "9.5 (9.5 to 9.5) at 99% with row means taken out"
        assert "9.5 at 99% with row means taken out; by the paper's definition 1.0" in finding.note


def test_signs_of_the_four_gains():
    claim = CLAIMS["gains-on-four-games"]
    finding = claim.judged(found(PAPER))
    assert (finding.verdict, finding.value, finding.interval) == (Verdict.REPRODUCED, 4, (4.0, 4.0))
    better = {**PAPER, "seaquest": (10.0, 0.3)}
    finding = claim.judged(found(better))
    assert (finding.verdict, finding.value) == (Verdict.NOT_REPRODUCED, 3)
    assert "Seaquest +30%" in finding.note
    # Four of four; three of four, where the three seeds of the fourth may be luck; two of two, which are not all; and
    # one of one, whose three seeds have no interval.
    for games, count, ends, verdict in (
        (PAPER, 4, (4.0, 4.0), Verdict.SUPPORTED),
        (better, 3, (3.0, 4.0), Verdict.UNDECIDED),
        ({game: PAPER[game] for game in ("krull", "alien")}, 2, (2.0, 2.0), Verdict.UNDECIDED),
        ({"krull": (2.0, 0.4)}, 1, None, Verdict.UNDECIDED),
    ):
        short = claim.judged(found(games, "short"))
        assert (short.verdict, short.value, short.interval) == (verdict, count, ends)
        assert ("Too few seeds for an interval." in short.note) == (ends is None)
    # Four seeds of one game can tell: all of one arm above all of the other is luck in one of 35 cases.
    many = evidence(*(pair(game, rank, gain, count=4) for game, (rank, gain) in better.items()), scale="short")
    assert (claim.judged(many).verdict, claim.judged(many).interval) == (Verdict.CONTRADICTED, (3.0, 3.0))


def test_correlation_of_rank_and_gain():
    claim = CLAIMS["lower-rank-larger-gain"]
    finding = claim.judged(found(falling(-1)))
    assert (finding.verdict, finding.value) == (Verdict.REPRODUCED, -1.0)
    assert claim.judged(found(falling(+1))).verdict is Verdict.NOT_REPRODUCED
    for sign, verdict in ((-1, Verdict.SUPPORTED), (+1, Verdict.CONTRADICTED)):
        short = claim.judged(found(falling(sign), "short"))
        assert (short.verdict, short.value, short.interval) == (verdict, sign, (sign, sign))


def test_rank_and_gain_with_row_means_taken_out():
    """Where the raw rank is 1 everywhere it has no order, and the centred one may have."""
    claim, raw = CLAIMS["lower-centred-rank-larger-gain"], CLAIMS["lower-rank-larger-gain"]
    for sign, verdict in ((-1, Verdict.SUPPORTED), (+1, Verdict.CONTRADICTED)):
        cells = [pair(game, 1.0, gain, (1.0, rank, 17.0)) for game, (rank, gain) in falling(sign).items()]
        there = evidence(*cells, scale="short")
        alike = raw.judged(there)
        assert (alike.verdict, alike.ours) == (Verdict.UNDECIDED, "rank or gain is the same in all 8 games")
        finding = claim.judged(there)
        assert (finding.verdict, finding.value, finding.interval) == (verdict, sign, (sign, sign))


def test_a_centred_rank_is_held_against_what_the_actions_allow():
    kept = training("atari/breakout", "dqn", 0, 9.0, ranks=(1.0, 1.0, 3.0, 3.0))
    row = next(row for row in kept.rows if row["what"] == "rank" and row["centred"] and row["energy"] == 0.99)
    row["histogram"] = [0, 0, 0, 100, 0]  # four actions: their differences have a rank of 3 at most
    assert centred_rank_share(kept) == 1.0


def test_four_games_in_perfect_order_prove_nothing():
    # One order in twelve is perfect by chance, so the interval of four games is (-1, 1).
    ordered = {game: (1.0 + k, 0.5 - 0.2 * k) for k, game in enumerate(GAMES)}
    for scale, verdict in (("full", Verdict.NOT_REPRODUCED), ("short", Verdict.UNDECIDED)):
        finding = CLAIMS["lower-rank-larger-gain"].judged(found(ordered, scale))
        assert (finding.verdict, finding.value, finding.interval) == (verdict, -1.0, (-1.0, 1.0))


@pytest.mark.parametrize(
    ("gains", "verdict", "so_far"),
    [
        ((0.0, -0.1), Verdict.REPRODUCED, Verdict.SUPPORTED),
        ((-0.6, -0.5), Verdict.NOT_REPRODUCED, Verdict.CONTRADICTED),
        ((0.5, 0.4), Verdict.NOT_REPRODUCED, Verdict.CONTRADICTED),  # better is not comparable
    ],
)
def test_games_of_high_rank(gains: tuple[float, float], verdict: Verdict, so_far: Verdict):
    games = {"seaquest": (10.0, gains[0]), "venture": (8.0, gains[1]), "krull": (2.0, 0.9)}
    finding = CLAIMS["high-rank-comparable-or-slightly-worse"].judged(found(games))
    assert finding.verdict is verdict
    assert finding.value == pytest.approx(sum(gains) / 2, abs=0.01)
    assert "Krull" not in finding.note
    short = CLAIMS["high-rank-comparable-or-slightly-worse"].judged(found(games, "short"))
    assert (short.verdict, "IQM of 2 games" in short.ours) == (so_far, True)
    assert (short.value, short.interval) == (finding.value, finding.interval)


def test_without_games_of_high_rank_nothing_is_compared():
    finding = CLAIMS["high-rank-comparable-or-slightly-worse"].judged(found({"krull": (2.0, 0.0), "hero": (4.0, 0.0)}))
    assert (finding.verdict, finding.value) == (Verdict.NOT_REPRODUCED, None)
    assert "No game has a mean rank above 5; the highest is 4.0" in finding.note
    short = CLAIMS["high-rank-comparable-or-slightly-worse"].judged(found({"krull": (2.0, 0.0)}, "short"))
    assert (short.verdict, "there is: made by hand. No game has" in short.note) == (Verdict.NOT_RUN, True)


def test_a_wide_interval_around_no_gain_is_undecided():
    base = ALL_GAMES["seaquest"].random_score
    groups = [
        seeds("atari/seaquest", arm, [base + 100.0, base + 1000.0] * 2, ranks=(10.0, 10.0, 10.0, 10.0))
        for arm in ("dqn", "sv-dqn")
    ]
    for scale, verdict in (("full", Verdict.NOT_REPRODUCED), ("short", Verdict.UNDECIDED)):
        finding = CLAIMS["high-rank-comparable-or-slightly-worse"].judged(evidence(*groups, scale=scale))
        assert (finding.verdict, finding.value) == (verdict, 0.0)
        assert "reaches into -0.25 to 0.1: open either way" in finding.note


def test_the_figure_has_curves_ranks_and_their_relation():
    figure = EXPERIMENT.draw("fig7", found({**PAPER, "zaxxon": (1.0, 0.2)}))
    titles = [panel.get_title(loc="left") for panel in figure.axes]
    assert len(titles) == 9
    assert titles[:4] == ["(a) Frostbite", "(b) Krull", "(c) Alien", "(d) Seaquest"]
    assert titles[-1].startswith("(i) rank and gain, tau -0.")
    relation = figure.axes[-1]
    assert {text.get_text() for text in relation.texts} == {"Frostbite", "Krull", "Alien", "Seaquest", "Zaxxon"}
    assert series_of(figure) == {
        "plain",
        "structured",
        "plain-rows-centred",
        "structured-rows-centred",
        "one-game",
    }


def test_a_third_arm_is_drawn_where_all_games_have_it():
    third = {game: seeds(f"atari/{game}", "sv-dqn-network", [500.0] * 3) for game in PAPER}
    pairs = [pair(game, rank, gain) for game, (rank, gain) in PAPER.items()]
    network = {"structured-valued-by-the-network", "structured-valued-by-the-network-rows-centred"}
    assert network <= series_of(EXPERIMENT.draw("fig7", evidence(*pairs, *third.values(), scale="short")))
    assert not network & series_of(EXPERIMENT.draw("fig7", evidence(*pairs, third["krull"], scale="short")))


def test_the_caption_has_ranks_gains_and_what_is_missing():
    words = EXPERIMENT.got("fig7", found(PAPER))
    assert "Frostbite 2.0, +50%" in words
    assert "over 4 games" in words
    few = EXPERIMENT.got("fig7", found({"krull": (2.0, 0.5)}))
    assert "This budget has 1 of the 4 games" in few
