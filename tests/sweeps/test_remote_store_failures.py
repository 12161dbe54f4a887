"""A remote store when machines and networks die, and a training that goes on from it elsewhere."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.sweeps.object_store import BUCKET, SECRET, ObjectStore, Watched, object_store, wire
from tests.sweeps.remote_rig import CODE, RUN, SPEC, content, fetched, fill, opened

from svrl.sweeps.lease import Timing, leased
from svrl.sweeps.remote_place import Manifest, RemotePlace
from svrl.sweeps.remote_store import RemoteStore
from svrl.sweeps.states import state_of

SLOW = Timing(renew=500.0, expire=1000.0, settle=0.0)
ALONE = Timing(renew=0.2, expire=2.0, settle=0.0)  # nobody to wait for
LEASE = f"{CODE}/{RUN}/lease.json"


@contextmanager
def dying(store: RemoteStore, witness: RemoteStore) -> Iterator[RemotePlace]:
    """A machine that dies in the block: OSError comes out of its save, or not, and its lease expires."""
    said = []
    try:
        with store.working_on(RUN) as place:
            yield place
    except OSError as error:
        said.append(error)
    witness.files.write(LEASE, b'{"owner": "expired", "until": 0}')
    for error in said:
        assert error.filename == store.address
        assert SECRET not in str(error)
        assert "it cannot be reached" in str(error)
        assert "AWS_ENDPOINT_URL" in str(error)


@pytest.mark.parametrize("half", [False, True], ids=["before", "answer lost"])
def test_a_save_that_dies_at_any_point_leaves_a_whole_moment(address: str, half: bool) -> None:
    witness = opened(address, ALONE)
    with witness.working_on(RUN) as place:
        fill(place.folder, 1)
    outcomes = []
    for fails_at in range(1, 100):
        store = opened(address, SLOW)
        with dying(store, witness) as place:
            before = content(place.folder)
            after = fill(place.folder, before["log.txt"].count(b"line") + 1)
            store.files.fs = watched = Watched(store.files.fs, fails_at, half=half)
            place.save()
        found = fetched(witness)
        assert found in (before, after)
        assert witness.rows(RUN, "episodes.jsonl", 1) == witness.rows(RUN, "episodes.jsonl")[-1:]
        outcomes.append(found == after)
        if len(watched.writes) < fails_at:
            break
    # All before the manifest, at least one for each kind of file, leave the former; all after it the new one.
    assert outcomes == sorted(outcomes)
    assert outcomes.count(False) >= 4 + (not half)
    assert outcomes.count(True) >= 2
    with witness.working_on(RUN) as place:
        last = fill(place.folder, 99, result=True)
    assert len(witness.files.names(f"{CODE}/{RUN}/files")) == len(last)  # no remains


@pytest.mark.parametrize("half", [False, True], ids=["before", "answer lost"])
@pytest.mark.parametrize("what", ["manifest", "lease", "files"])
def test_a_network_that_comes_back_loses_nothing(address: str, half: bool, what: str) -> None:
    store = opened(address, Timing(renew=0.1, expire=60.0, settle=0.0))
    with store.working_on(RUN) as place:
        fill(place.folder, 1)
        place.save()
        fill(place.folder, 2)
        real, store.files.fs = store.files.fs, Watched(store.files.fs, 1, half=half, only=what)
        while not store.files.fs.writes:
            try:
                place.save()
            except OSError:
                assert what != "lease"
        store.files.fs = real
        last = fill(place.folder, 3)
        place.save()
    assert fetched(address) == last


def test_a_lease_whose_last_answer_got_lost_is_given_back(address: str) -> None:
    store = opened(address, SLOW)
    with leased(store.files, LEASE, SLOW) as lease:
        real, store.files.fs = store.files.fs, Watched(store.files.fs, 1, half=True, only="lease")
        with pytest.raises(OSError, match="cannot be reached"):
            lease.renew()
        store.files.fs = real
    assert fetched(address) == {}  # nobody has to wait until it expires


def test_readers_stand_a_manifest_that_changes_under_them(address: str) -> None:
    store = opened(address)
    with opened(address).working_on(RUN) as place:
        fill(place.folder, 1)
        place.save()
        look = store.looked_at([RUN])
        for number in (2, 3, 4):
            fill(place.folder, number)
            place.save()
        assert [row["steps"] for row in look.rows(RUN, "episodes.jsonl")] == [10, 20, 30, 40]
    name = f"{CODE}/{RUN}/files"
    store.files.remove(f"{name}/{one}" for one in store.files.names(name))
    with pytest.raises(OSError, match="lists files that are not there"):
        opened(address).rows(RUN, "episodes.jsonl")
    with pytest.raises(OSError, match="missing or damaged"), opened(address).working_on(RUN):
        pass


def test_a_manifest_cannot_lead_out_of_its_folder() -> None:
    written = Manifest(owner="x").as_bytes().replace(b'"files": {}', b'"files": {"../x": {"object": "y", "bytes": 1}}')
    with pytest.raises(OSError, match="damaged"):
        Manifest.parsed(written)
    assert Manifest.parsed(Manifest(owner="x").as_bytes()) == Manifest(owner="x")


@pytest.mark.parametrize("address", ["s3"], indirect=True)
def test_a_network_that_breaks_in_the_middle_leaves_the_former_moment(
    address: str, server: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    witness = opened(address, ALONE)
    with witness.working_on(RUN) as place:
        former = fill(place.folder, 1)
    for sent in (0, 700, 3000, 6000, 9000):
        store = opened(address, SLOW)
        with dying(store, witness) as place, wire(server.port, breaks_after=sent) as (port, broken):
            fill(place.folder, 2)
            monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
            store.files.fs = opened(address).files.fs
            with pytest.raises(OSError, match="it cannot be reached"):
                place.save()
            assert broken.is_set()
            monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.port}")
        assert fetched(witness) == former


def test_no_server_no_bucket_and_no_rights_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(address: str) -> OSError:
        store = RemoteStore(address=address, code=CODE)
        with pytest.raises(OSError) as error:  # noqa: PT011
            store.result(RUN)
        for act in (lambda: store.add(SPEC), lambda: store.working_on(RUN).__enter__(), store.sweeps):
            with pytest.raises(OSError) as other:  # noqa: PT011
                act()
            for said in (str(error.value), str(other.value)):
                assert SECRET not in said
                assert address in said
        return error.value

    with object_store() as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        assert "there is no such bucket; make it" in str(refused("s3://nowhere/prefix"))
        server.ask_for_rights()
        no_rights = refused(f"s3://{BUCKET}/prefix")
        assert isinstance(no_rights, PermissionError)
        assert "check the rights there, and the credentials" in str(no_rights)
    assert "it cannot be reached" in str(refused(f"s3://{BUCKET}/prefix"))
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
    monkeypatch.setenv("AWS_CONFIG_FILE", os.devnull)
    assert isinstance(refused(f"s3://{BUCKET}/prefix"), PermissionError)


def test_addresses_that_cannot_be_opened_are_told_at_once() -> None:
    for missing in ("s3fs", "fsspec.core"):
        code = f"import sys; sys.modules[{missing!r}] = None\n"
        code += "from svrl.sweeps.store import open_store; open_store('s3://bucket/prefix', 'code')"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        said = done.stderr.splitlines()[-1]
        assert said.startswith("ValueError: A store at s3:// needs ")
        assert said.endswith("Run: pip install 'svrl[s3]'")
    with pytest.raises(ValueError, match=r"fsspec knows no nowhere:// addresses"):
        RemoteStore(address="nowhere://somebody:password@place", code=CODE)


def test_fsspecs_own_settings_name_the_endpoint(server: ObjectStore) -> None:
    others = {name: value for name, value in server.environment().items() if name != "AWS_ENDPOINT_URL"}
    url = server.environment()["AWS_ENDPOINT_URL"]
    code = (
        f"from svrl.sweeps.store import open_store; store = open_store('s3://{BUCKET}/settings', 'code'); "
        "store.keep_sweep('a', {}); assert store.sweeps() == ['a']"
    )
    for named in ({"FSSPEC_S3_ENDPOINT_URL": url}, {"FSSPEC_S3": json.dumps({"endpoint_url": url})}):
        kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        subprocess.run([sys.executable, "-c", code], env={**kept, **others, **named}, check=True)


def train(folder: Path, *, resume: bool) -> subprocess.Popen:
    words = [*SPEC.argv(folder / "run", resume=resume, threads=1), "--checkpoint-every", "0.05"]
    with (folder / "log.txt").open("ab") as log:
        return subprocess.Popen([sys.executable, "-m", "svrl", *words], stdout=log, stderr=log)


def outcome(files: Mapping[str, bytes]) -> dict[str, Any]:
    """What two equal runs have in common."""
    result = json.loads(files["run/result.json"])
    result = {name: value for name, value in result.items() if name not in ("run", "steps_per_second")}
    return {"result": result, **{name: text for name, text in files.items() if name.endswith("s.jsonl")}}


def train_a_while(store: RemoteStore, place: RemotePlace) -> subprocess.Popen:
    """Train and save at whatever moments, until there are 20 games more in the store."""
    begun = len(store.rows(RUN, "episodes.jsonl"))
    training = train(place.folder, resume=store.has_begun(RUN))
    while len(store.rows(RUN, "episodes.jsonl")) < begun + 20:
        assert training.poll() is None, (place.folder / "log.txt").read_text()
        place.save()
        time.sleep(0.02)
    return training


@pytest.mark.parametrize("address", ["s3"], indirect=True)
def test_a_training_goes_on_elsewhere_and_becomes_what_it_would_have_been(address: str, tmp_path: Path) -> None:
    assert train(tmp_path, resume=False).wait() == 0
    opened(address).add(SPEC)
    stopped = opened(address)
    with stopped.working_on(RUN) as place:
        training = train_a_while(stopped, place)
        training.send_signal(signal.SIGTERM)
        assert training.wait() == 128 + signal.SIGTERM
    killed = opened(address, SLOW)
    with dying(killed, stopped) as place:
        training = train_a_while(killed, place)
        killed.files.fs = Watched(killed.files.fs, 1)  # the whole machine, between two saves
        training.send_signal(signal.SIGKILL)
        training.wait()
    assert state_of(opened(address), RUN) == "stopped"
    last = opened(address)
    with last.working_on(RUN) as place:
        assert any(name.startswith("run/checkpoints/") for name in content(place.folder))
        assert train_a_while(last, place).wait() == 0
    found = fetched(address)
    assert outcome(found) == outcome(content(tmp_path))
    assert len(outcome(found)) == 3  # the result, episodes and evaluations
    assert not any("checkpoints" in name for name in found)
    assert last.result(RUN)["steps"] == SPEC.steps
