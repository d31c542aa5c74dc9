"""What an engine has answered so far, on disk, so that a killed run goes on where it was.

Which requests are asked, and in which batches, follows from the input and the answers alone. So a
run that is begun again asks the same questions in the same order: the first ones are answered from
the journal, the rest by the engine, and the result is that of an unbroken run.
"""

import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from iada.decoding.requests import Engine, Hypothesis, Request
from iada.errors import RunError

logger = logging.getLogger(__name__)


class JournaledEngine:
    """An engine that remembers its answers in a file."""

    def __init__(self, engine: Engine, path: Path, settings: Mapping[str, object]) -> None:
        """Open a journal, or begin one.

        Args:
            engine: who answers what the journal does not know.
            path: the file. One that was written with other settings is begun anew.
            settings: everything that answers depend on.
        """
        self.engine = engine
        self.path = path
        self.replayed = 0
        """Number of batches that were answered from the journal."""
        self._header = json.dumps(settings, sort_keys=True).encode() + b"\n"
        self._file: BinaryIO = path.open("r+b" if path.is_file() else "w+b")
        first = self._file.readline()
        self._is_replay = first == self._header
        if not self._is_replay:
            if first:
                logger.info("%s is of other settings or other input; begun anew.", path)
            self._append_from(0, self._header)

    @property
    def name(self) -> str:
        """Name of the engine itself."""
        return self.engine.name

    def search(self, requests: Sequence[Request]) -> list[list[Hypothesis]]:
        """Return what was answered before, or ask the engine and write its answer down."""
        if self._is_replay:
            known = self._next_known(len(requests))
            if known is not None:
                self.replayed += 1
                return known
        found = self.engine.search(requests)
        plain = [[[h.tokens, h.score] for h in hypotheses] for hypotheses in found]
        line = json.dumps(plain, separators=(",", ":")).encode() + b"\n"
        self._append_from(self._file.tell(), line)
        return found

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _next_known(self, count: int) -> list[list[Hypothesis]] | None:
        """Read the next batch; None where the journal ends or was cut off by a kill."""
        start = self._file.tell()
        line = self._file.readline()
        try:
            batch = json.loads(line) if line.endswith(b"\n") else None
        except ValueError:
            batch = None
        if batch is None:
            self._is_replay = False
            self._file.seek(start)
            if self.replayed:
                logger.info("%s: %d batches were done already.", self.path, self.replayed)
            return None
        if len(batch) != count:
            raise RunError(
                f"{self.path} does not fit the input: batch {self.replayed + 1} has {len(batch)} "
                f"answers to {count} requests. Remove it to begin anew."
            )
        return [[Hypothesis(tuple(tokens), score) for tokens, score in one] for one in batch]

    def _append_from(self, place: int, line: bytes) -> None:
        """Write a line at a place and forget everything after it."""
        self._file.seek(place)
        self._file.truncate()
        self._file.write(line)
        self._file.flush()
