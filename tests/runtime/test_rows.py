from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from svrl.runtime import rows
from svrl.runtime.rows import RowLog, last_rows, read_rows


def steps_of(path: Path) -> list[int]:
    return [row["steps"] for row in read_rows(path)]


def test_rows_come_back_as_they_were(tmp_path: Path):
    path = tmp_path / "rows.jsonl"
    with RowLog(path) as log:
        log.append({"steps": 1, "score": 2.5, "scores": (1.0, 2.0), "who": "ä"})
        log.append({"steps": 2, "loss": float("nan"), "big": float("inf"), "scores": (1.0, float("nan"))})
    first, second = read_rows(path)
    assert first == {"steps": 1, "score": 2.5, "scores": [1.0, 2.0], "who": "ä"}
    assert second["loss"] is None
    assert second["loss_reason"] == "not finite: nan"
    assert second["big_reason"] == "not finite: inf"
    assert second["scores"] == [1.0, None]
    assert second["scores_reason"] == "some are not finite"


def test_rows_wait_until_they_are_flushed_or_a_moment_has_passed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "rows.jsonl"
    log = RowLog(path)
    assert read_rows(path) == last_rows(path, 3) == []
    log.append({"steps": 1})
    assert read_rows(path) == []
    log.flush()
    assert steps_of(path) == [1]
    log.append({"steps": 2})
    log.close()
    assert steps_of(path) == [1, 2]
    monkeypatch.setattr(rows, "SECONDS", 0.0)
    with RowLog(path) as log:
        log.append({"steps": 3})
        assert steps_of(path) == [1, 2, 3]


def test_a_resumed_log_drops_what_is_later_and_what_was_cut_off(tmp_path: Path):
    path = tmp_path / "rows.jsonl"
    whole = "".join(json.dumps({"steps": step}) + "\n" for step in (1, 5, 5, 9))
    path.write_text(whole + '{"steps": 12, "sco')
    with RowLog(path, up_to=5) as log:
        assert steps_of(path) == [1, 5, 5]
        log.append({"steps": 6})
    assert steps_of(path) == [1, 5, 5, 6]
    assert sorted(tmp_path.iterdir()) == [path]
    path.write_text(whole + '{"steps": 12')
    RowLog(path)
    assert path.read_text() == whole


def test_a_failed_cut_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"steps": 1}\n{"steps": 2}\n')
    monkeypatch.setattr(Path, "write_bytes", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="No space"):
        RowLog(path, up_to=1)
    assert steps_of(path) == [1, 2]
    assert sorted(tmp_path.iterdir()) == [path]


@settings(max_examples=60, deadline=None)
@given(
    lengths=st.lists(st.integers(0, 90), max_size=40),
    count=st.integers(0, 45),
    torn=st.sampled_from(["", "{", '{"steps": 7']),
    block=st.sampled_from([7, 64, 1 << 16]),
)
def test_the_last_rows_are_those_of_the_whole_file(tmp_path_factory, lengths, count, torn, block):
    path = tmp_path_factory.mktemp("rows") / "rows.jsonl"
    path.write_text("".join(json.dumps({"steps": k, "text": "x" * n}) + "\n" for k, n in enumerate(lengths)) + torn)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows, "_BLOCK", block)
        assert last_rows(path, count) == (read_rows(path)[-count:] if count else [])


def test_a_full_disk_is_named_with_its_file(tmp_path: Path):
    path = tmp_path / "rows.jsonl"
    code = (
        "import sys; from pathlib import Path; from svrl.runtime import rows\n"
        "rows.SECONDS = 0\n"
        "log = rows.RowLog(Path(sys.argv[1]))\n"
        "try:\n"
        "    for step in range(10_000): log.append({'steps': step})\n"
        "except OSError as error: print(error.filename)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)],
        capture_output=True,
        text=True,
        check=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)),
    )
    assert done.stdout.strip() == str(path)
    assert steps_of(path)[:3] == [0, 1, 2]
    RowLog(path)
    assert path.read_bytes().endswith(b"}\n"), "the line that was cut off is dropped"


@pytest.mark.parametrize("line", ["[" * 200_000, '{"steps": "many"}', '{"steps": null}'])
def test_lines_that_are_no_rows_are_dropped(tmp_path: Path, line: str):
    path = tmp_path / "rows.jsonl"
    path.write_text(f'{{"steps": 1}}\n{line}\n')
    assert steps_of(path) == [1]
    RowLog(path, up_to=5)
    assert path.read_text() == '{"steps": 1}\n'
