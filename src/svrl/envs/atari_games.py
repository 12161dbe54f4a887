"""The 57 Atari games that papers report, and the meaning of their scores.

A score becomes comparable between games as

    human-normalised = (score - random) / (human - random)

so that 0 is a random and 1 a human player. The random and human scores are the tables used since Wang et al. 2016
(Dueling Network Architectures for Deep Reinforcement Learning), printed again by Badia et al. 2020 (Agent57). The
columns paper_* hold what "Harnessing Structures for Value-Based Planning and Reinforcement Learning" (ICLR 2020)
reports on its structured agents against the plain ones, for the games in that paper.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from importlib.resources import files

from svrl.runtime.names import nearest_name


@dataclass(frozen=True, kw_only=True)
class Game:
    """One game.

    Attributes:
        name: Name of the game, such as "ms_pacman".
        actions: Size of its minimal action set.
        random_score, human_score: Mean scores of a random and a human player.
        paper_dqn, paper_double, paper_dueling: Effect of structure on each agent according to the paper, or "".
    """

    name: str
    actions: int
    random_score: float
    human_score: float
    paper_dqn: str
    paper_double: str
    paper_dueling: str


def _read() -> dict[str, Game]:
    with files("svrl.envs").joinpath("atari57.csv").open(encoding="utf-8") as lines:
        games = [
            Game(
                name=row["game"],
                actions=int(row["actions"]),
                random_score=float(row["random_score"]),
                human_score=float(row["human_score"]),
                paper_dqn=row["paper_dqn"],
                paper_double=row["paper_double"],
                paper_dueling=row["paper_dueling"],
            )
            for row in csv.DictReader(lines)
        ]
    return {game.name: game for game in games}


GAMES: dict[str, Game] = _read()
"""The games by name, in alphabetical order."""


def find_game(name: str) -> Game:
    """Find a game by its name: "ms_pacman", "MsPacman" or "atari/ms_pacman".

    Raises:
        ValueError: If there is no such game. The message suggests the nearest names.
    """
    short = name.removeprefix("atari/")
    plain = short.lower().replace("-", "_")
    for game in GAMES.values():
        if game.name.replace("_", "") == plain.replace("_", ""):
            return game
    hint = nearest_name(plain, GAMES, most=3)
    raise ValueError(f"Atari has no game {short!r} among the {len(GAMES)} known. {hint}")


def human_normalised(game: str, score: float) -> float:
    """Convert a score to the scale where a random player has 0 and a human 1.

    Raises:
        ValueError: If there is no such game. The message suggests the nearest names.
    """
    entry = find_game(game)
    return (score - entry.random_score) / (entry.human_score - entry.random_score)
