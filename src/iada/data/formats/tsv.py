"""Tab-separated values: one file, one sentence pair per row, a header that names the columns.

The columns are `document` and either `source` and `target` or the two language codes; others are
ignored. There is no quoting: a tab always parts cells. Rows of one document are consecutive. Empty
lines are no rows.
"""

from collections.abc import Iterator
from pathlib import Path

from iada.data.documents import ParallelDocument
from iada.data.formats.assembly import Record, group_records
from iada.data.formats.findings import Finding, Findings, problem
from iada.data.formats.lines import Line, bad_line, repaired_lines
from iada.errors import DataError


def read_tsv(
    file: Path, languages: tuple[str, str], findings: Findings
) -> Iterator[ParallelDocument]:
    """Yield the documents of a file.

    Args:
        file: with a header row.
        languages: codes that may name the columns of both sides, source first.
        findings: gets what cannot be used.

    Raises:
        DataError: the header does not name the columns.
    """
    return group_records(file, _records(file, languages, findings), findings)


def _records(file: Path, languages: tuple[str, str], findings: Findings) -> Iterator[Record]:
    lines = enumerate(repaired_lines(file, findings), start=1)
    number, header = next(lines, (0, ""))
    columns, width = _columns(file, header, languages)
    others = 1
    current: str | None = None
    for number, line in lines:
        if not line:
            others += 1
            continue
        record = _record(file, number, line, columns, width, current)
        current = record.document or current
        yield record
    for tally in (findings.source, findings.target):
        tally.read += number
        tally.boundaries += others


def _columns(
    file: Path, header: Line, languages: tuple[str, str]
) -> tuple[tuple[int, int, int], int]:
    """Return the columns of document, source and target, and the number of columns."""
    names = [name.strip() for name in header.split("\t")] if isinstance(header, str) else []
    for source, target in (("source", "target"), languages):
        if all(names.count(name) == 1 for name in ("document", source, target)):
            return (names.index("document"), names.index(source), names.index(target)), len(names)
    raise DataError(
        f"{file}:1: the first line must name the columns `document`, `source` and `target` (or "
        f"`{languages[0]}` and `{languages[1]}`), parted by tabs and each once."
    )


def _record(
    file: Path,
    number: int,
    line: Line,
    columns: tuple[int, int, int],
    width: int,
    current: str | None,
) -> Record:
    problems: list[Finding] = []
    if not isinstance(line, str):
        problems.append(bad_line(file, number, line))
    cells = (line if isinstance(line, str) else line.text).split("\t")
    document = cells[columns[0]] if columns[0] < len(cells) else ""
    if len(cells) != width:
        message = f"has {len(cells)} cells but the header has {width}. Cells must hold no tab."
        problems.append(problem("malformed_row", file, number, message))
        # Cells may have moved, so the id is only believed if it is the one before.
        document = document if document == current else ""
        return Record(number, document or None, ("",), ("",), tuple(problems))
    if not document.strip():
        message = "has no document id. Each row must tell its document."
        problems.append(problem("missing_field", file, number, message))
        document = ""
    source, target = (cells[columns[1]],), (cells[columns[2]],)
    return Record(number, document or None, source, target, tuple(problems))
