"""Blocks of sentences for document-level use of a segment metric (SLIDE, Raunak et al., 2024).

A window slides over each document; every block, joined to one segment, is scored as if it were a
sentence, and the scores are averaged.
"""

from collections.abc import Sequence

from iada.data.documents import Document
from iada.evaluation.segments import Segment


def block_starts(sentences: int, *, window: int, stride: int) -> list[int]:
    """Return where the blocks of a document begin.

    A document no longer than the window is one block. Otherwise blocks begin every `stride`
    sentences as long as they fit, and one more ends with the document if sentences were left over,
    so that every sentence counts.
    """
    if sentences == 0:
        return []
    last = max(sentences - window, 0)
    starts = list(range(0, last + 1, stride))
    return starts if starts[-1] == last else [*starts, last]


def blocks(
    sources: Sequence[Document],
    hypotheses: Sequence[Document],
    references: Sequence[Document],
    *,
    window: int,
    stride: int,
) -> list[list[Segment]]:
    """Return the blocks of each document.

    Args:
        sources: the source documents.
        hypotheses: their translations, aligned sentence by sentence.
        references: the reference translations, aligned likewise.
        window: sentences of a block; 1 gives the sentences themselves.
        stride: sentences from the start of a block to the start of the next.
    """
    found = []
    for triple in zip(sources, hypotheses, references, strict=True):
        starts = block_starts(len(triple[0]), window=window, stride=stride)
        texts = (
            [" ".join(document.sentences[start : start + window]) for document in triple]
            for start in starts
        )
        found.append([Segment(*text) for text in texts])
    return found
