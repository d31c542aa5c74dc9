"""Nested subsets of a corpus, in whole documents.

Documents join in the order of one seeded permutation until the wanted share of the sentences is
reached. So 20% is part of 30%, and so on, and two systems with the same seed learn from the same
documents.
"""

import hashlib
import math
from fractions import Fraction
from typing import TypedDict

import numpy as np
import numpy.typing as npt

from iada.data.store import Offsets
from iada.seeding import derive_seed

SHARES = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
"""Shares of the low-resource experiments."""


class SubsetDescription(TypedDict):
    """What a manifest says of one subset."""

    share: float
    """Wanted share of the sentences."""
    documents: int
    """Number of documents."""
    sentences: int
    """Number of their sentences."""
    sha256: str
    """Hash of the document numbers."""


def subset_documents(document_sizes: Offsets, share: float, seed: int) -> Offsets:
    """Return the ascending numbers of the documents of a subset.

    Args:
        document_sizes: (documents,) sentences of each document.
        share: wanted share of the sentences, in (0, 1]; the fewest documents that reach it.
        seed: seed of the order in which documents join.
    """
    if share >= 1:
        return np.arange(len(document_sizes))
    order = np.random.default_rng(derive_seed(seed, "subset")).permutation(len(document_sizes))
    reached = np.cumsum(document_sizes[order])
    # Of the decimal number as written: 0.55 * 100 is more than 55 in floating point.
    wanted = math.ceil(Fraction(str(share)) * int(document_sizes.sum()))
    count = int(np.searchsorted(reached, wanted)) + 1
    return np.sort(order[:count])


def describe_subsets(document_sizes: Offsets, seed: int) -> list[SubsetDescription]:
    """Describe the subsets of all `SHARES`; `document_sizes` is (documents,)."""
    chosen = [(share, subset_documents(document_sizes, share, seed)) for share in SHARES]
    return [
        SubsetDescription(
            share=share,
            documents=len(documents),
            sentences=int(document_sizes[documents].sum()),
            sha256=sha256_of_numbers(documents),
        )
        for share, documents in chosen
    ]


def sha256_of_numbers(numbers: npt.NDArray[np.integer]) -> str:
    """Return the hash of integers as 64-bit little-endian values, the same on every machine."""
    return hashlib.sha256(np.ascontiguousarray(numbers, dtype="<i8").tobytes()).hexdigest()
