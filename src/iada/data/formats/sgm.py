"""SGM and XML of WMT and IWSLT: two files of one side each, or one file with both.

Documents are paired by their id and segments by theirs; what has no partner is left out and
reported. Of several references one is taken. Files of this form are small and are read whole.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from iada.data.documents import ParallelDocument
from iada.data.findings import Finding, Findings, problem
from iada.data.formats.assembly import DocumentSide, assemble
from iada.data.formats.markup import SECTIONS, MarkedDocument, Markup, Segment, scan
from iada.errors import DataError

_Key = tuple[str, int]
"""Id of a document, and how many of the same id came before."""


def read_sgm(
    source: Path, target: Path, reference: str | None, findings: Findings
) -> Iterator[ParallelDocument]:
    """Yield the documents of two files, or of one file that is both source and target.

    Args:
        source: documents with segments, or with sections `<src>` and `<ref>`.
        target: likewise.
        reference: translator (`translator`, or `sysid` in SGM) whose reference to take; by default
            the first of each document.
        findings: gets what cannot be used.

    Raises:
        DataError: a file has no segment of its side, or none by the translator.
    """
    if source == target:
        markup = scan(source, SECTIONS, findings)
        sources, targets = markup.section("src"), markup.section("ref")
        _drop_strays(markup, findings, source=1, target=1)
    else:
        markup = scan(source, (), findings)
        sources = markup.documents
        _drop_strays(markup, findings, source=1, target=0)
        markup = scan(target, (), findings)
        targets = markup.documents
        _drop_strays(markup, findings, source=0, target=1)
    _require_segments(source, sources, "src")
    _require_segments(target, targets, "ref")
    chosen = _choose(target, targets, reference)
    findings.source.read += _count(sources)
    findings.target.read += _count(targets)
    findings.target.boundaries += _count(targets) - _count(chosen)
    partners = _keyed(target, chosen, findings)
    for key, document in _keyed(source, sources, findings).items():
        paired = _pair(source, document, target, partners.pop(key, None), findings)
        if paired is not None:
            yield paired
    for document in partners.values():
        problems = _without_partner(target, document, source)
        findings.drop(problems, source=0, target=len(document.segments))


def _require_segments(file: Path, documents: list[MarkedDocument], section: str) -> None:
    if not any(document.segments for document in documents):
        raise DataError(
            f"{file} holds no `<seg>` in a `<doc>` (in its `<{section}>`, if one file holds both "
            "sides). Put `{language}` into the name of files with one side each."
        )


def _choose(
    file: Path, documents: list[MarkedDocument], reference: str | None
) -> list[MarkedDocument]:
    """Return the documents of one translator: the given one, or the first of each id."""
    first: dict[str, str] = {}
    for document in documents:
        first.setdefault(document.identity, document.translator)
    chosen = [d for d in documents if d.translator == (reference or first[d.identity])]
    if not chosen:
        names = ", ".join(sorted({ascii(document.translator) for document in documents}))
        raise DataError(
            f"{file} has no reference by {reference}; it has {names}. Change `data.reference`."
        )
    return chosen


def _drop_strays(markup: Markup, findings: Findings, *, source: int, target: int) -> None:
    """Account for segments outside of documents; in a file of both sides they belong to both."""
    for problems in markup.strays:
        findings.source.read += source
        findings.target.read += target
        findings.drop(problems, source=source, target=target)


def _count(documents: list[MarkedDocument]) -> int:
    return sum(len(document.segments) for document in documents)


def _keyed(
    file: Path, documents: list[MarkedDocument], findings: Findings
) -> dict[_Key, MarkedDocument]:
    seen: Counter[str] = Counter()
    keyed = {}
    for document in documents:
        keyed[document.identity, seen[document.identity]] = document
        if seen[document.identity]:
            message = f"document {document.identity} comes back; it was read as another one."
            findings.report("repeated_id", file, document.line, message)
        seen[document.identity] += 1
    return keyed


def _pair(
    source: Path,
    left: MarkedDocument,
    target: Path,
    right: MarkedDocument | None,
    findings: Findings,
) -> ParallelDocument | None:
    if right is None:
        problems = _without_partner(source, left, target)
        findings.drop(problems, source=len(left.segments), target=0)
        return None
    problems = [*left.problems, *right.problems]
    if not left.segments and not right.segments:
        message = f"document {left.identity} is empty. Leave it out, or give its segments."
        problems.append(problem("empty_document", source, left.line, message))
    problems += _unpaired(source, left, target, right)
    ordered = right.segments
    if not problems:
        by_identity = {segment.identity: segment for segment in ordered}
        ordered = [by_identity[segment.identity] for segment in left.segments]
    return assemble(
        _side(source, left, left.segments, findings),
        _side(target, right, ordered, findings),
        problems,
        findings,
    )


def _unpaired(
    source: Path, left: MarkedDocument, target: Path, right: MarkedDocument
) -> list[Finding]:
    """Return a problem if the ids of the segments do not pair up one to one."""
    counts = [Counter(segment.identity for segment in side.segments) for side in (left, right)]
    alone = {*(counts[0] - counts[1]), *(counts[1] - counts[0])}
    twice = {identity for count in counts for identity in count if count[identity] > 1}
    if not alone and not twice:
        return []
    shown = ", ".join(sorted(ascii(identity)[1:-1][:40] for identity in alone or twice)[:3])
    message = (
        f"document {left.identity} has {len(left.segments)} segments here and "
        f"{len(right.segments)} at {target}:{right.line}, but {len(alone)} ids are on one side "
        f"only and {len(twice)} are given twice ({shown})."
    )
    return [problem("segment_mismatch", source, left.line, message)]


def _without_partner(file: Path, document: MarkedDocument, other: Path) -> list[Finding]:
    message = f"document {document.identity} has no partner in {other}."
    return [problem("missing_document", file, document.line, message), *document.problems]


def _side(
    file: Path, document: MarkedDocument, segments: list[Segment], findings: Findings
) -> DocumentSide:
    texts = [segment.sentence(file, findings) for segment in segments]
    lines = [segment.line for segment in segments]
    return DocumentSide(file, f"{file.name}:{document.identity}", texts, lines)
