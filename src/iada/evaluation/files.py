"""Score a file of translations against a file of references."""

from pathlib import Path

from iada.config.data import Boundaries
from iada.data.readers import read_lines, read_parallel, split_documents
from iada.data.documents import Document
from iada.errors import DataError
from iada.evaluation.scores import evaluate


def score_files(
    hypothesis: Path, reference: Path, *, boundaries: Boundaries
) -> dict[str, dict[str, object]]:
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
        *(
            [
                Document(f"{path.name}:{i}", tuple(lines[s.start : s.stop]))
                for i, s in enumerate(spans, 1)
            ]
            for path, lines in ((hypothesis, hypothesis_lines), (reference, reference_lines))
        )
    )
