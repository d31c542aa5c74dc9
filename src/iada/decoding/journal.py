"""The files of a translation that is in progress: a journal of results, held by one process.

Which requests are made, and in which batches, follows from the input and the results alone. So a
resumed run makes the same requests in the same order: the first ones are answered from the journal,
the rest by the engine. Every entry carries a digest of its requests and results; where one does not
fit, the journal is used up to it, and the engine searches from there.

Names beside an output can be guessed, so none of these files is opened through a link.
"""

import errno
import hashlib
import json
import logging
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from iada.decoding.engines.interface import Engine, Hypothesis, Request
from iada.errors import RunError
from iada.storage import lock_file

logger = logging.getLogger(__name__)

_VERSION = 2
# Missing on systems without links of this kind.
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)


class JournaledEngine:
    """An engine that records its results in a file."""

    def __init__(
        self, engine: Engine, path: Path, file: BinaryIO, settings: Mapping[str, object]
    ) -> None:
        self.engine = engine
        self.path = path
        self.replayed = 0
        """Number of batches that were read from the journal."""
        self._file = file
        header = {"journal": _VERSION, **settings}
        line = json.dumps(header, sort_keys=True).encode() + b"\n"
        first = file.readline()
        self._is_replay = first == line
        if not self._is_replay:
            if first:
                logger.info("%s belongs to other settings or input; starting anew.", path)
            self._write_at(0, line)

    @property
    def name(self) -> str:
        """Name of the engine itself."""
        return self.engine.name

    def search(self, requests: Sequence[Request]) -> list[list[Hypothesis]]:
        """Return the recorded results, or let the engine search and record its results."""
        if self._is_replay:
            known = self._read_next(requests)
            if known is not None:
                self.replayed += 1
                return known
        found = self.engine.search(requests)
        results = [[[h.tokens, h.score] for h in hypotheses] for hypotheses in found]
        entry = {"digest": _digest(requests, results), "results": results}
        line = json.dumps(entry, separators=(",", ":")).encode() + b"\n"
        self._write_at(self._file.tell(), line)
        return found

    def _read_next(self, requests: Sequence[Request]) -> list[list[Hypothesis]] | None:
        """Read the next batch; None at the end of the journal, and from the first bad entry on."""
        start = self._file.tell()
        line = self._file.readline()
        # A kill can cut the last line short.
        is_whole = line.endswith(b"\n")
        results = _results(line, requests) if is_whole else None
        if results is None:
            self._is_replay = False
            self._file.seek(start)
            if is_whole:
                logger.warning(
                    "%s: entry %d is damaged or belongs to another input; searching again from "
                    "there.",
                    self.path,
                    self.replayed + 1,
                )
            if self.replayed:
                logger.info("%s: resuming after %d batches.", self.path, self.replayed)
            return None
        return [[Hypothesis(tuple(tokens), score) for tokens, score in one] for one in results]

    def _write_at(self, place: int, line: bytes) -> None:
        """Write a line at a place and remove everything after it."""
        self._file.seek(place)
        self._file.truncate()
        self._file.write(line)
        self._file.flush()


@contextmanager
def open_journal(
    engine: Engine, path: Path, settings: Mapping[str, object]
) -> Iterator[JournaledEngine]:
    """Continue a journal, or start one, and hold it against other processes.

    Args:
        engine: searches where the journal has no result.
        path: the file. One that was written with other settings is started anew.
        settings: everything that the results depend on.

    Raises:
        RunError: another process holds the journal, or its name is a link or no file.
    """
    with lock_file(path.with_name(f"{path.name}.lock"), f"writing {path}"):
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT | _NO_FOLLOW, 0o666)
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.EISDIR):
                raise
            raise RunError(_refusal(path)) from None
        with os.fdopen(handle, "r+b") as file:
            status = os.fstat(handle)
            # A file with a second name may be one that must not change.
            if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
                raise RunError(_refusal(path))
            yield JournaledEngine(engine, path, file, settings)


def create_file(path: Path) -> TextIO:
    """Create a text file to write; what has its name is removed, and a link is not followed."""
    if not path.is_dir():
        path.unlink(missing_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_FOLLOW, 0o666)
    return os.fdopen(handle, "w", encoding="utf-8", newline="\n")


def _refusal(path: Path) -> str:
    return f"{path} is a link or not a regular file. Remove it, or choose another `--output`."


def _results(line: bytes, requests: Sequence[Request]) -> list[Any] | None:
    """Return the results of an entry; None if it is damaged or answers other requests."""
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(entry, dict) or not isinstance(entry.get("results"), list):
        return None
    results: list[Any] = entry["results"]
    return results if entry.get("digest") == _digest(requests, results) else None


def _digest(requests: Sequence[Request], results: object) -> str:
    """Return a hash of what was searched for and what was found."""
    asked = [
        [r.source, r.prefix, r.max_new, r.min_new, r.may_separate, r.end, sorted(r.inputs.items())]
        for r in requests
    ]
    text = json.dumps([asked, results], separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]
