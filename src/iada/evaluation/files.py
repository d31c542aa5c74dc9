"""Score a file of translations against a file of references."""

from pathlib import Path

from iada.config.data import Boundaries
from iada.data.readers import documents_of, read_lines, split_documents
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
    return evaluate(
        documents_of(hypothesis, hypothesis_lines, spans),
        documents_of(reference, reference_lines, spans),
    )
