"""Tab-separated values: one file, one sentence pair per row, a header that names the columns.

The columns are `document` and either `source` and `target` or the two language codes; others are
ignored. There is no quoting: a tab always separates cells. Rows of one document are consecutive.
Empty lines are not rows. In translation the target column is filled, and added if it is missing.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from iada.data.documents import ParallelDocument
from iada.data.formats.assembly import FillableLine, Record, group_lines, group_records
from iada.data.formats.file_format import CorpusFiles, Format, Piece, copy_lines
from iada.data.formats.findings import Finding, Findings, problem
from iada.data.formats.lines import Line, bad_line, repaired_lines, write_lines
from iada.errors import DataError


@dataclass(frozen=True)
class _Columns:
    """Places of the columns in a row of `width` cells."""

    document: int
    source: int
    target: int
    """`width` if there is no such column."""
    target_name: str
    width: int


@dataclass(frozen=True)
class _Row:
    number: int
    cells: list[str]
    """Empty for an empty line."""
    document: str | None
    problems: tuple[Finding, ...] = ()


class _Table:
    """A file of tab-separated values."""

    def __init__(self, files: CorpusFiles, findings: Findings, *, needs_target: bool) -> None:
        self.file = files.source
        self._lines = enumerate(repaired_lines(self.file, findings, files.max_line_bytes), start=1)
        _, header = next(self._lines, (0, ""))
        self.header = header if isinstance(header, str) else ""
        self.columns = _find_columns(self.file, self.header, files.languages, needs_target)

    def rows(self) -> Iterator[_Row]:
        """Yield the rows after the header, with what is wrong with them."""
        current: str | None = None
        for number, line in self._lines:
            row = self._row(number, line, current) if line else _Row(number, [], current)
            current = row.document or current
            yield row

    def _row(self, number: int, line: Line, current: str | None) -> _Row:
        problems: list[Finding] = []
        if not isinstance(line, str):
            problems.append(bad_line(self.file, number, line))
        columns = self.columns
        cells = (line if isinstance(line, str) else line.text).split("\t")
        document = cells[columns.document] if columns.document < len(cells) else ""
        if len(cells) != columns.width:
            message = (
                f"has {len(cells)} cells but the header has {columns.width}. Cells must not "
                "contain tabs."
            )
            problems.append(problem("malformed_row", self.file, number, message))
            # Cells may have moved, so the id is only believed if it is that of the row before.
            document = document if document == current else ""
            return _Row(number, cells, document or None, tuple(problems))
        if not document.strip():
            message = "has no document id. Each row must name its document."
            problems.append(problem("missing_field", self.file, number, message))
            document = ""
        return _Row(number, cells, document or None, tuple(problems))


def read_tsv(files: CorpusFiles, findings: Findings) -> Iterator[ParallelDocument]:
    """Yield the documents of a file with a header row.

    Raises:
        DataError: the header does not name the columns.
    """
    table = _Table(files, findings, needs_target=True)
    return group_records(files.source, _records(table, findings), findings)


def write_tsv(files: CorpusFiles, documents: Iterable[ParallelDocument]) -> None:
    """Write documents, numbered from 1, with columns named by language codes."""
    write_lines(files.source, _lines(documents, files.languages))


def tsv_pieces(files: CorpusFiles, findings: Findings) -> Iterator[Piece]:
    """Yield the header and the documents; a target that is already there is the reference."""
    table = _Table(files, findings, needs_target=False)
    columns = table.columns
    has_target = columns.target < columns.width
    header = table.header
    yield copy_lines([header if has_target else f"{header}\t{columns.target_name}"])

    def fillable(row: _Row) -> FillableLine:
        for found in row.problems:
            findings.add(found)
        if not row.cells:
            return FillableLine(lambda _: "", is_blank=True)

        def render(sentences: Sequence[str]) -> str:
            # A tab would begin another cell.
            translation = sentences[0].replace("\t", " ")
            target = columns.target
            return "\t".join([*row.cells[:target], translation, *row.cells[target + 1 :]])

        return FillableLine(
            render,
            source=(row.cells[columns.source],),
            reference=(row.cells[columns.target],) if has_target else None,
            document=row.document,
            line=row.number,
        )

    yield from group_lines(files.source, map(fillable, table.rows()))


def _find_columns(
    file: Path, header: str, languages: tuple[str, str], needs_target: bool
) -> _Columns:
    names = [name.strip() for name in header.split("\t")]
    for source, target in (("source", "target"), languages):
        counts = [names.count(name) for name in ("document", source, target)]
        if counts == [1, 1, 1] or (not needs_target and counts == [1, 1, 0]):
            place = names.index(target) if counts[2] else len(names)
            return _Columns(names.index("document"), names.index(source), place, target, len(names))
    sides = (
        f"`source` and `target` (or `{languages[0]}` and `{languages[1]}`)"
        if needs_target
        else f"`source` (or `{languages[0]}`)"
    )
    raise DataError(
        f"{file}:1: the first line must name the columns `document`, {sides}, separated by tabs "
        "and each once."
    )


def _records(table: _Table, findings: Findings) -> Iterator[Record]:
    number, not_sentences = 1, 1
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


def _lines(documents: Iterable[ParallelDocument], languages: tuple[str, str]) -> Iterator[str]:
    yield "\t".join(("document", *languages))
    for number, document in enumerate(documents, start=1):
        for pair in zip(document.source.sentences, document.target.sentences, strict=True):
            if any("\t" in sentence for sentence in pair):
                raise ValueError(f"a sentence of {document.name} contains a tab")
            yield "\t".join((str(number), *pair))


FORMAT = Format(names=("*.tsv",), files="one", read=read_tsv, write=write_tsv, pieces=tsv_pieces)
