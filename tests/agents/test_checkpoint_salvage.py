"""Segments that every checkpoint needs are lost: what is left of the memory is used, and nothing else."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.agents.small_envs import identity

from svrl.agents import replay_segments
from svrl.agents.checkpoint import Checkpoints
from svrl.agents.config import AgentConfig
from svrl.agents.events import Learned, Stepped
from svrl.agents.replay import Replay
from svrl.agents.training import Training
from svrl.runtime.arrays import read_arrays

from .checkpoint_rig import Rig, assert_equal_memories, delete, empty, garble, listed, names, truncate
from .replay_oracle import Transition, all_of


def remaining(memory: Replay, lost: list[dict]) -> list[Transition]:
    """Transitions none of whose frames, nor the one after, lies in a lost segment; lane after lane, oldest first."""
    kept = []
    every = iter(all_of(memory))
    for lane in range(memory.layout.lanes):
        gone = {slot for piece in lost for slot in range(piece["first"][lane], piece["last"][lane])}
        for number in range(memory.tails[lane], memory.made):
            transition = next(every)
            slot = int(memory.order[lane, number % memory.layout.per_lane])
            age = int(memory.ages[lane, slot % memory.layout.slots])
            if not gone & set(range(slot - age, slot + 2)):
                kept.append(transition)
    return kept


@settings(max_examples=30, deadline=None)
@given(
    stack=st.sampled_from([1, 4]),
    lanes=st.integers(1, 3),
    end=st.sampled_from([0.0, 0.05, 0.5, 1.0]),
    pauses=st.lists(st.integers(1, 30), min_size=2, max_size=5),
    choice=st.data(),
)
def test_whatever_is_lost_the_rest_is_kept(tmp_path_factory, stack, lanes, end, pauses, choice):
    folder = tmp_path_factory.mktemp("run")
    rig = Rig(folder, stack=stack, lanes=lanes, capacity=20 * lanes, end=end)
    ever = set()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replay_segments, "PIECE_BYTES", choice.draw(st.sampled_from([60, 1 << 28])))
        for pause in pauses:
            rig.step(pause)
            rig.save()
            ever |= set(all_of(rig.replay))
    checkpoint = max((folder / "checkpoints").iterdir())
    needed = listed(checkpoint)
    bad = choice.draw(st.sets(st.sampled_from(needed), min_size=1))
    lost = [read_arrays(folder / "replay" / name) for name in bad]
    for name in bad:
        delete(folder / "replay" / name)
    for path in (folder / "checkpoints").iterdir():
        if path != checkpoint:
            delete(path)  # or it would be the one to use, where it is whole
    expected = remaining(rig.replay, lost)
    loaded = rig.empty()
    if not expected:
        try:
            Checkpoints(folder).load(loaded)
        except ValueError as error:
            assert "not one transition of the replay memory can be read" in str(error)  # noqa: PT017
        return
    found = Checkpoints(folder).load(loaded)
    assert found is not None
    assert found.state == {"steps": rig.replay.made}
    now = all_of(loaded)
    # Older ones, which the full memory had let go of, may fill the room.
    assert set(expected) <= set(now) <= ever
    if bad == set(needed[: len(bad)]):
        assert now == expected
    for count in (1, 3, 50):
        rig.step(count, loaded)
    assert_equal_memories(rig.replay, loaded)


@pytest.mark.parametrize("harm", [delete, truncate, garble, empty])
@pytest.mark.parametrize("which", [0, 1, 2])
def test_going_on_and_saving_heals_the_run(tmp_path: Path, harm, which: int):
    rig = Rig(tmp_path, capacity=60, end=0.1)
    for _ in range(3):
        rig.step(7)
        rig.save()
    shutil.copy(tmp_path / "checkpoints" / "000000003.npz", tmp_path / "checkpoints" / "000000002.npz")
    segment = tmp_path / "replay" / listed(tmp_path / "checkpoints" / "000000003.npz")[which]
    lost = read_arrays(segment)
    harm(segment)
    expected = remaining(rig.replay, [lost])
    rig.replay, rig.checkpoints = rig.empty(), Checkpoints(tmp_path)
    found = rig.checkpoints.load(rig.replay)
    assert found is not None
    assert found.state == {"steps": 21}
    assert all_of(rig.replay) == expected
    assert found.note is not None
    assert found.note.startswith(str(segment))
    assert found.note.endswith(
        f" Used 000000003.npz with the {len(expected)} of {2 * 21} transitions that can still be read."
    )
    rig.step(2)
    rig.save()
    assert [name for name in names(tmp_path) if "checkpoints" in name] == ["checkpoints/000000004.npz"]
    assert segment.name not in names(tmp_path)
    loaded = rig.empty()
    found = Checkpoints(tmp_path).load(loaded)
    assert found is not None
    assert (found.state, found.note) == ({"steps": 23}, None)
    assert_equal_memories(rig.replay, loaded)


def test_nothing_left_is_a_sentence(tmp_path: Path):
    rig = Rig(tmp_path)
    rig.step(9)
    rig.save()
    shutil.rmtree(tmp_path / "replay")
    loaded = rig.empty()
    with pytest.raises(
        ValueError,
        match=r"as not one transition of the replay memory can be read, so the run cannot be resumed\. "
        r"Start a new one, or evaluate the agent, which is whole\. The newest: .*segment-000001\.npz is missing\.",
    ):
        Checkpoints(tmp_path).load(loaded)
    assert len(loaded) == 0
    assert Checkpoints(tmp_path).load(None).state == {"steps": 9}


def test_the_note_says_all_that_is_wrong(tmp_path: Path):
    rig = Rig(tmp_path, end=0.0)
    for _ in range(3):
        rig.step(5)
        rig.save()
    garble(tmp_path / "checkpoints" / "000000003.npz")
    delete(tmp_path / "replay" / "segment-000001.npz")
    found = Checkpoints(tmp_path).load(rig.empty())
    assert found is not None
    assert found.state == {"steps": 10}
    assert re.fullmatch(
        r"\S+/000000003\.npz is damaged.* \S+/segment-000001\.npz is missing\. "
        r"Used 000000002\.npz with the 4 of 20 transitions that can still be read\.",
        str(found.note),
    )


@pytest.mark.parametrize("act_lag", [0, 1])
def test_training_goes_on_with_a_part_of_its_memory(tmp_path: Path, act_lag: int):
    config = AgentConfig.of(
        "classic",
        envs=2,
        act_lag=act_lag,
        hidden=(8,),
        batch_size=8,
        learn_from=50,
        replay=500,
        steps=400,
        log_every=50,
        eval_every=0,
    )
    training, checkpoints = Training.begin(identity, config), Checkpoints(tmp_path)
    for event in training.events():
        if event.steps in (100, 200, 300) and isinstance(event, Stepped):
            checkpoints.save(training.capture(), training.replay)
        if event.steps == 300 and isinstance(event, Stepped):
            break
    garble(min((tmp_path / "replay").iterdir()))
    again = Training.begin(identity, config)
    found = Checkpoints(tmp_path).load(again.replay)
    assert found is not None
    assert "transitions that can still be read" in str(found.note)
    again.restore(found.state)
    assert again.steps == 300
    assert 0 < len(again.replay) < 300
    losses = [event.loss for event in again.events() if isinstance(event, Learned)]
    assert again.steps == 400
    assert losses
    assert np.isfinite(losses).all()
