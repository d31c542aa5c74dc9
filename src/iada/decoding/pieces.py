"""A file to translate as a stream of pieces: documents, and the lines between them.

A piece knows how to write itself with translations in it, so that the output has the form of the
input: as many lines, the same boundaries, the same other columns and fields. Files are read as a
stream and refused at the first line that cannot be read.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from iada.config.data import Boundaries
from iada.data.documents import Document
from iada.data.findings import Findings
from iada.data.formats.text import DOCUMENT_MARKER
from iada.data.lines import BYTE_ORDER_MARK, decoded_lines
from iada.errors import DataError

_REFUSED = {
    "\r": "a carriage return",
    "\0": "a NUL character",
    BYTE_ORDER_MARK: "a byte order mark",
}


@dataclass(frozen=True)
class Piece:
    """Consecutive lines of a file."""

    render: Callable[[Sequence[str]], list[str]]
    """From the translated sentences to the lines of the output."""
    document: Document | None = None
    """What to translate; None if the lines are copied."""
    reference: Document | None = None
    """Its translation in the file, if there is one."""


def copied(lines: Sequence[str]) -> Piece:
    """Return a piece without a sentence."""
    kept = list(lines)
    return Piece(lambda _: kept)


def text_pieces(path: Path, boundaries: Boundaries, target: Path | None = None) -> Iterator[Piece]:
    """Yield the pieces of a text file, one sentence per line.

    Args:
        path: the text.
        boundaries: what parts its documents.
        target: a file of reference translations with the same lines.
    """
    separator = {"blank_line": "", "marker": DOCUMENT_MARKER, "none": None}[boundaries]
    number = 0
    lines: list[str] = []
    references: list[str] = []

    def document() -> Piece:
        reference = None
        if target is not None:
            reference = Document(f"{target.name}:{number}", tuple(references))
        return Piece(list, Document(f"{path.name}:{number}", tuple(lines)), reference)

    for place, (line, other) in enumerate(_side_by_side(path, target), start=1):
        is_boundary = separator is not None and line.strip() == separator
        if other is not None and is_boundary != (other.strip() == separator):
            raise DataError(
                f"{path}:{place} and {target}:{place} differ: only one of them parts documents. "
                "References must have the lines of the source."
            )
        if not is_boundary:
            lines.append(line)
            references.append(other or "")
            continue
        if lines:
            number += 1
            yield document()
        yield copied([line])
        lines, references = [], []
    if lines:
        number += 1
        yield document()


def checked_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a UTF-8 file; refuse invisible trouble at the line where it is."""
    findings = Findings()
    for number, line in enumerate(decoded_lines(path, findings), start=1):
        if not isinstance(line, str):
            raise DataError(
                f"{path}:{number}: byte {line.offset} is not valid UTF-8. Convert the file to "
                "UTF-8."
            )
        found = [name for symbol, name in _REFUSED.items() if symbol in line]
        if number == 1 and findings.counts:
            found.append(_REFUSED[BYTE_ORDER_MARK])
        if found:
            raise DataError(
                f"{path}:{number}: contains {found[0]}, which would become part of a sentence. "
                "Remove the character; lines end in a single line feed."
            )
        yield line


def _side_by_side(path: Path, target: Path | None) -> Iterator[tuple[str, str | None]]:
    if target is None:
        yield from ((line, None) for line in checked_lines(path))
        return
    others = checked_lines(target)
    for number, line in enumerate(checked_lines(path), start=1):
        other = next(others, None)
        if other is None:
            raise DataError(f"{target} ends before line {number}, but {path} goes on. {_ALIGNED}")
        yield line, other
    if next(others, None) is not None:
        raise DataError(f"{target} has more lines than {path}. {_ALIGNED}")


_ALIGNED = "References must have the lines of the source."
