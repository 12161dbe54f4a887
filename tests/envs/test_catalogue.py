from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import svrl.envs
from svrl.envs.catalogue import describe_env, from_factory, known_environments, make_env


def test_names_to_offer() -> None:
    names = known_environments()
    assert len(names) == len(set(names)) >= 57 + 5 + 5
    assert {"atari/breakout", "minatar/asterix", "control/cart-pole", "CartPole-v1"} <= set(names)


def test_offering_names_imports_nothing_heavy() -> None:
    heavy = ("numpy", "torch", "gymnasium", "ale_py", "minatar")
    code = (
        "import sys; from svrl.envs.catalogue import known_environments; known_environments(); "
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("name", svrl.envs.__all__)
def test_public_names_are_there(name: str) -> None:
    assert getattr(svrl.envs, name) is not None


@pytest.mark.parametrize(
    ("name", "settings", "sentence"),
    [
        ("CartPole-v11", {}, "Did you mean CartPole-v1?"),
        ("breakout", {}, "Did you mean atari/breakout?"),
        ("atari/pongg", {}, "nearest: pong"),
        ("zzzzqqqq", {}, "There is no environment 'zzzzqqqq'"),
        ("no_such_package:Thing-v0", {}, "cannot be imported"),
        ("Pendulum-v1", {}, "only discrete ones can be learned.*control/inverted-pendulum"),
        ("CartPole-v1", {"sticky": 0.25}, "only Atari and MinAtar"),
        ("CartPole-v1", {"actions": 5}, "control/TASK alone"),
        ("minatar/breakout", {"sticky": 1.5}, r"probability in \[0, 1\]"),
        ("control/cart-pole", {"actions": -1}, "0 or more"),
        ("CartPole-v1", {"seed": -1}, "from 0, got -1"),
        ("CartPole-v1", {"count": 0}, "At least 1 environment"),
    ],
)
def test_what_cannot_be_made_is_answered_in_a_sentence(name: str, settings: dict, sentence: str) -> None:
    order = {"count": 1, "seed": 0, **settings}
    with pytest.raises(ValueError, match=sentence):
        make_env(name, order.pop("count"), **order)


PACKAGE = """
from pathlib import Path
import gymnasium
Path(__file__).with_name("ran").touch()
gymnasium.register(id="Elsewhere-v0", entry_point="gymnasium.envs.classic_control:CartPoleEnv")
"""


def test_a_name_that_is_not_trusted_imports_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "somewhere_else.py").write_text(PACKAGE)
    monkeypatch.syspath_prepend(tmp_path)
    name = "somewhere_else:Elsewhere-v0"
    for make in (lambda: make_env(name, 1, seed=0, trusted=False), lambda: describe_env(name, trusted=False)):
        with pytest.raises(ValueError, match=r"would import somewhere_else, .* with from_factory\."):
            make()
    assert not (tmp_path / "ran").exists()
    assert describe_env(name).n_actions == 2
    assert (tmp_path / "ran").exists()
    with pytest.raises(ValueError, match="would import somewhere_else"):
        describe_env(name, trusted=False)  # although it is known by now


TOYS = """
import gymnasium
from gymnasium import spaces
from gymnasium.envs.classic_control import CartPoleEnv

class Mission(spaces.Space):
    pass

class Told(CartPoleEnv):
    def __init__(self):
        self.observation_space = spaces.Dict({"place": spaces.Discrete(4), "mission": Mission(dtype=str)})
        self.action_space = spaces.Discrete(2)

class Broken(CartPoleEnv):
    def __init__(self):
        raise KeyError("licence")

gymnasium.register("Told-v0", entry_point="toy_games:Told")
gymnasium.register("Broken-v0", entry_point=Broken)
gymnasium.register("Pole-v0", entry_point="gymnasium.envs.classic_control:CartPoleEnv")
"""


def test_what_goes_wrong_in_a_module_of_one_s_own_is_answered_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "toy_games.py").write_text(TOYS)
    (tmp_path / "no_games.py").write_text("")
    (tmp_path / "torn_games.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(tmp_path)
    for name, sentence in (
        ("toy_games:Nope-v0", "no environment 'toy_games:Nope-v0'. toy_games registers Pole-v0, "),
        ("toy_games:Nope-v0", "toy_games registers Broken-v0, Told-v0"),  # it has been imported before
        ("toy_games:Told-v0", "observations of Dict with Mission, whose size is not fixed"),
        ("toy_games:Broken-v0", r"cannot make toy_games:Broken-v0: KeyError\('licence'\)"),
        ("no_games:Nope-v0", r"no_games registers no environment\."),
        ("torn_games:Nope-v0", "torn_games, which cannot be imported: ZeroDivisionError"),
    ):
        with pytest.raises(ValueError, match=sentence):
            describe_env(name)


def test_a_factory_that_fails_is_answered_in_a_sentence() -> None:
    with pytest.raises(ValueError, match=r"^room could not be made: ZeroDivisionError"):
        from_factory(lambda: 1 // 0, 1, seed=0, id="room")


@pytest.mark.parametrize("name", ["CartPole-v1", "control/mountain-car"])
def test_other_names_need_no_trust(name: str) -> None:
    assert describe_env(name, trusted=False) == describe_env(name)
