"""Every sentence once, as one flat array of token ids per side.

Each sentence is followed by `<sep>`, so that a window of consecutive sentences is a plain slice
with its separators already in place. Windows are index arithmetic on the offsets.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from iada.data.documents import ParallelDocument
from iada.data.subwords import SpecialIds, Subwords

Ids = npt.NDArray[np.int32]
Offsets = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Side:
    """Token ids of all sentences of one language."""

    ids: Ids
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
    document_of: Offsets
    """(sentences,): number of each sentence's document."""
    document_starts: Offsets
    """(documents + 1,): first sentence of each document."""
    document_names: tuple[str, ...]
    special: SpecialIds

    def __len__(self) -> int:
        return len(self.document_of)

    @classmethod
    def build(cls, documents: Sequence[ParallelDocument], subwords: Subwords) -> "TokenStore":
        """Encode documents."""
        sizes = np.array([len(document) for document in documents], dtype=np.int64)
        source = [sentence for document in documents for sentence in document.source.sentences]
        target = [sentence for document in documents for sentence in document.target.sentences]
        return cls(
            source=Side.of(subwords.encode(source), subwords.special.sep),
            target=Side.of(subwords.encode(target), subwords.special.sep),
            document_of=np.repeat(np.arange(len(documents)), sizes),
            document_starts=np.concatenate(([0], np.cumsum(sizes))),
            document_names=tuple(document.name for document in documents),
            special=subwords.special,
        )
