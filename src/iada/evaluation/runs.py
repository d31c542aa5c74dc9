"""Score a run folder: translate its test split if need be, and keep every score in one file."""

import json
from collections.abc import Mapping
from pathlib import Path

from iada.decoding.files import details_file, translate_file
from iada.decoding.translator import DocumentTranslator
from iada.errors import RunError
from iada.evaluation.contrastive import contrastive_accuracy, read_contrastive
from iada.evaluation.files import score_files
from iada.training.folder import RunFolder, write_json


def score_run(
    path: Path, translator: DocumentTranslator | None = None
) -> tuple[dict[str, object], Path]:
    """Score the test translations of a run.

    Args:
        path: the run folder.
        translator: its model, if it is loaded already.

    Returns:
        All scores of the run so far, and the file that holds them.
    """
    folder = RunFolder(path)
    data = folder.config().data
    source, reference = data.paths("test")
    hypothesis = folder.translations / reference.name
    if not _is_newer(hypothesis, folder.trained_model() / "model.safetensors"):
        translator = translator or DocumentTranslator.load(path)
        translate_file(translator, source, hypothesis, boundaries=data.boundaries)
    scores: dict[str, object] = {
        **score_files(hypothesis, reference, boundaries=data.boundaries),
        "translation": json.loads(details_file(hypothesis).read_text(encoding="utf-8")),
    }
    return add_scores(folder, scores), folder.scores_file


def contrast_run(
    path: Path,
    contrastive_set: Path,
    documents: Path | None = None,
    translator: DocumentTranslator | None = None,
) -> tuple[dict[str, object], Path]:
    """Measure the contrastive accuracy of a run; arguments and result as in `score_run`."""
    items = read_contrastive(contrastive_set, documents)
    translator = translator or DocumentTranslator.load(path)
    context = translator.windows.context
    result = contrastive_accuracy(items, translator.score, context=context)
    result["set"] = contrastive_set.name
    folder = RunFolder(path)
    add_scores(folder, {"contrastive": result})
    return result, folder.scores_file


def add_scores(folder: RunFolder, scores: Mapping[str, object]) -> dict[str, object]:
    """Merge scores into `scores.json` and return everything it holds."""
    known: dict[str, object] = {}
    if folder.scores_file.is_file():
        try:
            known = json.loads(folder.scores_file.read_text(encoding="utf-8"))
        except ValueError:
            raise RunError(
                f"{folder.scores_file} is not valid JSON. Remove it and score the run again."
            ) from None
    known |= scores
    write_json(folder.scores_file, known)
    return known


def _is_newer(path: Path, than: Path) -> bool:
    """Whether a file exists that is not older than another one."""
    return path.is_file() and path.stat().st_mtime >= than.stat().st_mtime
