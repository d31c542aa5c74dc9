r"""Text files to documents.

A file is split at `\n` and nowhere else, so that line k of every tool and every output is the
same line. How documents are parted is stated, never guessed: by a blank line, by a `<d>` line
before each document, or not at all (the whole file is one document).
"""

from dataclasses import dataclass
from pathlib import Path

from iada.config.data import Boundaries
from iada.data.documents import Document, ParallelDocument
from iada.errors import DataError

DOCUMENT_MARKER = "<d>"
_REFUSED = {
    "\r": "a carriage return",
    "\0": "a NUL character",
    "\ufeff": "a byte order mark",
}


@dataclass(frozen=True)
class Span:
    """Lines `start` to `stop` (0-based, exclusive) of a file that form one document."""

    start: int
    stop: int


def read_lines(path: Path) -> list[str]:
    """Read the lines of a UTF-8 file without their line breaks."""
    if not path.is_file():
        raise DataError(f"{path} does not exist or is not a file. Check the folder and file name.")
    raw = path.read_bytes()
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{path}:{line}: byte {error.start} is not valid UTF-8. Convert the file to UTF-8."
        ) from None
    for symbol, name in _REFUSED.items():
        if symbol in text:
            line = text.count("\n", 0, text.index(symbol)) + 1
            raise DataError(
                f"{path}:{line}: contains {name}, which would become part of a sentence. "
                "Remove the character; lines end in a single line feed."
            )
    lines = text.split("\n")
    # A final line feed ends the last line; it does not begin an empty one.
    return lines[:-1] if lines[-1] == "" else lines


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


def read_documents(
    source: Path | str, target: Path | str | None = None, *, boundaries: Boundaries = "blank_line"
) -> list[ParallelDocument] | list[Document]:
    """Read aligned documents from two files, or documents of one language from one file."""
    source = Path(source)
    if target is not None:
        return read_parallel(source, Path(target), boundaries=boundaries)
    lines = read_lines(source)
    spans = _checked_spans(source, lines, boundaries)
    return documents_of(source, lines, spans)


def read_parallel(
    source: Path, target: Path, *, boundaries: Boundaries = "blank_line"
) -> list[ParallelDocument]:
    """Read aligned documents; both files must agree line by line."""
    source_lines, target_lines = read_lines(source), read_lines(target)
    _check_alignment(source, source_lines, target, target_lines, boundaries)
    spans = _checked_spans(source, source_lines, boundaries)
    if boundaries == "blank_line" and len(spans) == 1 and len(source_lines) > 1:
        raise DataError(
            f"{source} has {len(source_lines)} lines but no blank line between them, so its "
            "document boundaries are unknown. Part the documents by blank lines, or set "
            "`data.boundaries: none` if it is one document."
        )
    sources = documents_of(source, source_lines, spans)
    targets = documents_of(target, target_lines, spans)
    return [ParallelDocument(*pair) for pair in zip(sources, targets, strict=True)]


def _checked_spans(path: Path, lines: list[str], boundaries: Boundaries) -> list[Span]:
    if not any(line.strip() for line in lines):
        raise DataError(f"{path} holds no sentence. Give a file with at least one document.")
    spans = split_documents(lines, boundaries)
    empty = [span.start for span in spans if span.start == span.stop]
    if empty:
        raise DataError(
            f"{path}:{empty[0] + 1}: empty document ({len(empty)} in the file). "
            "Part documents by exactly one separator line on both sides."
        )
    return spans


def _check_alignment(
    source: Path,
    source_lines: list[str],
    target: Path,
    target_lines: list[str],
    boundaries: Boundaries,
) -> None:
    separator = {"blank_line": "", "marker": DOCUMENT_MARKER, "none": None}[boundaries]
    diverges = next(
        (
            number
            for number, (left, right) in enumerate(
                zip(source_lines, target_lines, strict=False), start=1
            )
            if separator is not None and (left.strip() == separator) != (right.strip() == separator)
        ),
        None,
    )
    if len(source_lines) != len(target_lines):
        near = f"; they first diverge at line {diverges}" if diverges else ""
        raise DataError(
            f"{source} has {len(source_lines)} lines but {target} has {len(target_lines)}{near}. "
            "Both sides must be aligned line by line."
        )
    if diverges:
        raise DataError(
            f"Line {diverges} parts documents in only one of {source} and {target}. "
            "Both sides must have their document boundaries at the same lines."
        )
