"""The token store: every sentence of a corpus once, as integers.

Windows are index arithmetic over it, so three context sentences cost no memory. In a prepared
folder the arrays are memory-mapped: processes on one machine share them, and a corpus may be
larger than memory.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from iada.data.documents import ParallelDocument
from iada.data.tokens.ciphers import Ciphers
from iada.data.tokens.subwords import SpecialIds, SubwordEncoding
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

    def cut(self, places: Sequence[int], sep: int) -> "Side":
        """Return the side with `sep` put in at ascending places of `ids`: a sentence ends there."""
        offsets = np.asarray(self.offsets)
        shifted = offsets + np.searchsorted(places, offsets)
        added = np.asarray(places, np.int64) + np.arange(1, len(places) + 1)
        ids = np.insert(np.asarray(self.ids), places, sep)
        return Side(ids, np.sort(np.concatenate([shifted, added])))

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
    ciphered: tuple[Side, ...] = ()
    """The source once more for each cipher, where windows have an enciphered view."""

    @property
    def sides(self) -> tuple[Side, ...]:
        """Everything that a window is cut from: source, target, enciphered sources."""
        return (self.source, self.target, *self.ciphered)

    def __len__(self) -> int:
        return len(self.source.offsets) - 1

    @cached_property
    def document_of(self) -> Offsets:
        """(sentences,): number of each sentence's document."""
        sizes = np.diff(self.document_starts)
        return np.repeat(np.arange(len(sizes)), sizes)

    def cut(self, cuts: Mapping[int, Sequence[Sequence[int]]]) -> "TokenStore":
        """Return a store in which some sentences are several.

        Args:
            cuts: for each sentence to cut, and each side of `sides`, after how many of its tokens
                to cut; as many times on every side.
        """
        sentences = sorted(cuts)
        extra = np.zeros(len(self), np.int64)
        extra[sentences] = [len(cuts[sentence][0]) for sentence in sentences]
        before = np.concatenate(([0], np.cumsum(extra)))
        sides = [
            side.cut(
                [int(side.offsets[n]) + place for n in sentences for place in cuts[n][number]],
                self.special.sep,
            )
            for number, side in enumerate(self.sides)
        ]
        starts = np.asarray(self.document_starts)
        return TokenStore(
            sides[0],
            sides[1],
            starts + before[starts],
            self.document_names,
            self.special,
            tuple(sides[2:]),
        )

    @classmethod
    def build(
        cls,
        documents: Sequence[ParallelDocument],
        subwords: SubwordEncoding,
        *,
        ciphers: Ciphers | None = None,
    ) -> "TokenStore":
        """Encode documents in memory, and their source with each cipher if some are given."""
        sizes = np.array([len(document) for document in documents], dtype=np.int64)
        source = [sentence for document in documents for sentence in document.source.sentences]
        target = [sentence for document in documents for sentence in document.target.sentences]
        sep = subwords.special.sep
        enciphered = [] if ciphers is None else [ciphers.encipher(source, k) for k in ciphers.keys]
        return cls(
            source=Side.of(subwords.encode(source, "source"), sep),
            target=Side.of(subwords.encode(target, "target"), sep),
            document_starts=np.concatenate(([0], np.cumsum(sizes))),
            document_names=tuple(document.name for document in documents),
            special=subwords.special,
            ciphered=tuple(Side.of(subwords.encode(text, "source"), sep) for text in enciphered),
        )

    @classmethod
    def open(
        cls, folder: Path, special: SpecialIds, *, dtype: str, cipher_keys: Sequence[int] = ()
    ) -> "TokenStore":
        """Map the arrays that a `StoreWriter` wrote.

        Args:
            folder: where it wrote them.
            special: ids of the special tokens.
            dtype: type of the ids on disk.
            cipher_keys: keys of the enciphered sources to map, which must have been written.
        """

        def side(name: str) -> Side:
            offsets = _mapped(folder / f"{name}.offsets", "<i8")
            return Side(_mapped(folder / f"{name}.ids", dtype), offsets)

        return cls(
            source=side("source"),
            target=side("target"),
            ciphered=tuple(side(ciphered_name(key)) for key in cipher_keys),
            document_starts=_mapped(folder / "documents.starts", "<i8"),
            document_names=FileLines(folder / "documents.names"),
            special=special,
        )


class StoreWriter:
    """Write a token store in pieces; memory does not grow with the corpus."""

    def __init__(
        self, folder: Path, *, sep: int, dtype: str, cipher_keys: Sequence[int] = ()
    ) -> None:
        """Begin a store.

        Args:
            folder: an existing folder for the files.
            sep: id that follows every sentence.
            dtype: type of the ids on disk, as `id_type` gives it.
            cipher_keys: keys of the enciphered sources that `add` will be given.
        """
        self.sep = sep
        self.dtype = np.dtype(dtype)
        self.sentences = 0
        self.documents = 0
        self._sides = ("source", "target", *map(ciphered_name, cipher_keys))
        self.tokens = dict.fromkeys(self._sides, 0)
        """Tokens of each side, `<sep>` not counted."""
        self._ends = dict.fromkeys(self._sides, 0)
        offsets = [f"{side}.offsets" for side in self._sides]
        files = [f"{side}.ids" for side in self._sides]
        files += [*offsets, "documents.starts", "documents.names"]
        self._files = {name: (folder / name).open("wb") for name in files}
        for name in (*offsets, "documents.starts"):
            self._write(name, np.zeros(1, "<i8"))

    def add(
        self,
        source: Ids,
        target: Ids,
        sizes: Sequence[int],
        names: Sequence[str],
        ciphered: Sequence[Ids] = (),
    ) -> None:
        """Append documents.

        Args:
            source: (tokens,) the documents' source sentences, each followed by `<sep>`.
            target: (tokens,) their target sentences likewise.
            sizes: sentences of each document.
            names: name of each document.
            ciphered: (tokens,) per cipher, their enciphered source sentences likewise.
        """
        count = sum(sizes)
        for side, ids in zip(self._sides, (source, target, *ciphered), strict=True):
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


def ciphered_name(key: int) -> str:
    """Return the name of the source enciphered with a key among the sides of a store."""
    return f"cipher-{key}"


def id_type(vocabulary_size: int) -> str:
    """Return the smallest type that holds every id, little-endian whatever the machine."""
    return "<u2" if vocabulary_size <= 2**16 else "<u4"


class FileLines(Sequence[str]):
    """Lines of a text file, read when the first of them is needed."""

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
