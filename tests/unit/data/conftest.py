"""Token stores from plain numbers, for tests of what is cut from them."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from iada.data.prepared.store import Side, TokenStore
from iada.data.tokens.subwords import SpecialIds

Pair = tuple[Sequence[int], Sequence[int]]


@pytest.fixture(scope="session")
def store_of(special: SpecialIds) -> Callable[..., TokenStore]:
    """Return a function from documents of (source, target) sentences of token ids to a store."""

    def build(*documents: Sequence[Pair]) -> TokenStore:
        pairs = [pair for document in documents for pair in document]
        sizes = [len(document) for document in documents]
        return TokenStore(
            source=Side.of([source for source, _ in pairs], special.sep),
            target=Side.of([target for _, target in pairs], special.sep),
            document_starts=np.concatenate(([0], np.cumsum(sizes))).astype(np.int64),
            document_names=tuple(f"doc{number}" for number in range(1, len(sizes) + 1)),
            special=special,
        )

    return build
