"""The token store: every sentence of a corpus once, as integers.

Windows are index arithmetic over it, so three context sentences cost no memory. In a prepared
folder the arrays are memory-mapped: processes on one machine share them, and a corpus may be
larger than memory.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from iada.data.documents import ParallelDocument
from iada.data.subwords import SpecialIds, Subwords
from iada.errors import DataError

Ids = npt.NDArray[np.int32]
Offsets = npt.NDArray[np.int64]
StoredIds = npt.NDArray[Any]
"""Ids as they lie on disk: the smallest unsigned type that holds the vocabulary."""


@dataclass(frozen=True)
class Side:
    """Token ids of all sentences of one language."""

    ids: StoredIds
    """(tokens,): the sentences one after the other, each followed by `<sep>`."""
    offsets: Offsets
    """(sentences + 1,): where each sentence begins in `ids`."""

    @classmethod
    def of(cls, encoded: Sequence[Sequence[int]], sep: int) -> "Side":
        """Lay encoded sentences out one after the other."""
        lengths = np.fromiter((len(ids) + 1 for ids in encoded), np.int64, len(encoded))
        offsets = np.concatenate(([0], np.cumsum(lengths)))
        flat = (i for ids in encoded for i in (*ids, sep))
        return cls(np.fromiter(flat, np.int32, int(offsets[-1])), offsets)

    def lengths(self) -> Offsets:
        """(sentences,): tokens of each sentence, `<sep>` not counted."""
        return np.diff(self.offsets) - 1


@dataclass(frozen=True)
class TokenStore:
    """Token ids of a parallel corpus with its document boundaries."""

    source: Side
    target: Side
    document_starts: Offsets
    """(documents + 1,): first sentence of each document."""
    document_names: Sequence[str]
    special: SpecialIds

    def __len__(self) -> int:
        return len(self.source.offsets) - 1

    @cached_property
    def document_of(self) -> Offsets:
        """(sentences,): number of each sentence's document."""
        sizes = np.diff(self.document_starts)
        return np.repeat(np.arange(len(sizes)), sizes)

    @classmethod
    def build(cls, documents: Sequence[ParallelDocument], subwords: Subwords) -> "TokenStore":
        """Encode documents in memory."""
        sizes = np.array([len(document) for document in documents], dtype=np.int64)
        source = [sentence for document in documents for sentence in document.source.sentences]
        target = [sentence for document in documents for sentence in document.target.sentences]
        sep = subwords.special.sep
        return cls(
            source=Side.of(subwords.encode(source, "source"), sep),
            target=Side.of(subwords.encode(target, "target"), sep),
            document_starts=np.concatenate(([0], np.cumsum(sizes))),
            document_names=tuple(document.name for document in documents),
            special=subwords.special,
        )

    @classmethod
    def open(cls, folder: Path, special: SpecialIds, *, dtype: str) -> "TokenStore":
        """Map the arrays that a `StoreWriter` wrote."""
        return cls(
            source=Side(
                _mapped(folder / "source.ids", dtype), _mapped(folder / "source.offsets", "<i8")
            ),
            target=Side(
                _mapped(folder / "target.ids", dtype), _mapped(folder / "target.offsets", "<i8")
            ),
            document_starts=_mapped(folder / "documents.starts", "<i8"),
            document_names=FileLines(folder / "documents.names"),
            special=special,
        )


class StoreWriter:
    """Write a token store in pieces; memory does not grow with the corpus."""

    def __init__(self, folder: Path, *, sep: int, dtype: str) -> None:
        """Begin a store.

        Args:
            folder: an existing folder for the files.
            sep: id that follows every sentence.
            dtype: type of the ids on disk, as `id_type` gives it.
        """
        self.sep = sep
        self.dtype = np.dtype(dtype)
        self.sentences = 0
        self.documents = 0
        self.tokens = {"source": 0, "target": 0}
        """Tokens of each side, `<sep>` not counted."""
        names = ("source.ids", "source.offsets", "target.ids", "target.offsets")
        files = (*names, "documents.starts", "documents.names")
        self._files = {name: (folder / name).open("wb") for name in files}
        self._ends = {"source": 0, "target": 0}
        for name in ("source.offsets", "target.offsets", "documents.starts"):
            self._write(name, np.zeros(1, "<i8"))

    def add(self, source: Ids, target: Ids, sizes: Sequence[int], names: Sequence[str]) -> None:
        """Append documents.

        Args:
            source: (tokens,) the documents' source sentences, each followed by `<sep>`.
            target: (tokens,) their target sentences likewise.
            sizes: sentences of each document.
            names: name of each document.
        """
        count = sum(sizes)
        for side, ids in (("source", source), ("target", target)):
            ends = np.flatnonzero(ids == self.sep) + 1
            if len(ends) != count:
                raise ValueError(f"{len(ends)} {side} sentences for documents of {count}.")
            self._write(f"{side}.ids", ids.astype(self.dtype))
            self._write(f"{side}.offsets", (ends + self._ends[side]).astype("<i8"))
            self._ends[side] += len(ids)
            self.tokens[side] += len(ids) - count
        self._write("documents.starts", (np.cumsum(sizes) + self.sentences).astype("<i8"))
        self._files["documents.names"].write("".join(f"{name}\n" for name in names).encode())
        self.sentences += count
        self.documents += len(sizes)

    def close(self) -> None:
        """Close the files."""
        for file in self._files.values():
            file.close()

    def _write(self, name: str, array: npt.NDArray[Any]) -> None:
        self._files[name].write(array.tobytes())


def id_type(vocabulary_size: int) -> str:
    """Return the smallest type that holds every id, little-endian whatever the machine."""
    return "<u2" if vocabulary_size <= 2**16 else "<u4"


class FileLines(Sequence[str]):
    """Lines of a text file, read when the first of them is wanted."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    def _lines(self) -> list[str]:
        return self.path.read_text(encoding="utf-8").split("\n")[:-1]

    def __len__(self) -> int:
        return len(self._lines)

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...

    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        return self._lines[index]

    def __iter__(self) -> Iterator[str]:
        return iter(self._lines)


def _mapped(path: Path, dtype: str) -> npt.NDArray[Any]:
    if not path.is_file() or path.stat().st_size % np.dtype(dtype).itemsize:
        raise DataError(f"{path} is missing or damaged. Prepare the corpus again.")
    if path.stat().st_size == 0:
        # An empty file cannot be mapped.
        return np.zeros(0, dtype)
    return np.memmap(path, dtype=dtype, mode="r")
