"""A file to translate as a stream of pieces: documents, and the lines between them.

A piece knows how to write itself with translations in it, so that the output has the form of the
input: as many lines, the same boundaries, the same other columns and fields. Files are read as a
stream and refused at the first line that cannot be read.

TSV and JSON lines to translate: the target column or field is filled, the rest stays.

Rows and records of one document are consecutive, as in the data formats of the corpus. A target
that is there already serves as the reference where one is needed, and is replaced in the output.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from iada.config.data import Boundaries
from iada.data.documents import Document
from iada.data.formats.findings import Findings
from iada.data.formats.jsonl import JsonProblem, has_surrogate, identifier, parse_json
from iada.data.formats.lines import BYTE_ORDER_MARK, decoded_lines
from iada.data.formats.text import DOCUMENT_MARKER
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


_Numbered = tuple[int, str]


def tsv_pieces(path: Path, languages: tuple[str, str]) -> Iterator[Piece]:
    """Yield the pieces of a file of tab-separated values with a header.

    Args:
        path: with columns `document`, `source` (or the source language) and perhaps a target.
        languages: codes that may name the columns of both sides, source first.
    """
    lines = enumerate(checked_lines(path), start=1)
    _, header = next(lines, (0, ""))
    names = [name.strip() for name in header.split("\t")]
    source, target = ("source", "target") if "source" in names else languages
    if any(names.count(name) != 1 for name in ("document", source)) or names.count(target) > 1:
        raise DataError(
            f"{path}:1: the first line must name the columns `document` and `source` (or "
            f"`{languages[0]}`), parted by tabs and each once."
        )
    width = len(names)
    place = names.index(target) if target in names else width
    yield copied([header if place < width else f"{header}\t{target}"])
    columns = names.index("document"), names.index(source), place

    def row(item: _Numbered) -> list[str]:
        cells = item[1].split("\t")
        if len(cells) != width or not cells[columns[0]].strip():
            raise DataError(
                f"{path}:{item[0]}: has {len(cells)} cells, but the header has {width}, and each "
                "row must tell its document. Cells must hold no tab."
            )
        return cells

    rows = ((number, row((number, line)) if line else []) for number, line in lines)
    for number, same in enumerate(_documents(rows, columns[0]), start=1):
        yield _table(path, number, same, columns, has_target=place < width)


def _documents(rows: Iterator[tuple[int, list[str]]], column: int) -> Iterator[list[list[str]]]:
    """Yield the rows of each document; an empty line belongs to the document before it."""
    current: list[list[str]] = []
    name: str | None = None
    for _, cells in rows:
        if cells and name not in (None, cells[column]):
            yield current
            current = []
        name = cells[column] if cells else name
        current.append(cells)
    if current:
        yield current


def _table(
    path: Path,
    number: int,
    rows: list[list[str]],
    columns: tuple[int, int, int],
    *,
    has_target: bool,
) -> Piece:
    document, source, target = columns

    def render(sentences: Sequence[str]) -> list[str]:
        remaining = iter(sentences)
        lines = []
        for cells in rows:
            if cells:
                # A tab would begin another cell.
                said = next(remaining).replace("\t", " ")
                cells = [*cells[:target], said, *cells[target + 1 :]]
            lines.append("\t".join(cells))
        return lines

    filled = [cells for cells in rows if cells]
    if not filled:
        return Piece(render)
    name = f"{path.name}:{number} ({filled[0][document]})"
    reference = None
    if has_target:
        reference = Document(name, tuple(cells[target] for cells in filled))
    return Piece(render, Document(name, tuple(cells[source] for cells in filled)), reference)


def jsonl_pieces(path: Path, languages: tuple[str, str]) -> Iterator[Piece]:
    """Yield the pieces of a file of JSON lines: documents, or sentences that tell their document.

    Args:
        path: with fields `source` (or the source language) and perhaps a target.
        languages: codes that may name the fields of both sides, source first.
    """
    records = (
        _Record(path, number, line, languages) for number, line in enumerate(checked_lines(path), 1)
    )
    for number, (_, same) in enumerate(groupby(records, key=_Grouping()), start=1):
        yield _json_piece(path, number, list(same))


class _Record:
    """One line: a document, a sentence, or nothing."""

    def __init__(self, path: Path, number: int, line: str, languages: tuple[str, str]) -> None:
        self.path, self.number, self.line = path, number, line
        self.fields: dict[str, Any] = {}
        self.source: list[str] = []
        self.is_whole = False
        self.document: str | None = None
        if not line.strip():
            return
        try:
            fields = parse_json(line)
        except JsonProblem as found:
            raise DataError(f"{path}:{number}: {found.message}") from None
        if not isinstance(fields, dict):
            raise DataError(f"{path}:{number}: not a JSON object. Each line is one object.")
        self.fields = fields
        name, self.target_name = ("source", "target") if "source" in fields else languages
        self.is_whole = isinstance(fields.get(name), list)
        self.document = identifier(fields.get("id" if self.is_whole else "document"))
        self.source = self._sentences(fields.get(name))
        if self.document is None and not self.is_whole:
            raise DataError(f"{path}:{number}: has no field `document` with a text or a number.")

    def references(self) -> list[str] | None:
        """Return the target sentences, if there is one for each source sentence."""
        if self.fields.get(self.target_name) in (None, [], ""):
            return None
        found = self._sentences(self.fields[self.target_name])
        return found if len(found) == len(self.source) else None

    def _sentences(self, value: object) -> list[str]:
        sentences: list[Any] = value if isinstance(value, list) else [value]
        for sentence in sentences:
            if not isinstance(sentence, str) or "\n" in sentence or has_surrogate(sentence):
                raise DataError(
                    f"{self.path}:{self.number}: a sentence is missing, is no text, holds a line "
                    "break or half a character. Sentences are JSON strings of one line."
                )
        return sentences

    def render(self, sentences: list[str]) -> str:
        """Return the line with its target filled."""
        if not self.fields:
            return self.line
        said: object = sentences if self.is_whole else sentences[0]
        return json.dumps(self.fields | {self.target_name: said}, ensure_ascii=False)


class _Grouping:
    """Number the documents of records; an empty line belongs to the document before it."""

    def __init__(self) -> None:
        self.count = 0
        self.last: _Record | None = None

    def __call__(self, record: _Record) -> int:
        if record.fields:
            last = self.last
            if last is None or record.is_whole or last.is_whole or last.document != record.document:
                self.count += last is not None
            self.last = record
        return self.count


def _json_piece(path: Path, number: int, records: list[_Record]) -> Piece:
    def render(sentences: Sequence[str]) -> list[str]:
        remaining = iter(sentences)
        return [r.render([next(remaining) for _ in r.source]) for r in records]

    filled = [record for record in records if record.fields]
    if not filled:
        return Piece(render)
    name = f"{path.name}:{number} ({filled[0].document or filled[0].number})"
    source = tuple(sentence for record in filled for sentence in record.source)
    references = [record.references() for record in filled]
    reference = None
    if all(found is not None for found in references):
        reference = Document(name, tuple(s for found in references for s in found or []))
    return Piece(render, Document(name, source), reference)
