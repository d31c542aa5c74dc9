"""Documents spread over the processes that `torchrun` or `accelerate launch` started.

Every process reads the whole input, translates its share of the documents, and writes the results
to a file of its own; the main process joins the files in the order of the input. A translation does
not depend on the documents beside it, so the output is that of a single process.
"""

import heapq
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import torch.distributed

from iada.data.documents import Document
from iada.decoding.journal import create_file
from iada.decoding.wavefront import Alternative, DocumentTranslation
from iada.errors import RunError

Value = TypeVar("Value")
# Processes wait for the slowest one; the library's own limit is half an hour.
_PATIENCE = timedelta(days=30)


@dataclass(frozen=True)
class Processes:
    """The processes that share the work, and the place of this one among them."""

    rank: int = 0
    count: int = 1
    group: Any = None
    """Process group on CPUs; None for a single process."""

    @property
    def is_main(self) -> bool:
        """Whether this process writes the results."""
        return self.rank == 0

    def gather(self, value: Value) -> list[Value]:
        """Return the value of every process, in the order of their ranks; all must call it."""
        if self.count == 1:
            return [value]
        found: list[Any] = [None] * self.count
        try:
            torch.distributed.all_gather_object(found, value, group=self.group)
        except RuntimeError:
            raise RunError(
                "Another process of this command has stopped; see its message. Start the command "
                "again to resume."
            ) from None
        return found

    def assign(self, sizes: Sequence[int]) -> list[int]:
        """Return the rank that works on each item: the longest first, to whom has least to do."""
        loads = [(0, rank) for rank in range(self.count)]
        ranks = [0] * len(sizes)
        for number in sorted(range(len(sizes)), key=lambda i: (-sizes[i], i)):
            load, rank = heapq.heappop(loads)
            ranks[number] = rank
            heapq.heappush(loads, (load + sizes[number], rank))
        return ranks


SINGLE = Processes()
"""A process that works alone."""


def join_processes() -> Processes:
    """Return the processes that a launcher started together with this one."""
    if os.environ.get("WORLD_SIZE", "1") == "1":
        return SINGLE
    from iada.runs.environment import process_state

    state = process_state()
    if state.num_processes == 1:
        return SINGLE
    group = torch.distributed.new_group(backend="gloo", timeout=_PATIENCE)
    return Processes(state.process_index, state.num_processes, group)


def shard_file(output: Path, rank: int) -> Path:
    """Return the file in which a process collects its share of an output."""
    return output.with_name(f"{output.name}.shard{rank}")


def write_shard(
    path: Path, numbers: Iterable[int], translations: Iterator[DocumentTranslation]
) -> None:
    """Write translations as JSON lines, each with the number of its document in the input."""
    with create_file(path) as file:
        for number, translation in zip(numbers, translations, strict=True):
            sentences = [[[one.text, one.score] for one in n] for n in translation.alternatives]
            texts = translation.document.sentences
            line = [number, translation.document.name, texts, sentences]
            file.write(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n")


def read_shards(output: Path, ranks: Sequence[int]) -> Iterator[DocumentTranslation]:
    """Yield the translations of all documents, in the order of the input.

    Args:
        output: the file that is to be written.
        ranks: the process that has translated each document.
    """
    with ExitStack() as stack:
        files = [
            stack.enter_context(shard_file(output, rank).open(encoding="utf-8", newline="\n"))
            for rank in range(max(ranks) + 1)
        ]
        for expected, rank in enumerate(ranks):
            number, name, texts, alternatives = json.loads(files[rank].readline())
            if number != expected:
                raise RunError(
                    f"{files[rank].name} holds document {number + 1} where document "
                    f"{expected + 1} should be. Start the command again."
                )
            yield DocumentTranslation(
                Document(name, tuple(texts)),
                tuple(tuple(Alternative(*one) for one in found) for found in alternatives),
            )
