"""A store at an address: the same answers as a folder, one owner at a time, and what the next one finds."""

from __future__ import annotations

import json
import pickle
import signal
import subprocess
import sys
import threading
import time

import pytest
from tests.sweeps.object_store import Watched
from tests.sweeps.remote_rig import CODE, QUICK, RUN, SPEC, content, fetched, fill, opened

from svrl.sweeps.lease import LostLeaseError, Timing
from svrl.sweeps.run_spec import RunSpec
from svrl.sweeps.states import state_of, steps_done
from svrl.sweeps.store import BusyError, open_store


def test_sweeps_specs_and_attempts_are_kept(address: str) -> None:
    store = opened(address)
    assert (store.sweeps(), store.sweep("one"), store.codes(), store.attempts(RUN)) == ([], None, [], [])
    with pytest.raises(FileNotFoundError):
        store.spec(RUN)
    store.keep_sweep("one", {"runs": [RUN]})
    store.keep_sweep("one", {"runs": [RUN], "code": CODE})
    store.add(SPEC)
    store.add(SPEC)
    rows = [{"attempt": 1, "began": "t"}, {"attempt": 1, "outcome": "stopped"}, {"retry": "t"}]
    for row in rows:
        store.note(RUN, row)
    again = pickle.loads(pickle.dumps(open_store(address, CODE)))
    assert again.spec(RUN) == SPEC
    assert (again.sweeps(), again.sweep("one")) == (["one"], {"runs": [RUN], "code": CODE})
    assert (again.codes(), again.attempts(RUN), again.code, again.address) == ([CODE], rows, CODE, address)


def test_a_run_passes_through_its_states(address: str) -> None:
    store = opened(address)
    store.add(SPEC)
    assert state_of(store, RUN) == "waiting"
    with store.working_on(RUN) as place:
        assert state_of(store, RUN) == "running"
        assert RunSpec.from_json(json.loads((place.folder / "spec.json").read_text())) == SPEC
        fill(place.folder, 1)
    assert state_of(store, RUN) == "stopped"
    with store.working_on(RUN) as place:
        fill(place.folder, 2, result=True)
    assert state_of(store, RUN) == "done"
    assert store.result(RUN) == {"score_last_100": 9.5}
    assert steps_done(store, RUN) == 20


def test_rows_and_lines_are_read_from_the_end(address: str) -> None:
    store = opened(address)
    many = [{"steps": number, "score": 0.5} for number in range(9000)]  # several blocks
    with store.working_on(RUN) as place:
        fill(place.folder, 1)
        text = "".join(json.dumps(row) + "\n" for row in many)
        (place.folder / "run" / "learning.jsonl").write_text(text + '{"steps": 9000, "sc')  # being written
        (place.folder / "log.txt").write_text("".join(f"line {number}\n" for number in range(3000)))
        (place.folder / "run" / "empty.jsonl").touch()
    for look in (store, store.looked_at([RUN, "unknown"])):
        assert look.rows(RUN, "learning.jsonl") == many
        for last in (0, 1, 2, 100, 2500, 10_000):
            assert look.rows(RUN, "learning.jsonl", last) == (many[-last:] if last else [])
        assert look.log_tail(RUN, 3) == ["line 2997", "line 2998", "line 2999"]
        assert (look.rows(RUN, "none.jsonl"), look.rows(RUN, "empty.jsonl"), look.rows(RUN, "empty.jsonl", 1)) == (
            [],
            [],
            [],
        )
        assert (look.rows("unknown", "learning.jsonl"), look.log_tail("unknown", 3)) == ([], [])
        assert (state_of(look, RUN), state_of(look, "unknown")) == ("stopped", "waiting")


def test_the_next_owner_gets_the_same_bytes(address: str) -> None:
    for number in range(1, 5):
        with opened(address).working_on(RUN) as place:
            fill(place.folder, number)
            (place.folder / "run" / ".result-x.json").write_text("half")  # a temporary file
            place.save()
            expected = content(place.folder)
            (place.folder / "run" / "config.json").unlink()
            (place.folder / "run" / "config.json").write_text('{"steps": 1300}')
            expected["run/config.json"] = b'{"steps": 1300}'
    del expected["run/.result-x.json"]
    assert fetched(address) == expected
    store = opened(address)
    objects = store.files.names(f"{CODE}/{RUN}/files")
    assert len(objects) <= 2 * len(expected)
    with store.working_on(RUN) as place:
        fill(place.folder, 5, result=True)
    assert len(store.files.names(f"{CODE}/{RUN}/files")) == len(fetched(address))  # nothing else of a finished run


def test_nothing_is_written_when_nothing_has_changed(address: str) -> None:
    with opened(address).working_on(RUN) as place:
        fill(place.folder, 1)
    store = opened(address)
    store.files.fs = watched = Watched(store.files.fs, only="files/")
    with store.working_on(RUN) as place:
        place.save()
        manifest = store.files.read(f"{CODE}/{RUN}/manifest.json")
        place.save()
        assert watched.writes == []
        with (place.folder / "run" / "episodes.jsonl").open("a") as rows:
            rows.write('{"steps": 20}\n')
        place.save()
        assert ["-000001-episodes.jsonl" in line for line in watched.writes if "pipe" in line] == [True]
        assert store.files.read(f"{CODE}/{RUN}/manifest.json") != manifest


def test_of_many_who_want_a_run_one_gets_it(address: str) -> None:
    tries, owners = 3, 4
    start, end = threading.Barrier(owners), threading.Barrier(owners)
    held: list[list[str]] = [[] for _ in range(tries)]

    def want(one: int) -> None:
        store = opened(address)
        for number in range(tries):
            start.wait()
            try:
                with store.working_on(RUN) as place:
                    held[number].append(f"owner {one}")
                    (place.folder / "log.txt").write_text(f"{number} {one}")
                    end.wait()
            except BusyError:
                end.wait()

    threads = [threading.Thread(target=want, args=(one,)) for one in range(owners)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [len(owners) for owners in held] == [1] * tries
    store = opened(address)
    assert store.files.conditional is (None if address.startswith("s3") else False)
    assert fetched(store)["log.txt"].decode() == f"{tries - 1} {held[-1][0][-1]}"
    assert store.files.conditional is address.startswith("s3")


OWNER = """
import sys, time
from pathlib import Path
from svrl.sweeps.lease import Timing
from svrl.sweeps.remote_store import RemoteStore
store = RemoteStore(address=sys.argv[1], code=sys.argv[2], timing=Timing(renew=0.2, expire=3.0, settle=0.1))
with store.working_on(sys.argv[3]) as place:
    (place.folder / "log.txt").write_text("saved")
    place.save()
    (place.folder / "log.txt").write_text("not saved")
    print("holds it", flush=True)
    time.sleep(1000)
"""


@pytest.mark.parametrize("address", ["file", "s3"], indirect=True)
def test_a_killed_owners_run_is_taken_over_when_its_lease_has_expired(address: str) -> None:
    command = [sys.executable, "-c", OWNER, address, CODE, RUN]
    owner = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert owner.stdout.readline() == "holds it\n"
        time.sleep(3.2)  # longer than a lease: it is renewed
        store = opened(address)
        assert store.is_running(RUN)
        with pytest.raises(BusyError), store.working_on(RUN):
            pass
    finally:
        owner.send_signal(signal.SIGKILL)
        owner.wait()
    while store.is_running(RUN):
        time.sleep(0.1)
    assert fetched(address) == {"log.txt": b"saved"}


@pytest.mark.parametrize("how", ["unreachable", "taken over", "taken over unseen"])
def test_who_has_lost_a_run_saves_nothing_more(address: str, how: str) -> None:
    first = opened(address, Timing(renew=500.0, expire=1000.0, settle=0.1) if how.endswith("unseen") else QUICK)

    def lose() -> None:
        with first.working_on(RUN) as place:
            mine = fill(place.folder, 1)
            place.save()
            fill(place.folder, 2)
            if how == "unreachable":
                first.files.fs = Watched(first.files.fs, 1, only="lease")
                while opened(address).is_running(RUN):
                    time.sleep(0.1)
            else:
                opened(address).files.write(f"{CODE}/{RUN}/lease.json", b'{"owner": "clocks differ", "until": 0}')
            with opened(address).working_on(RUN) as other:
                assert content(other.folder) == mine
                fill(other.folder, 3)
                other.save()
                with pytest.raises(LostLeaseError, match="the same command goes on from the last save"):
                    place.save()

    with pytest.raises(LostLeaseError, match="does not hold the run any more"):
        lose()
    assert [row["steps"] for row in opened(address).rows(RUN, "episodes.jsonl")] == [10, 30]
    assert "run/checkpoints/000000003.npz" in fetched(address)
