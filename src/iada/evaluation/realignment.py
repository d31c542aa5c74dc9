"""Re-align translations whose documents have other numbers of sentences than the references.

Systems that translate whole documents join and split sentences, and line scores need pairs. The
sentences of a document are paired by dynamic programming that maximises chrF, weighted by the
length of the reference; a translation of several references is cut between words in the same way.
No word is lost or moved, so document scores stay what they were.
"""

from collections.abc import Iterator, Sequence
from functools import cache

from sacrebleu.metrics.chrf import CHRF

from iada.data.documents import Document

_MOST_JOINED = 4
"""Most sentences of one side that stand for one of the other in a pair."""
_BAND = 12
"""How far from the diagonal pairs may lie, in sentences, beside the difference in length."""


def realign_documents(
    documents: Sequence[Document], references: Sequence[Document]
) -> tuple[list[Document], int]:
    """Give every document as many sentences as its reference.

    Returns:
        The documents, and how many of them had to be re-aligned.
    """
    aligned = []
    changed = 0
    for document, reference in zip(documents, references, strict=True):
        if len(document) == len(reference):
            aligned.append(document)
        else:
            changed += 1
            texts = realign(document.sentences, reference.sentences)
            aligned.append(Document(document.name, tuple(texts)))
    return aligned, changed


def realign(hypothesis: Sequence[str], reference: Sequence[str]) -> list[str]:
    """Return the text of the hypothesis that belongs to each sentence of the reference."""
    found: list[list[str]] = [[] for _ in reference]
    for start, stop, first, last in _pairs(hypothesis, reference):
        text = " ".join(hypothesis[start:stop])
        if first == last:
            # Text without a counterpart stays with the sentence before it, or the first.
            found[max(first - 1, 0)].append(text)
            continue
        for place, part in enumerate(_cut(text.split(), reference[first:last])):
            found[first + place].append(part)
    return [" ".join(filter(None, parts)) for parts in found]


def _pairs(
    hypothesis: Sequence[str], reference: Sequence[str]
) -> Iterator[tuple[int, int, int, int]]:
    """Yield spans of both sides that belong together, in order; one of them may be empty."""
    rows, columns = len(hypothesis), len(reference)
    band = _BAND + abs(rows - columns)
    score = cache(_score)
    best: dict[tuple[int, int], float] = {(0, 0): 0.0}
    back: dict[tuple[int, int], tuple[int, int]] = {}
    for row in range(rows + 1):
        centre = row * columns // rows if rows else 0
        low, high = (0, columns) if not rows else (centre - band, centre + band)
        for column in range(max(0, low), min(columns, high) + 1):
            if (row, column) == (0, 0):
                continue
            options = []
            for joined, several in _moves(row, column):
                before = (row - joined, column - several)
                if before in best:
                    own = " ".join(hypothesis[before[0] : row])
                    other = " ".join(reference[before[1] : column])
                    options.append((best[before] + score(own, other), before))
            if options:
                best[row, column], back[row, column] = max(options)
    place = (rows, columns)
    spans = []
    while place != (0, 0):
        before = back[place]
        spans.append((before[0], place[0], before[1], place[1]))
        place = before
    yield from reversed(spans)


def _moves(row: int, column: int) -> Iterator[tuple[int, int]]:
    """Yield how many sentences of each side the last pair may have."""
    yield from ((joined, 1) for joined in range(min(row, _MOST_JOINED) + 1) if column)
    yield from ((1, several) for several in range(2, min(column, _MOST_JOINED) + 1) if row)
    if row:
        yield 1, 0


def _cut(words: Sequence[str], references: Sequence[str]) -> list[str]:
    """Cut a text between words so that its parts fit the references best."""
    if len(references) == 1:
        return [" ".join(words)]
    size = len(words)
    best = [0.0] + [float("-inf")] * size
    cuts: list[list[int]] = []
    for reference in references:
        scored = [
            max((best[k] + _score(" ".join(words[k:end]), reference), k) for k in range(end + 1))
            for end in range(size + 1)
        ]
        best = [score for score, _ in scored]
        cuts.append([start for _, start in scored])
    parts = []
    end = size
    for column in reversed(cuts):
        parts.append(" ".join(words[column[end] : end]))
        end = column[end]
    return parts[::-1]


_CHRF = CHRF()


def _score(hypothesis: str, reference: str) -> float:
    """Return chrF times the length of the reference."""
    if not hypothesis.strip() or not reference.strip():
        return 0.0
    return len(reference) * float(_CHRF.sentence_score(hypothesis, [reference]).score)
