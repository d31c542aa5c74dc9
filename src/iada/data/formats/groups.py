"""Records of a file to documents, for formats that tell the document in each record.

Records of one document are consecutive. One that cannot be used may still tell its document. If it
does not, it may belong to the document before it or to the one after it, so both are left out.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from iada.data.documents import ParallelDocument
from iada.data.findings import Finding, Findings, problem
from iada.data.formats.assembly import DocumentSide, assemble
from iada.errors import DataError


@dataclass(frozen=True)
class Record:
    """Sentences of one line of a file."""

    line: int
    document: str | None
    """Id of the document; None if the record does not tell."""
    source: tuple[str, ...]
    target: tuple[str, ...]
    problems: tuple[Finding, ...] = ()
    """Why the document cannot be used; never empty for a part that does not tell its document."""
    is_whole: bool = False
    """Whether the record is a document and not a part of one."""


@dataclass
class _Group:
    document: str | None = None
    records: list[Record] = field(default_factory=list)
    problems: list[Finding] = field(default_factory=list)


def group_records(
    file: Path, records: Iterable[Record], findings: Findings
) -> Iterator[ParallelDocument]:
    """Yield the documents of a file.

    Raises:
        DataError: there is no record.
    """
    # Hashes, not ids: a corpus may have millions of them.
    seen: set[int] = set()
    group = _Group()
    for record in records:
        moved_on = None not in (record.document, group.document) and (
            record.document != group.document
        )
        if moved_on or record.is_whole or (group.records and group.records[-1].is_whole):
            yield from _close(file, group, findings)
            group = _Group(problems=_stray(file, group) if moved_on else [])
        if record.document is not None and group.document is None:
            group.document = record.document
            if hash(record.document) in seen:
                message = f"document {record.document} comes back; it was read as another one."
                findings.report("repeated_id", file, record.line, message)
            seen.add(hash(record.document))
        group.records.append(record)
        group.problems += record.problems
    if not group.records:
        raise DataError(f"{file} holds no sentence. Give a file with at least one document.")
    yield from _close(file, group, findings)


def _stray(file: Path, group: _Group) -> list[Finding]:
    """Return a problem for the next document if the group ends in a part of unknown document."""
    last = group.records[-1]
    if last.document is not None or last.is_whole:
        return []
    message = "this line tells no document, so the one after it may miss a sentence."
    return [problem("missing_field", file, last.line, message)]


def _close(file: Path, group: _Group, findings: Findings) -> Iterator[ParallelDocument]:
    if not group.records:
        return
    name = f"{file.name}:{group.document or group.records[0].line}"
    source = _side(file, name, [(record.line, record.source) for record in group.records])
    target = _side(file, name, [(record.line, record.target) for record in group.records])
    problems = group.problems
    if not problems and not source.sentences and not target.sentences:
        message = f"document {name} is empty. Leave it out, or give its sentences."
        problems = [problem("empty_document", file, group.records[0].line, message)]
    document = assemble(source, target, problems, findings)
    if document is not None:
        yield document


def _side(file: Path, name: str, parts: list[tuple[int, tuple[str, ...]]]) -> DocumentSide:
    sentences = [sentence for _, part in parts for sentence in part]
    return DocumentSide(file, name, sentences, [line for line, part in parts for _ in part])
