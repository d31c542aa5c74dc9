"""Score a file of translations against a file of references."""

from pathlib import Path

from iada.config.data import Boundaries
from iada.data.readers import (
    DOCUMENT_MARKER,
    Span,
    documents_of,
    read_lines,
    split_documents,
)
from iada.errors import DataError
from iada.evaluation.scores import evaluate


def score_files(hypothesis: Path, reference: Path, *, boundaries: Boundaries) -> dict[str, object]:
    """Score translations whose documents are those of the reference file.

    The reference says where documents begin; a hypothesis may be an empty line, which is an empty
    translation.
    """
    hypothesis_lines, reference_lines = read_lines(hypothesis), read_lines(reference)
    if len(hypothesis_lines) != len(reference_lines):
        raise DataError(
            f"{hypothesis} has {len(hypothesis_lines)} lines but {reference} has "
            f"{len(reference_lines)}. Score the translation of the very same lines."
        )
    spans = split_documents(reference_lines, boundaries)
    _check_boundaries(hypothesis, hypothesis_lines, spans)
    return evaluate(
        documents_of(hypothesis, hypothesis_lines, spans),
        documents_of(reference, reference_lines, spans),
    )


def _check_boundaries(path: Path, lines: list[str], spans: list[Span]) -> None:
    """Refuse a hypothesis that has text on a line that parts the reference's documents."""
    inside = {number for span in spans for number in range(span.start, span.stop)}
    for number, line in enumerate(lines):
        if number not in inside and line.strip() not in ("", DOCUMENT_MARKER):
            raise DataError(
                f"{path}:{number + 1}: has text where the reference parts two documents. "
                "Score the translation of the very same lines."
            )
