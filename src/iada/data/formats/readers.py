"""Files to documents: the entry points of every format.

`iterate_documents` streams and keeps what is right; what it repairs or leaves out is counted in
the findings. `read_split`, `read_parallel` and `read_documents` are strict: they read everything
and then refuse it with all problems at once; `stream_split` refuses when all was yielded. How
documents are parted is stated, never guessed.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from iada.config.data import Boundaries, DataConfig, FileFormat, Split, format_of
from iada.data.documents import Document, ParallelDocument
from iada.data.formats.dialogue import read_dialogue
from iada.data.formats.findings import Findings
from iada.data.formats.jsonl import read_jsonl
from iada.data.formats.lines import read_lines
from iada.data.formats.sgm import read_sgm
from iada.data.formats.text import DOCUMENT_MARKER, read_tags, read_text
from iada.data.formats.tsv import read_tsv
from iada.errors import DataError

__all__ = [
    "DOCUMENT_MARKER",
    "Span",
    "documents_of",
    "iterate_documents",
    "read_documents",
    "read_lines",
    "read_parallel",
    "read_split",
    "split_documents",
    "stream_split",
]


@dataclass(frozen=True)
class Span:
    """Lines `start` to `stop` (0-based, exclusive) of a file that form one document."""

    start: int
    stop: int


def iterate_documents(
    data: DataConfig, split: Split, findings: Findings
) -> Iterator[ParallelDocument]:
    """Yield the documents of a split one by one; report and count what is wrong with the rest.

    At the end every unit of both sides is accounted for in the tallies of the findings.

    Raises:
        DataError: nothing can be read, or nothing after some point can be trusted.
    """
    source, target = data.paths(split)
    yield from _read_files(
        source,
        target,
        file_format=data.file_format(split),
        languages=(data.source_language, data.target_language),
        boundaries=data.boundaries,
        reference=data.reference,
        findings=findings,
    )


def read_split(data: DataConfig, split: Split) -> list[ParallelDocument]:
    """Read the documents of a split, or refuse it with all its problems."""
    return list(stream_split(data, split))


def stream_split(data: DataConfig, split: Split) -> Iterator[ParallelDocument]:
    """Yield the documents of a split one by one; refuse it at its end with all its problems."""
    findings = Findings()
    yield from iterate_documents(data, split, findings)
    findings.refuse_errors()


def read_documents(
    source: Path | str,
    target: Path | str | None = None,
    *,
    boundaries: Boundaries = "blank_line",
    format: FileFormat | Literal["auto"] = "auto",
    languages: tuple[str, str] = ("en", "de"),
    reference: str | None = None,
) -> list[ParallelDocument] | list[Document]:
    """Read documents from one file or two; refuse them with all their problems.

    Args:
        source: file of the source side, or of both sides where one file holds them.
        target: file of the target side. Without one, plain text gives documents of one language.
        boundaries: what parts the documents of plain text.
        format: form of the files; `auto` goes by the name of `source`.
        languages: codes that may name columns and fields, source first.
        reference: translator to take where a file has several references.
    """
    source = Path(source)
    file_format = format_of(source.name) if format == "auto" else format
    if target is None and file_format in {"text", "tags"}:
        lines = read_lines(source)
        return documents_of(source, lines, _checked_spans(source, lines, boundaries))
    return _read_strictly(
        source,
        source if target is None else Path(target),
        file_format=file_format,
        languages=languages,
        boundaries=boundaries,
        reference=reference,
    )


def read_parallel(
    source: Path, target: Path, *, boundaries: Boundaries = "blank_line"
) -> list[ParallelDocument]:
    """Read two aligned text files; refuse them with all their problems."""
    return _read_strictly(
        source,
        target,
        file_format="text",
        languages=("", ""),
        boundaries=boundaries,
        reference=None,
    )


def split_documents(lines: list[str], boundaries: Boundaries) -> list[Span]:
    """Find the documents of a file; an empty document gives an empty span.

    With `marker`, lines before the first `<d>` form a document of their own.
    """
    if boundaries == "none":
        return [Span(0, len(lines))]
    separator = "" if boundaries == "blank_line" else DOCUMENT_MARKER
    cuts = [number for number, line in enumerate(lines) if line.strip() == separator]
    starts = [0, *(cut + 1 for cut in cuts)]
    spans = [Span(start, stop) for start, stop in zip(starts, [*cuts, len(lines)], strict=True)]
    if boundaries == "marker" and spans[0].start == spans[0].stop:
        spans = spans[1:]
    if boundaries == "blank_line" and spans[-1].start == spans[-1].stop:
        spans = spans[:-1]
    return spans


def documents_of(path: Path, lines: list[str], spans: list[Span]) -> list[Document]:
    """Return the documents of a file, named after the file and their number in it."""
    return [
        Document(f"{path.name}:{number}", tuple(lines[span.start : span.stop]))
        for number, span in enumerate(spans, start=1)
    ]


def _read_strictly(
    source: Path,
    target: Path,
    *,
    file_format: FileFormat,
    languages: tuple[str, str],
    boundaries: Boundaries,
    reference: str | None,
) -> list[ParallelDocument]:
    findings = Findings()
    documents = list(
        _read_files(
            source,
            target,
            file_format=file_format,
            languages=languages,
            boundaries=boundaries,
            reference=reference,
            findings=findings,
        )
    )
    findings.refuse_errors()
    return documents


def _read_files(
    source: Path,
    target: Path,
    *,
    file_format: FileFormat,
    languages: tuple[str, str],
    boundaries: Boundaries,
    reference: str | None,
    findings: Findings,
) -> Iterator[ParallelDocument]:
    match file_format:
        case "text":
            yield from read_text(source, target, boundaries, findings)
        case "tags":
            yield from read_tags(source, target, findings)
        case "sgm":
            yield from read_sgm(source, target, reference, findings)
        case "tsv":
            yield from read_tsv(source, languages, findings)
        case "jsonl":
            yield from read_jsonl(source, languages, findings)
        case "dialogue":
            yield from read_dialogue(source, languages, findings)
    findings.verify_tallies()


def _checked_spans(path: Path, lines: list[str], boundaries: Boundaries) -> list[Span]:
    if not any(line.strip() for line in lines):
        raise DataError(f"{path} holds no sentence. Give a file with at least one document.")
    spans = split_documents(lines, boundaries)
    empty = [span.start for span in spans if span.start == span.stop]
    if empty:
        raise DataError(
            f"{path}:{empty[0] + 1}: empty document ({len(empty)} in the file). "
            "Part documents by exactly one separator line."
        )
    return spans
