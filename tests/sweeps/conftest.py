"""Addresses of stores, and the server behind one kind of them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.sweeps.object_store import BUCKET, ObjectStore, object_store


@pytest.fixture(scope="module")
def server() -> Iterator[ObjectStore]:
    """An S3 server on loopback; skips the tests where moto is missing."""
    with object_store() as server:
        yield server


@pytest.fixture(params=["memory", "file", "s3"])
def address(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Of an empty store of each kind."""
    if request.param == "s3":
        for name, value in request.getfixturevalue("server").environment().items():
            monkeypatch.setenv(name, value)
        return f"s3://{BUCKET}/{uuid.uuid4().hex}"
    return f"memory://{uuid.uuid4().hex}" if request.param == "memory" else f"file://{tmp_path}/store"
