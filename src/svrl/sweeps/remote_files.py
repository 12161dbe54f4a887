"""Files at an fsspec address: read, written whole, written only if nobody was faster; errors become sentences.

What fsspec's file systems do differently is evened out here:

- On S3 a put is whole or not there, and may carry a condition: If-None-Match (there is none yet) or If-Match (it is
  still the version that was read). Services that are compatible with S3 may ignore conditions; see `conditional`.
- In a local folder a file is written under another name and moved.
- Elsewhere a put is taken to be whole or not there, as it is with object stores, and there are no conditions.

Messages name the address, the kind of the error and what to do. What a library says is left out: it may hold secrets.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
_TRANSFERS = 8
"""Files on their way at a time."""
_CHANGED = (409, 412)
"""What S3 answers when a condition does not hold, or when two writers meet."""
_NO_CREDENTIALS = ("Credential", "Token", "Profile")
_UNREACHABLE = ("Connect", "Timeout", "Endpoint", "Connection", "HTTPClientError", "DNS")


class ChangedError(Exception):
    """Somebody else has written the file since it was read."""


class RemoteFiles:
    """Files below an address.

    Attributes:
        address: As it is shown: without a password, if it has one.
        fs: The file system, of fsspec.
        root: The address in the file system's own terms.
        conditional: Whether conditions of writes are kept; None if that is not known yet.
    """

    def __init__(self, address: str) -> None:
        self.address = re.sub(r"//[^/@]*@", "//", address).rstrip("/")
        self.fs, root = _opened(address)
        self.root: str = root.rstrip("/")
        protocol = self.fs.protocol
        protocols = (protocol,) if isinstance(protocol, str) else tuple(protocol)
        self._is_local = "file" in protocols
        self._is_s3 = "s3" in protocols
        self.conditional: bool | None = None if self._is_s3 else False

    def read(self, name: str, start: int = 0, end: int | None = None) -> bytes | None:
        """The content of a file, which is not empty, or some of its bytes; None if there is none."""
        try:
            with self._telling("read"):
                # With a start it is one request; without, s3fs asks for the size first.
                return bytes(self.fs.cat_file(self._path(name), start=start, end=end))
        except (FileNotFoundError, NotADirectoryError):
            return None

    def read_many(self, names: Sequence[str]) -> list[bytes | None]:
        """The contents of many files, asked for at once where the file system can."""
        if not names:
            return []
        with self._telling("read"):
            found = self.fs.cat_ranges([self._path(name) for name in names], 0, None, on_error="return")
        contents: list[bytes | None] = []
        for one in found:
            try:
                with self._telling("read"):
                    if isinstance(one, Exception):
                        raise one
                contents.append(bytes(one))
            except (FileNotFoundError, NotADirectoryError):
                contents.append(None)
        return contents

    def names(self, folder: str = "") -> list[str]:
        """Names of what is in a folder, sorted; none if there is no folder."""
        try:
            with self._telling("read"):
                found = self.fs.ls(self._path(folder), detail=False)
        except (FileNotFoundError, NotADirectoryError):
            return []
        return sorted({str(path).rstrip("/").rpartition("/")[2] for path in found})

    def version(self, name: str) -> str | None:
        """What a condition compares; None if there is no file, or no conditions."""
        if self.conditional is False:
            return None
        try:
            with self._telling("read"):
                return str(self.fs.info(self._path(name), refresh=True)["ETag"])
        except (FileNotFoundError, KeyError):
            return None

    def write(self, name: str, content: bytes) -> None:
        """Write a file; it is the old one or the whole new one."""
        with self._telling("written"):
            path = self._path(name)
            if not self._is_local:
                self.fs.pipe_file(path, content)
                return
            folder, _, last = path.rpartition("/")
            temporary = f"{folder}/.{last}-{secrets.token_hex(4)}"
            self.fs.makedirs(folder, exist_ok=True)
            try:
                self.fs.pipe_file(temporary, content)
                self.fs.mv(temporary, path)
            except BaseException:
                with suppress(OSError):
                    self.fs.rm_file(temporary)
                raise

    def write_if(self, name: str, content: bytes, version: str | None) -> str | None:
        """Write a file if it is still what was read; where there are no conditions, write it.

        Args:
            name: Of the file.
            content: All of it.
            version: What `version` said before the content was read, in this order; None if there was no file.

        Returns:
            The new version; None where there are no conditions.

        Raises:
            ChangedError: If it is not.
        """
        if self.conditional is False:
            self.write(name, content)
            return None
        condition = {"mode": "create"} if version is None else {"IfMatch": version}
        try:
            with self._telling("written", conditional=True):
                put = self.fs.pipe_file(self._path(name), content, **condition)
        except OSError as error:
            if error.errno != errno.ENOSYS:
                raise
            self.conditional = False  # a service that says so
            self.write(name, content)
            return None
        return str(put["ETag"])

    def find_out_conditions(self, name: str, content: bytes) -> bool:
        """Whether conditions are kept, tried out once with a file that holds this content already."""
        if self.conditional is None:
            kept = 0
            for version in (None, '"00000000000000000000000000000000"'):
                try:
                    self.write_if(name, content, version)
                except ChangedError:
                    kept += 1
            self.conditional = kept == 2
        return self.conditional

    def upload(self, pairs: Iterable[tuple[Path, str]]) -> None:
        """Copy local files here."""

        def put(pair: tuple[Path, str]) -> None:
            with self._telling("written"):
                path = self._path(pair[1])
                if self._is_local:
                    self.fs.makedirs(path.rpartition("/")[0], exist_ok=True)
                self.fs.put_file(str(pair[0]), path)

        _at_once(put, pairs)

    def download(self, pairs: Iterable[tuple[str, Path]]) -> None:
        """Copy files from here; FileNotFoundError if one is not there."""

        def get(pair: tuple[str, Path]) -> None:
            pair[1].parent.mkdir(parents=True, exist_ok=True)
            with self._telling("read"):
                self.fs.get_file(self._path(pair[0]), str(pair[1]))

        _at_once(get, pairs)

    def remove(self, names: Iterable[str]) -> None:
        """Remove files that are of no more use; what cannot be removed now stays."""

        def remove(name: str) -> None:
            with suppress(OSError), self._telling("removed"):
                self.fs.rm_file(self._path(name))

        _at_once(remove, names)

    def error(self, number: int, text: str) -> OSError:
        """An error about this address; the text is a sentence without its subject and its full stop."""
        return OSError(number, text, self.address)

    def _path(self, name: str) -> str:
        return f"{self.root}/{name}" if name else self.root

    @contextmanager
    def _telling(self, done: str, conditional: bool = False) -> Iterator[None]:
        """Turn what libraries raise into OSError with a sentence, but for files that are not there."""
        try:
            yield
        except Exception as error:  # every library has errors of its own
            if _code_of(error) == "NoSuchBucket":
                raise self.error(errno.ENXIO, "there is no such bucket; make it, or give another address") from None
            is_missing = isinstance(error, FileNotFoundError | NotADirectoryError)
            if conditional and (is_missing or isinstance(error, FileExistsError) or _status_of(error) in _CHANGED):
                raise ChangedError from None
            if is_missing:
                raise
            raise self._sentence(error, done) from None

    def _sentence(self, error: Exception, done: str) -> OSError:
        kind = _code_of(error) or type(error).__name__
        number = error.errno if isinstance(error, OSError) else None
        if isinstance(error, PermissionError) or _is_named(error, _NO_CREDENTIALS):
            return self.error(
                errno.EACCES,
                f"it may not be {done} ({kind}); check the rights there, and the credentials or the profile in use",
            )
        if isinstance(error, TimeoutError | ConnectionError) or _is_named(error, _UNREACHABLE):
            return self.error(
                errno.EHOSTUNREACH,
                f"it cannot be reached ({kind}); check the network and the endpoint (AWS_ENDPOINT_URL), and try again",
            )
        why = f"{kind}: {os.strerror(number)}" if number else kind
        return self.error(number or errno.EIO, f"it could not be {done} ({why}); repair that, and try again")


def _opened(address: str) -> tuple[Any, str]:
    protocol = address.partition("://")[0]
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise ValueError(
            f"A store at {protocol}:// needs fsspec, which is not installed. Run: pip install 'svrl[s3]'"
        ) from None
    try:
        return url_to_fs(address, use_listings_cache=False, skip_instance_cache=True)
    except ImportError as error:
        if protocol in ("s3", "s3a"):
            raise ValueError(
                f"A store at {protocol}:// needs s3fs, which is not installed. Run: pip install 'svrl[s3]'"
            ) from None
        raise ValueError(f"A store at {protocol}:// needs a library that is not installed. {error}.") from None
    except ValueError:
        raise ValueError(
            f"fsspec knows no {protocol}:// addresses. Give a folder, or an address such as s3://bucket/prefix."
        ) from None


def _at_once(work: Callable[[T], None], pieces: Iterable[T]) -> None:
    with ThreadPoolExecutor(_TRANSFERS) as pool:
        list(pool.map(work, pieces))


def _response_of(error: BaseException) -> dict[str, Any]:
    """What the service answered; s3fs puts errors of its own in front of it."""
    for one in (error, error.__cause__):
        found = getattr(one, "response", None)
        if isinstance(found, dict):
            return found
    return {}


def _code_of(error: BaseException) -> str | None:
    code = _response_of(error).get("Error", {}).get("Code")
    return str(code) if code else None


def _status_of(error: BaseException) -> int | None:
    status = _response_of(error).get("ResponseMetadata", {}).get("HTTPStatusCode")
    return int(status) if status else None


def _is_named(error: Exception, parts: Sequence[str]) -> bool:
    return any(part in kind.__name__ for kind in type(error).__mro__ for part in parts)
