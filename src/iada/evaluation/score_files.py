"""Score files of translations, from any system, against a file of references."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from iada.config.data import Boundaries, DataConfig, FileFormat, Split
from iada.config.evaluate import EvaluateConfig
from iada.data.documents import Document, ParallelDocument
from iada.data.formats.file_format import HYPOTHESIS
from iada.data.formats.jsonl import JsonProblem, parse_json
from iada.data.formats.lines import read_lines
from iada.data.formats.readers import FORMATS, file_format, read_documents, read_split
from iada.data.formats.text import DOCUMENT_MARKER, Span, documents_of, split_documents
from iada.errors import DataError
from iada.evaluation.metrics import SegmentScorer, is_aligned
from iada.evaluation.scores import evaluate, evaluate_systems


def score_files(
    hypothesis: Path,
    reference: Path,
    source: Path | None = None,
    baseline: Path | None = None,
    *,
    boundaries: Boundaries,
    config: EvaluateConfig | None = None,
    language: str | None = None,
    scorer: SegmentScorer | None = None,
) -> dict[str, object]:
    """Score translations whose documents are those of the reference file.

    The reference says where documents begin; a hypothesis may be an empty line, which is an empty
    translation. A hypothesis with other lines than the reference must have as many documents, which
    are then re-aligned. Files of WMT (`.jsonl`: `doc_id`, `src_text` and `refs`; `doc_id` and
    `hypothesis`) name their documents and hold their source.

    Args:
        hypothesis: the translations.
        reference: the reference translations.
        source: the source text, aligned with the reference line by line.
        baseline: translations of another system to compare with.
        boundaries: what separates the documents of all files.
        config: metrics; the paper's settings by default.
        language: code of the target language.
        scorer: COMET, running; needs `source`.

    Returns:
        What `evaluate` returns.
    """
    documents = _documents(reference, source, boundaries)
    return evaluate(
        documents.translated(hypothesis),
        documents.references,
        documents.sources,
        None if baseline is None else documents.translated(baseline),
        config=config,
        language=language,
        scorer=scorer,
    )


def score_split(
    hypothesis: Path,
    data: DataConfig,
    split: Split,
    *,
    baseline: Path | None = None,
    config: EvaluateConfig | None = None,
    scorer: SegmentScorer | None = None,
) -> dict[str, object]:
    """Score the translation of a split, whatever its form; arguments as in `score_files`."""
    source, reference = data.paths(split)
    form = file_format(data, split)
    if form == "text" and not data.hold_out:
        return score_files(
            hypothesis,
            reference,
            source,
            baseline,
            boundaries=data.boundaries,
            config=config,
            language=data.target_language,
            scorer=scorer,
        )
    documents = read_split(data, split)
    return evaluate(
        _translated(hypothesis, documents, data, form),
        [document.target for document in documents],
        [document.source for document in documents],
        None if baseline is None else _translated(baseline, documents, data, form),
        config=config,
        language=data.target_language,
        scorer=scorer,
    )


def compare_split(
    hypotheses: Mapping[str, Path],
    data: DataConfig,
    split: Split,
    *,
    baseline: str,
    config: EvaluateConfig | None = None,
) -> dict[str, object]:
    """Score several translations of a split and compare them with one of them.

    Args:
        hypotheses: translations by name of the system.
        data: the corpus.
        split: which part of it was translated.
        baseline: name of the system that the others are compared with.
        config: metrics and test; the paper's settings by default.

    Returns:
        What `evaluate_systems` returns.
    """
    texts = read_translations(hypotheses, data, split)
    return evaluate_systems(
        texts.systems,
        texts.references,
        baseline=baseline,
        config=config,
        language=data.target_language,
    )


@dataclass(frozen=True)
class SplitTranslations:
    """What several systems made of a split, document by document."""

    systems: Mapping[str, Sequence[Document]]
    references: Sequence[Document]
    sources: Sequence[Document] | None


def read_translations(
    hypotheses: Mapping[str, Path], data: DataConfig, split: Split
) -> SplitTranslations:
    """Read translations of a split, whatever its form, with source and references.

    Args:
        hypotheses: translations by name of the system.
        data: the corpus.
        split: which part of it was translated.
    """
    form = file_format(data, split)
    if form == "text" and not data.hold_out:
        source, reference = data.paths(split)
        files = _Documents(reference, source, data.boundaries)
        systems = {name: files.translated(path) for name, path in hypotheses.items()}
        return SplitTranslations(systems, files.references, files.sources)
    documents = read_split(data, split)
    return SplitTranslations(
        {name: _translated(path, documents, data, form) for name, path in hypotheses.items()},
        [document.target for document in documents],
        [document.source for document in documents],
    )


def _translated(
    path: Path, documents: Sequence[ParallelDocument], data: DataConfig, form: FileFormat
) -> list[Document]:
    """Read the translation of documents: in their form, or as text where it cannot be written."""
    if FORMATS[form].fills_lines and not data.hold_out:
        languages = data.source_language, data.target_language
        read = read_documents(
            path,
            format=form,
            boundaries=data.boundaries,
            languages=languages,
            reference=HYPOTHESIS,
            columns=data.columns,
        )
        found = [d.target for d in read if isinstance(d, ParallelDocument)]
        if not is_aligned(found, [document.source for document in documents]):
            raise DataError(f"{path} is no translation of the split. Translate it again.")
        return found
    lines = read_lines(path)
    starts = list(accumulate((len(document) + 1 for document in documents), initial=0))
    # One line between documents, none after the last.
    if len(lines) != starts[-1] - 1:
        raise DataError(
            f"{path} has {len(lines)} lines, but the translation of the split has "
            f"{starts[-1] - 1}. Translate it again."
        )
    return [
        Document(document.name, tuple(lines[start : start + len(document)]))
        for document, start in zip(documents, starts[:-1], strict=True)
    ]


def compare_files(
    hypotheses: Sequence[Path],
    reference: Path,
    source: Path | None = None,
    *,
    baseline: Path | None,
    boundaries: Boundaries,
    config: EvaluateConfig | None = None,
    language: str | None = None,
    scorer: SegmentScorer | None = None,
) -> dict[str, object]:
    """Score several files and compare them with a baseline; arguments as in `score_files`.

    Systems are named by their files, with folders where file names are the same.

    Returns:
        What `evaluate_systems` returns.
    """
    documents = _documents(reference, source, boundaries)
    others = [path for path in hypotheses if path != baseline]
    paths = [*([] if baseline is None else [baseline]), *others]
    if repeated := {str(path) for path in paths if paths.count(path) > 1}:
        raise DataError(f"{', '.join(sorted(repeated))} is given twice. Give each file once.")
    names = _names(paths)
    return evaluate_systems(
        {name: documents.translated(path) for name, path in zip(names, paths, strict=True)},
        documents.references,
        documents.sources,
        baseline=None if baseline is None else names[0],
        config=config,
        language=language,
        scorer=scorer,
    )


def read_files(
    hypotheses: Sequence[Path], reference: Path, source: Path | None, *, boundaries: Boundaries
) -> SplitTranslations:
    """Read translations with references and source; systems are named as in `compare_files`."""
    documents = _documents(reference, source, boundaries)
    systems = zip(_names(hypotheses), map(documents.translated, hypotheses), strict=True)
    return SplitTranslations(dict(systems), documents.references, documents.sources)


def _documents(
    reference: Path, source: Path | None, boundaries: Boundaries
) -> "_Documents | _WmtDocuments":
    if ".jsonl" not in reference.suffixes:
        return _Documents(reference, source, boundaries)
    if source is not None:
        raise DataError(f"{reference} holds its source itself. Leave out `--source`.")
    return _WmtDocuments(reference)


class _WmtDocuments:
    """The documents of a JSON lines file of WMT: `doc_id`, `src_text`, `refs`."""

    def __init__(self, reference: Path) -> None:
        self.path = reference
        read = [d for d in read_documents(reference) if isinstance(d, ParallelDocument)]
        self.references = [document.target for document in read]
        self.sources: list[Document] | None = [document.source for document in read]
        self.records = [record["doc_id"] for record in _json_objects(reference, ("doc_id",))]

    def translated(self, path: Path) -> list[Document]:
        """Read `doc_id` and `hypothesis` of each line, in any order; every document is needed."""
        found = {
            record["doc_id"]: record["hypothesis"]
            for record in _json_objects(path, ("doc_id", "hypothesis"))
        }
        if missing := [name for name in self.records if name not in found]:
            raise DataError(
                f"{path} lacks {len(missing)} of the {len(self.records)} documents of {self.path}, "
                f"the first of them {missing[0]}."
            )
        return [
            Document(name, tuple(filter(str.strip, found[name].split("\n"))))
            for name in self.records
        ]


def _json_objects(path: Path, fields: tuple[str, ...]) -> list[dict[str, str]]:
    """Read the texts in some fields of every line."""
    records = []
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        try:
            content = parse_json(line)
        except JsonProblem as problem:
            raise DataError(f"{path}:{number}: {problem.message}") from None
        if not isinstance(content, dict) or not all(
            isinstance(content.get(field), str) for field in fields
        ):
            raise DataError(f"{path}:{number}: needs the fields {' and '.join(fields)}, as text.")
        records.append({field: content[field] for field in fields})
    return records


class _Documents:
    """The documents of a reference file, and how other files correspond to them."""

    def __init__(self, reference: Path, source: Path | None, boundaries: Boundaries) -> None:
        self.path = reference
        self.lines = read_lines(reference)
        self.boundaries = boundaries
        self.spans = split_documents(self.lines, boundaries)
        self.references = documents_of(reference, self.lines, self.spans)
        self.sources: list[Document] | None = None
        if source is not None:
            lines = read_lines(source)
            if problem := self._misalignment(source, lines):
                raise DataError(f"{problem} Source and reference must be aligned line by line.")
            self.sources = documents_of(source, lines, self.spans)

    def translated(self, path: Path) -> list[Document]:
        """Read translations: line by line like the reference, or at least document by document."""
        lines = read_lines(path)
        problem = self._misalignment(path, lines)
        if problem is None:
            return documents_of(path, lines, self.spans)
        own = split_documents(lines, self.boundaries)
        if self.boundaries == "none" or len(own) != len(self.spans):
            raise DataError(
                f"{problem} Score the translation of the very same lines, or of the very same "
                f"documents ({len(own)} and {len(self.spans)} here)."
            )
        return documents_of(path, lines, own)

    def _misalignment(self, path: Path, lines: list[str]) -> str | None:
        """Say what keeps a file from corresponding to the reference line by line."""
        if len(lines) != len(self.lines):
            return f"{path} has {len(lines)} lines but {self.path} has {len(self.lines)}."
        number = _text_between(lines, self.spans)
        if number is not None:
            return f"{path}:{number}: has text where the reference separates two documents."
        return None


def _text_between(lines: list[str], spans: list[Span]) -> int | None:
    """Return the number of the first line with text that lies in no document."""
    inside = {number for span in spans for number in range(span.start, span.stop)}
    for number, line in enumerate(lines):
        if number not in inside and line.strip() not in ("", DOCUMENT_MARKER):
            return number + 1
    return None


def _names(paths: Sequence[Path]) -> list[str]:
    names = [path.name for path in paths]
    return names if len(set(names)) == len(names) else [str(path) for path in paths]
