"""Delimited text: TSV, CSV, `a ||| b` and lines that alternate; one file of sentence pairs.

TSV and CSV have a header that names the columns: `document` and either `source` and `target` or the
two language codes, or what `data.document_column`, `data.source_column` and `data.target_column`
name; others are ignored. Where these are numbers, counted from 1, there is no header. Without a
column for documents, `data.boundaries` tells them apart, as in plain text. Otherwise rows of one
document are consecutive, and empty lines are not rows.

A tab always separates the cells of TSV, and quotes are text. Cells of CSV may be quoted, but
contain no line break. In translation the target column is filled, and added if it is missing.

Where lines alternate, a line break is what separates a sentence from its translation.
"""

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from iada.data.documents import ParallelDocument
from iada.data.formats.assembly import FillableLine, Record, group_lines, group_records
from iada.data.formats.file_format import CorpusFiles, Format, Piece, copy_lines
from iada.data.formats.findings import Finding, Findings, problem
from iada.data.formats.lines import Line, bad_line, repaired_lines, write_lines
from iada.data.formats.text import DocumentCounter, document_lines, is_separator
from iada.errors import DataError


@dataclass(frozen=True)
class _Dialect:
    """How cells become a line and back."""

    split: Callable[[str], list[str]]
    join: Callable[[Sequence[str]], str]
    separator: str
    """What a cell must not contain; empty where quoting allows everything."""
    has_header: bool = True


def _split_csv(line: str) -> list[str]:
    return next(csv.reader([line], strict=True))


def _join_csv(cells: Sequence[str]) -> str:
    row = io.StringIO()
    csv.writer(row, lineterminator="").writerow(cells)
    return row.getvalue()


_TSV = _Dialect(lambda line: line.split("\t"), "\t".join, "\t")
_CSV = _Dialect(_split_csv, _join_csv, "")
_BARS = _Dialect(
    lambda line: [cell.strip() for cell in line.split("|||")], " ||| ".join, "|||", has_header=False
)


@dataclass(frozen=True)
class _Columns:
    """Places of the columns in a row of `width` cells."""

    document: int | None
    """None if `data.boundaries` tells documents apart."""
    source: int
    target: int
    """`width` if there is no such column."""
    target_name: str
    width: int


@dataclass(frozen=True)
class _Row:
    number: int
    cells: list[str]
    """Empty for a line that is not a row."""
    document: str | None
    problems: tuple[Finding, ...] = ()


class _Table:
    """A file of delimited text."""

    def __init__(
        self, dialect: _Dialect, files: CorpusFiles, findings: Findings, *, needs_target: bool
    ) -> None:
        self.file = files.source
        self.dialect = dialect
        self.counter = DocumentCounter(files.boundaries)
        lines = repaired_lines(self.file, findings, files.max_line_bytes)
        self._lines: Iterator[tuple[int, Line]] = enumerate(lines, start=1)
        self.header: str | None = None
        if dialect.has_header and not files.has_numbered_columns:
            _, first = next(self._lines, (0, ""))
            self.header = first if isinstance(first, str) else ""
            self.columns = _find_columns(files, self._split(first)[0], needs_target)
        else:
            # The first row tells the number of cells; boundaries may come before it.
            begun = []
            for number, line in self._lines:
                begun.append((number, line))
                if not (isinstance(line, str) and _is_boundary(line, files)):
                    break
            cells = self._split(begun[-1][1])[0] if begun else []
            self.columns = _number_columns(files, len(cells), needs_target)
            self._lines = chain(begun, self._lines)

    def rows(self) -> Iterator[_Row]:
        """Yield the rows after the header, with what is wrong with them."""
        current: str | None = None
        for number, line in self._lines:
            if self.columns.document is None:
                document = self.counter.document_of(line)
                is_row = bool(line) and document is not None
                row = self._row(number, line, document) if is_row else _Row(number, [], None)
            else:
                row = self._row(number, line, current) if line else _Row(number, [], current)
                current = row.document or current
            yield row

    def _split(self, line: Line) -> tuple[list[str], str | None]:
        """Return the cells of a line, and what is wrong with it if it cannot be split."""
        text = line if isinstance(line, str) else line.text
        try:
            return self.dialect.split(text), None
        except csv.Error as error:
            return [], f"cannot be split into cells ({error}). A quoted cell ends on its own line."

    def _row(self, number: int, line: Line, current: str | None) -> _Row:
        problems: list[Finding] = []
        if not isinstance(line, str):
            problems.append(bad_line(self.file, number, line))
        columns = self.columns
        cells, wrong = self._split(line)
        if columns.document is None:
            document = current or ""
        else:
            document = cells[columns.document] if columns.document < len(cells) else ""
        if len(cells) != columns.width:
            expected = "the header" if self.header is not None else "the first line"
            message = wrong or (
                f"has {len(cells)} cells but {expected} has {columns.width}. Cells must not "
                f"contain {self.dialect.separator!r}."
            )
            problems.append(problem("malformed_row", self.file, number, message))
            # Cells may have moved, so the id is only believed if it is that of the row before.
            document = document if document == current else ""
            return _Row(number, cells or [""], document or None, tuple(problems))
        if not document.strip():
            message = "has no document id. Each row must name its document."
            problems.append(problem("missing_field", self.file, number, message))
            document = ""
        return _Row(number, cells, document or None, tuple(problems))


def _is_boundary(line: str, files: CorpusFiles) -> bool:
    return not line or is_separator(line, files.boundaries)


def _find_columns(files: CorpusFiles, header: list[str], needs_target: bool) -> _Columns:
    names = [name.strip() for name in header]
    document = files.columns[0] or "document"
    for source, target in (("source", "target"), files.languages):
        source, target = files.columns[1] or source, files.columns[2] or target
        counts = [names.count(name) for name in (document, source, target)]
        if counts == [1, 1, 1] or (not needs_target and counts == [1, 1, 0]):
            place = names.index(target) if counts[2] else len(names)
            return _Columns(names.index(document), names.index(source), place, target, len(names))
    one, two = files.languages
    source = f"`{files.columns[1]}`" if files.columns[1] else f"`source` (or `{one}`)"
    target = f"`{files.columns[2]}`" if files.columns[2] else f"`target` (or `{two}`)"
    sides = f"{source} and {target}" if needs_target else source
    raise DataError(
        f"{files.source}:1: the first line must name the columns `{document}`, {sides}, each once. "
        "`data.document_column`, `data.source_column` and `data.target_column` choose others; "
        "numbers are columns of a file without a header."
    )


def _number_columns(files: CorpusFiles, width: int, needs_target: bool) -> _Columns:
    document, source, target = (None if name is None else int(name) for name in files.columns)
    source, target = source or 1, target or 2
    needed = [source, document or 1, *([target] if needs_target else [])]
    if len({source, target, document}) < 3 or not all(1 <= one <= width for one in needed):
        raise DataError(
            f"{files.source}:1: has {width} cells, but the columns of source, target and document "
            f"are {source}, {target} and {document or 'none'}. They must be different cells."
        )
    place = None if document is None else document - 1
    return _Columns(place, source - 1, min(target - 1, width), files.languages[1], width)


def _read(dialect: _Dialect, files: CorpusFiles, findings: Findings) -> Iterator[ParallelDocument]:
    table = _Table(dialect, files, findings, needs_target=True)
    yield from group_records(files.source, _records(table, findings), findings)
    if table.columns.document is None:
        table.counter.refuse_unknown_boundaries(files.source)


def _records(table: _Table, findings: Findings) -> Iterator[Record]:
    number = not_sentences = int(table.header is not None)
    columns = table.columns
    for row in table.rows():
        number = row.number
        if not row.cells:
            not_sentences += 1
            continue
        source = target = ""
        if len(row.cells) == columns.width:
            source, target = row.cells[columns.source], row.cells[columns.target]
        yield Record(number, row.document, (source,), (target,), row.problems)
    for tally in (findings.source, findings.target):
        tally.read += number
        tally.boundaries += not_sentences


def _pieces(dialect: _Dialect, files: CorpusFiles, findings: Findings) -> Iterator[Piece]:
    table = _Table(dialect, files, findings, needs_target=False)
    columns = table.columns
    has_target = columns.target < columns.width
    if table.header is not None:
        added = [] if has_target else [columns.target_name]
        yield copy_lines([dialect.join([*dialect.split(table.header), *added])])

    def fillable(row: _Row) -> FillableLine:
        for found in row.problems:
            findings.add(found)
        if not row.cells:
            return FillableLine(lambda _: "", is_blank=True)

        def render(sentences: Sequence[str]) -> str:
            # A separator would begin another cell.
            separator = dialect.separator
            translation = sentences[0].replace(separator, " ") if separator else sentences[0]
            target = columns.target
            return dialect.join([*row.cells[:target], translation, *row.cells[target + 1 :]])

        return FillableLine(
            render,
            source=(row.cells[columns.source],),
            reference=(row.cells[columns.target],) if has_target else None,
            document=row.document,
            line=row.number,
        )

    yield from group_lines(files.source, map(fillable, table.rows()))


def _write(dialect: _Dialect, files: CorpusFiles, documents: Iterable[ParallelDocument]) -> None:
    """Write documents, numbered from 1, with the columns that the files are read with."""
    columns = files.columns
    is_numbered = files.has_numbered_columns or not dialect.has_header
    if is_numbered:
        # The same defaults as in reading.
        columns = (columns[0], columns[1] or "1", columns[2] or "2")
    usual = ("document", *files.languages)
    names = [name or other for name, other in zip(columns, usual, strict=True)]

    def rows(number: int, document: ParallelDocument) -> Iterator[str]:
        for pair in zip(document.source.sentences, document.target.sentences, strict=True):
            if dialect.separator and any(dialect.separator in sentence for sentence in pair):
                raise DataError(
                    f"A sentence of {document.name} contains {dialect.separator!r}, which "
                    "separates cells. Remove it, or choose another format."
                )
            cells = [str(number), *pair]
            if is_numbered:
                places = {int(n): cell for n, cell in zip(columns, cells, strict=True) if n}
                cells = [places.get(place, "") for place in range(1, max(places) + 1)]
            yield dialect.join(cells)

    def lines() -> Iterator[str]:
        if not is_numbered:
            yield dialect.join(names)
        for number, document in enumerate(documents, start=1):
            if is_numbered and columns[0] is None:
                separated = document_lines(
                    [*rows(number, document)], files.boundaries, is_first=number == 1
                )
                yield from (line.removesuffix("\n") for line in separated)
            else:
                yield from rows(number, document)

    write_lines(files.source, lines())


def read_tsv(files: CorpusFiles, findings: Findings) -> Iterator[ParallelDocument]:
    """Yield the documents of tab-separated values."""
    return _read(_TSV, files, findings)


def write_tsv(files: CorpusFiles, documents: Iterable[ParallelDocument]) -> None:
    """Write documents, numbered from 1, as tab-separated values."""
    _write(_TSV, files, documents)


def tsv_pieces(files: CorpusFiles, findings: Findings) -> Iterator[Piece]:
    """Yield the header and the documents; a target that is already there is the reference."""
    return _pieces(_TSV, files, findings)


def read_csv(files: CorpusFiles, findings: Findings) -> Iterator[ParallelDocument]:
    """Yield the documents of comma-separated values."""
    return _read(_CSV, files, findings)


def write_csv(files: CorpusFiles, documents: Iterable[ParallelDocument]) -> None:
    """Write documents, numbered from 1, as comma-separated values."""
    _write(_CSV, files, documents)


def csv_pieces(files: CorpusFiles, findings: Findings) -> Iterator[Piece]:
    """Yield the header and the documents, as `tsv_pieces` does."""
    return _pieces(_CSV, files, findings)


def read_bars(files: CorpusFiles, findings: Findings) -> Iterator[ParallelDocument]:
    """Yield the documents of lines such as `a ||| b`."""
    return _read(_BARS, files, findings)


def write_bars(files: CorpusFiles, documents: Iterable[ParallelDocument]) -> None:
    """Write documents as lines such as `a ||| b`."""
    _write(_BARS, files, documents)


def bars_pieces(files: CorpusFiles, findings: Findings) -> Iterator[Piece]:
    """Yield the documents of lines such as `a ||| b`, or of their sources alone."""
    return _pieces(_BARS, files, findings)


def read_alternating(files: CorpusFiles, findings: Findings) -> Iterator[ParallelDocument]:
    """Yield the documents of a file in which each line is followed by its translation."""
    counter = DocumentCounter(files.boundaries)
    yield from group_records(files.source, _line_pairs(files, counter, findings), findings)
    counter.refuse_unknown_boundaries(files.source)


def _line_pairs(
    files: CorpusFiles, counter: DocumentCounter, findings: Findings
) -> Iterator[Record]:
    file = files.source
    tallies = findings.source, findings.target
    lines = enumerate(repaired_lines(file, findings, files.max_line_bytes), start=1)
    for number, line in lines:
        for tally in tallies:
            tally.read += 1
        document = counter.document_of(line)
        if document is None:
            for tally in tallies:
                tally.boundaries += 1
            continue
        after, other = next(lines, (number, ""))
        problems = [
            bad_line(file, place, one)
            for place, one in ((number, line), (after, other))
            if not isinstance(one, str)
        ]
        is_alone = isinstance(other, str) and is_separator(other, files.boundaries)
        if after == number or is_alone:
            message = "has no translation on the next line. Lines come in pairs."
            problems.append(problem("count_mismatch", file, number, message))
        texts = [one if isinstance(one, str) else one.text for one in (line, other)]
        if is_alone and after != number:
            # The boundary that came in place of the translation.
            counter.document_of(other)
            for tally in tallies:
                tally.read += 1
                tally.boundaries += 1
        yield Record(number, document, (texts[0],), (texts[1],), tuple(problems))


TSV = Format(names=("*.tsv",), files="one", read=read_tsv, write=write_tsv, pieces=tsv_pieces)
CSV = Format(names=("*.csv",), files="one", read=read_csv, write=write_csv, pieces=csv_pieces)
BARS = Format(names=("*.bars",), files="one", read=read_bars, write=write_bars, pieces=bars_pieces)
ALTERNATING = Format(names=("*.pairs",), files="one", read=read_alternating)
