"""Source context from other documents, to see what a model loses without the right one.

Sentences are drawn from a sample of the input that is the same whatever the order and number of
documents in flight: each draw depends on the seed, the document, the sentence and the place alone.
"""

import random
from collections.abc import Iterable
from dataclasses import dataclass

from iada.data.documents import Document
from iada.errors import DataError

_SAMPLE = 10_000


@dataclass(frozen=True)
class ContextSample:
    """Sentences of an input, each with the number of its document."""

    sentences: tuple[tuple[int, str], ...]
    seed: int

    def context_of(self, number: int, document: Document, size: int) -> list[list[str]]:
        """Return other context for each sentence of a document, at most `size` sentences each."""
        others = [text for owner, text in self.sentences if owner != number]
        contexts = []
        for place in range(len(document)):
            draw = random.Random(f"{self.seed} {number} {place}")
            contexts.append([draw.choice(others) for _ in range(min(place, size))])
        return contexts


def sample_context(documents: Iterable[Document], seed: int) -> ContextSample:
    """Draw a bounded sample of the sentences of all documents, each with the same probability."""
    draw = random.Random(f"{seed} sample")
    kept: list[tuple[int, str]] = []
    seen = 0
    owners = set()
    for number, document in enumerate(documents):
        for sentence in filter(str.strip, document.sentences):
            seen += 1
            owners.add(number)
            if len(kept) < _SAMPLE:
                kept.append((number, sentence))
            elif (place := draw.randrange(seen)) < _SAMPLE:
                kept[place] = (number, sentence)
    if len(owners) < 2:
        raise DataError(
            "`decode.source_context: random` needs at least two documents with sentences, but "
            f"found {len(owners)}."
        )
    return ContextSample(tuple(kept), seed)
