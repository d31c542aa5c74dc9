"""The windows of a run's test data whose token importance a report shows."""

from dataclasses import replace
from pathlib import Path

from iada.analysis.importance_map import WindowView, importance_map
from iada.data.documents import Document, ParallelDocument
from iada.data.readers import read_split
from iada.decoding.translator import DocumentTranslator
from iada.training.folder import RunFolder


def windows_of_run(folder: Path, count: int) -> list[WindowView]:
    """Measure windows of the first test document, from the first one with a full context on.

    Runs without importance of their own are measured by GNorm.

    Args:
        folder: the run; its test data must still be where they were.
        count: how many windows, if the document has as many.
    """
    config = RunFolder(folder).config()
    translator = DocumentTranslator.load(folder)
    document = read_split(config.data, "test")[0]
    first = min(config.windows.context, max(len(document) - count, 0))
    measure = config.augment.measure
    measured = measure if measure in ("tnorm", "gnorm") else "gnorm"
    views = importance_map(
        translator.model,
        translator.subwords,
        [_beginning(document, first + count)],
        augment=replace(config.augment, measure=measured),
        windows=translator.windows,
    )
    return views[first:]


def _beginning(document: ParallelDocument, sentences: int) -> ParallelDocument:
    source, target = (
        Document(side.name, side.sentences[:sentences])
        for side in (document.source, document.target)
    )
    return ParallelDocument(source, target)
