"""How a sweep is seen: states, progress, speed and scores, from stores that others write to meanwhile."""

from __future__ import annotations

import json
import shutil
import threading
import time

import numpy as np
import pytest
from tests.runs.stores_by_hand import begin, end, finish, games, plan, sweep_of, training, write_rows

from svrl import stats
from svrl.envs.atari_games import human_normalised
from svrl.runs.status import look
from svrl.runs.store import Store
from svrl.stats import mean_interval


def test_every_state_is_told_with_its_progress(tmp_path):
    specs = [training(seed=seed) for seed in range(5)]
    store = sweep_of(tmp_path, specs)
    finish(store, specs[0], 21.0)
    begin(store, specs[1], [1, 2, 3], began=time.time() - 10)
    begin(store, specs[2], [5])
    end(store, specs[2].id, "failed", reason="The loss is NaN.", last_lines=["one", "two"])
    begin(store, specs[3], [4, 6])
    end(store, specs[3].id, "stopped")
    with store.working_on(specs[1].id):
        seen = look(store, specs)
    assert [run["state"] for run in seen["runs"]] == ["done", "running", "failed", "stopped", "waiting"]
    assert [run["steps"] for run in seen["runs"]] == [1000, 30, 10, 20, 0]
    assert [run["score"] for run in seen["runs"]] == [21.0, 2.0, 5.0, 5.0, None]
    assert [run["attempts"] for run in seen["runs"]] == [1, 1, 1, 1, 0]
    assert seen["runs"][2]["reason"] == "The loss is NaN."
    assert seen["runs"][2]["last_lines"] == ["one", "two"]
    assert json.loads(json.dumps(seen, allow_nan=False)) == seen
    assert seen["totals"]["states"] == {"done": 1, "running": 1, "failed": 1, "stopped": 1, "waiting": 1}
    assert (seen["totals"]["steps"], seen["totals"]["steps_in_all"]) == (1060, 5000)
    assert seen["totals"]["best"] == {"id": specs[0].id, "label": specs[0].label, "score": 21.0}


def test_speed_is_that_of_the_attempt_and_the_rest_is_the_mean_of_finished_runs(tmp_path):
    specs = [training(seed=seed) for seed in range(4)]
    store = sweep_of(tmp_path, specs)
    begin(store, specs[0], [0] * 30)
    end(store, specs[0].id, "stopped")
    begin(store, specs[0], began=time.time() - 10)
    write_rows(store, specs[0].id, "episodes.jsonl", games([0] * 20, after=300))
    finish(store, specs[1], 1.0)  # took 20 s
    with store.working_on(specs[0].id):
        seen = look(store, specs)
    assert seen["runs"][0]["steps_per_second"] == pytest.approx(20, rel=0.1)
    assert seen["runs"][0]["eta_seconds"] == pytest.approx(25, rel=0.1)
    assert seen["totals"]["eta_seconds"] == pytest.approx(20.0 * 2.5)  # half a run under way and two that wait


def test_results_of_another_svrl_are_noted(tmp_path):
    specs = [training(seed=seed) for seed in range(3)]
    store = sweep_of(tmp_path, specs)
    for spec in specs:
        store.note(spec.id, {"attempt": 1, "began": "2026-01-01T00:00:00+00:00", "svrl": "0.0.9", "commit": "abc"})
        if spec is not specs[2]:
            finish(store, spec, 1.0) if spec is specs[0] else None
    (store.folder(specs[1].id) / "run").mkdir()
    (store.folder(specs[1].id) / "run" / "result.json").write_text("{}")
    (note,) = look(store, specs)["notes"]
    assert note.startswith("Note: not all results are of this svrl, 0.1.0")
    assert note.endswith(": 1 by svrl 0.0.9 abc.")


def test_atari_is_human_normalised_and_averaged_over_games(tmp_path):
    raw = {("atari/pong", "dqn"): [-20.0, 3.0, 20.0], ("atari/breakout", "dqn"): [5.0, 90.0]}
    raw |= {("atari/pong", "sv-dqn"): [10.0], ("atari/breakout", "sv-dqn"): [400.0]}
    specs = {
        (env, arm, seed): training(env, arm, seed) for (env, arm), found in raw.items() for seed in range(len(found))
    }
    store = sweep_of(tmp_path, specs.values())
    for (env, arm, seed), spec in specs.items():
        finish(store, spec, raw[env, arm][seed])
    seen = look(store, list(specs.values()))
    assert seen["measure"]["name"] == "human_normalised"
    normal = {key: [human_normalised(key[0], score) for score in found] for key, found in raw.items()}
    pong = next(group for group in seen["groups"] if (group["subject"], group["variant"]) == ("atari/pong", "dqn"))
    assert pong["mean"] == pytest.approx(np.mean(normal["atari/pong", "dqn"]))
    assert (pong["mean_low"], pong["mean_high"]) == pytest.approx(mean_interval(normal["atari/pong", "dqn"]))
    assert pong["best"] == pytest.approx(max(normal["atari/pong", "dqn"]))
    overall = {group["variant"]: group for group in seen["variants"]}
    games_of_dqn = [np.array(normal[env, "dqn"]) for env in ("atari/pong", "atari/breakout")]
    assert overall["dqn"]["iqm"] == pytest.approx(float(stats.iqm(games_of_dqn)))
    assert (overall["dqn"]["iqm_low"], overall["dqn"]["iqm_high"]) == stats.stratified_interval(stats.iqm, games_of_dqn)
    assert overall["dqn"]["subject"] is None
    assert (overall["sv-dqn"]["mean_low"], overall["sv-dqn"]["iqm_low"]) == (None, None)  # one seed has no interval
    assert seen["totals"]["best"]["label"] == "atari/breakout sv-dqn seed 0"


def test_raw_scores_of_several_environments_are_not_taken_together(tmp_path):
    specs = [training("CartPole-v1"), training("Acrobot-v1")]
    store = sweep_of(tmp_path, specs)
    finish(store, specs[0], 200.0)
    finish(store, specs[1], -90.0)
    seen = look(store, specs)
    assert seen["variants"] == []
    assert seen["totals"]["best"] is None
    assert seen["measure"]["reason"] == "scores of 2 environments are on 2 scales"
    assert [group["mean"] for group in seen["groups"]] == [200.0, -90.0]


def test_settings_that_vary_are_not_averaged_over(tmp_path):
    specs = [training(batch_size=size, seed=seed) for size in (32, 64) for seed in (0, 1)]
    specs += [training(arm="sv-dqn", batch_size=32, p=0.9)]
    store = sweep_of(tmp_path, specs)
    for at, spec in enumerate(specs):
        finish(store, spec, float(at))
    groups = look(store, specs)["groups"]
    assert [(group["variant"], group["runs"], group["mean"]) for group in groups] == [
        ("dqn batch_size=32", 2, 0.5),
        ("dqn batch_size=64", 2, 2.5),
        ("sv-dqn batch_size=32", 1, 4.0),
    ]


def test_only_finished_runs_count_unless_none_is(tmp_path):
    specs = [training(seed=seed) for seed in range(3)]
    store = sweep_of(tmp_path, specs)
    begin(store, specs[0], [10])
    end(store, specs[0].id, "failed", reason="no")
    begin(store, specs[1], [20])
    group = look(store, specs)["groups"][0]
    assert (group["mean"], group["scored"], group["provisional"]) == (20.0, 1, True)  # a failed run is no evidence
    finish(store, specs[2], 70.0)
    group = look(store, specs)["groups"][0]
    assert (group["mean"], group["scored"], group["provisional"], group["done"]) == (70.0, 1, False, 1)


def test_plans_are_judged_by_what_their_policies_lose(tmp_path):
    specs = [plan("toy", seed=0), plan("cart-pole", seed=0), plan("toy", seed=1), plan("toy", seed=2)]
    store = sweep_of(tmp_path, specs)
    finish(store, specs[0], 0.25)
    finish(store, specs[1], 0.01)
    begin(store, specs[2])
    with store.working_on(specs[2].id):
        seen = look(store, specs)
    assert seen["measure"]["less_is_better"] is True
    assert seen["totals"]["best"]["label"] == "cart-pole svp seed 0"
    assert seen["totals"]["steps_in_all"] is None
    assert seen["runs"][0]["steps"] == 80
    assert seen["variants"][0]["mean"] == pytest.approx(0.13)
    assert seen["totals"]["eta_seconds"] == pytest.approx(20.0 * 1.5)


def test_a_finished_run_is_read_once(tmp_path):
    spec = training()
    store = sweep_of(tmp_path, specs := [spec])
    finish(store, spec, 5.0)
    seen = look(store, specs)
    shutil.rmtree(store.folder(spec.id))
    assert look(store, specs, before=seen)["runs"] == seen["runs"]


def test_runs_that_are_half_there_or_damaged_do_not_stop_a_look(tmp_path):
    specs = [training(seed=seed) for seed in range(5)]
    store = sweep_of(tmp_path, specs)
    shutil.rmtree(store.folder(specs[0].id))
    (store.folder(specs[1].id) / "spec.json").write_text('{"id": "ab')
    begin(store, specs[2])
    (store.folder(specs[2].id) / "run" / "result.json").write_text("{")
    begin(store, specs[3], [1, 2])
    with (store.folder(specs[3].id) / "run" / "episodes.jsonl").open("a") as file:
        file.write('{"steps": 30, "sco')
    finish(store, specs[4], None)
    (store.folder(specs[4].id) / "run" / "result.json").write_text("{}")
    seen = look(store, specs)
    assert [run["state"] for run in seen["runs"]] == ["waiting", "waiting", "failed", "stopped", "done"]
    assert seen["runs"][2]["reason"].startswith("Its files cannot be read: ")
    assert (seen["runs"][3]["steps"], seen["runs"][3]["score"]) == (20, 1.5)
    json.dumps(seen, allow_nan=False)


def test_looks_stand_runs_that_come_and_go_meanwhile(tmp_path):
    specs = [training(seed=seed) for seed in range(8)]
    store = sweep_of(tmp_path, specs)
    over = threading.Event()
    writing = Store(tmp_path)

    def change() -> None:
        while not over.is_set():
            for spec in specs:
                shutil.rmtree(writing.folder(spec.id), ignore_errors=True)
                writing.add(spec)
                finish(writing, spec, 1.0)

    writer = threading.Thread(target=change)
    writer.start()
    try:
        seen = [look(store, specs) for _ in range(60)]
    finally:
        over.set()
        writer.join()
    assert {len(overview["runs"]) for overview in seen} == {8}
    assert {run["state"] for run in look(store, specs)["runs"]} == {"done"}
