"""SGM and XML of WMT and IWSLT: two files with one side each, or one file with both.

Such files are often not well-formed (bare `&`, upper-case tags, unquoted attributes, no header),
and markup inside a segment is text. So they are scanned for the tags that matter, in one pass of
linear time, instead of being parsed: XML parsers refuse them, and recovering ones change the text
(see `docs/decisions.md`). White space around a segment is not part of it, and line breaks inside
become one space.

Documents are paired by their id and segments by theirs; what has no partner is left out and
reported. Of several references one is taken. Files of this form are small and are read whole.
"""

import html.entities
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from pathlib import Path

from iada.config.data import MAX_LINE_BYTES
from iada.data.documents import ParallelDocument
from iada.data.formats.assembly import DocumentSide, assemble
from iada.data.formats.file_format import CorpusFiles, Format
from iada.data.formats.findings import Finding, Findings, problem
from iada.data.formats.lines import BadLine, bad_line, read_decoded, repair
from iada.errors import DataError

# No attempt to match can reach beyond the next tag, so the scan is linear. ASCII, because no odd
# separator ends the name of a tag and no long s begins one.
_TAG = re.compile(r"<(/?)(doc|src|ref|hyp|seg)(?=[\s>/])([^<>]*)>", re.IGNORECASE | re.ASCII)
# The lookbehind keeps a long name from being tried at each of its letters.
_ATTRIBUTE = re.compile(
    r"(?<![\w:-])([\w:-]++)\s*+=\s*+(?:\"([^\"]*+)\"|'([^']*+)'|([^\s\"'>/]++))"
)
_ENTITY = re.compile(r"&(?:#([0-9]{1,7})|#[xX]([0-9a-fA-F]{1,6})|([A-Za-z][A-Za-z0-9]{0,31}));")
# What XML calls white space; other spaces are text.
_WHITE_SPACE = " \t\r\n"

SECTIONS = ("src", "ref", "hyp")
"""Tags that divide a document into source, references and translations of systems."""


@dataclass(frozen=True)
class Segment:
    """One sentence of a marked document."""

    identity: str
    markup: str
    """What stands between the tags."""
    line: int

    def sentence(self, file: Path, findings: Findings) -> str:
        """Return the text that the markup means, and report what is odd about it."""
        text = _unescape(self.markup).strip(_WHITE_SPACE)
        if "\n" in text:
            message = "the segment that begins here spans several lines; spaces join them."
            findings.report("wrapped_segment", file, self.line, message)
            text = " ".join(filter(None, (part.strip(_WHITE_SPACE) for part in text.split("\n"))))
        return repair(text, file, self.line, findings)


@dataclass
class MarkedDocument:
    """The segments of one document in one section of a file."""

    identity: str
    line: int
    section: str
    """`src`, `ref` or `hyp`; empty where documents have no sections."""
    translator: str
    segments: list[Segment] = field(default_factory=list)
    problems: list[Finding] = field(default_factory=list)
    """Why the document cannot be used."""


@dataclass
class Markup:
    """What a file holds."""

    documents: list[MarkedDocument] = field(default_factory=list)
    strays: list[list[Finding]] = field(default_factory=list)
    """Why each segment that belongs to no document cannot be used."""

    def section(self, name: str) -> list[MarkedDocument]:
        """Return the documents of one section."""
        return [document for document in self.documents if document.section == name]


def scan(
    file: Path, sections: Sequence[str], findings: Findings, max_line_bytes: int = MAX_LINE_BYTES
) -> Markup:
    """Find the documents and segments of a file.

    Args:
        file: SGM or XML.
        sections: tags that divide documents; without any, a document holds its segments itself.
        findings: gets lines outside of segments that cannot be decoded.
        max_line_bytes: longest line that is read.
    """
    lines = read_decoded(file, findings, max_line_bytes)
    content = "\n".join(line if isinstance(line, str) else line.text for line in lines)
    bad = {n: line for n, line in enumerate(lines, start=1) if isinstance(line, BadLine)}
    starts = [0, *accumulate(len(x if isinstance(x, str) else x.text) + 1 for x in lines)]
    scanner = _Scanner(file, content, starts, bad, bool(sections))
    for tag, following in pairwise([*_TAG.finditer(content), None]):
        assert tag is not None
        match tag.group(2).lower(), tag.group(1):
            case "seg", "":
                scanner.add_segment(tag, following)
            case "seg", _:
                pass
            case "doc", "":
                scanner.begin_document(tag)
            case section, "" if section in sections:
                scanner.begin_section(tag, section)
            case "doc", _:
                scanner.end_document()
            case section, _ if section in sections:
                scanner.current = None
    for number in bad.keys() - scanner.blamed:
        findings.add(bad_line(file, number, bad[number]))
    return scanner.markup


class _Scanner:
    """Puts segments into the document and section that contain them."""

    def __init__(
        self,
        file: Path,
        content: str,
        starts: list[int],
        bad: dict[int, BadLine],
        has_sections: bool,
    ) -> None:
        self.file = file
        self.content = content
        self.starts = starts
        self.bad = bad
        self.bad_numbers = [*bad]
        self.has_sections = has_sections
        self.markup = Markup()
        self.current: MarkedDocument | None = None
        self.blamed: set[int] = set()
        """Bad lines that a segment has reported."""
        self.count = 0
        self.identity: str | None = None
        """Id of the open document."""

    def begin_document(self, tag: re.Match[str]) -> None:
        attributes = _attributes(tag.group(3))
        self.count += 1
        self.identity = attributes.get("docid") or attributes.get("id") or str(self.count)
        self.current = None
        if not self.has_sections:
            self._begin(tag, "", attributes.get("sysid") or attributes.get("refid") or "")

    def end_document(self) -> None:
        self.identity = self.current = None

    def begin_section(self, tag: re.Match[str], section: str) -> None:
        self._begin(tag, section, _attributes(tag.group(3)).get("translator", ""))

    def _begin(self, tag: re.Match[str], section: str, translator: str) -> None:
        if self.identity is not None:
            line = bisect_right(self.starts, tag.start())
            self.current = MarkedDocument(self.identity, line, section, translator)
            self.markup.documents.append(self.current)

    def add_segment(self, tag: re.Match[str], following: re.Match[str] | None) -> None:
        stop = len(self.content) if following is None else following.start()
        line = bisect_right(self.starts, tag.start())
        last = bisect_right(self.starts, stop)
        first_bad = bisect_left(self.bad_numbers, line)
        numbers = self.bad_numbers[first_bad : bisect_right(self.bad_numbers, last)]
        self.blamed.update(numbers)
        problems = [bad_line(self.file, number, self.bad[number]) for number in numbers]
        if following is None or following.group(1) != "/" or following.group(2).lower() != "seg":
            message = "the segment that begins here is not closed by `</seg>`."
            problems.append(problem("malformed_markup", self.file, line, message))
        if self.current is None:
            message = "the segment that begins here is in no document."
            problems.append(problem("malformed_markup", self.file, line, message))
            self.markup.strays.append(problems)
            return
        identity = _attributes(tag.group(3)).get("id", str(len(self.current.segments) + 1))
        self.current.segments.append(Segment(identity, self.content[tag.end() : stop], line))
        self.current.problems += problems


def _attributes(text: str) -> dict[str, str]:
    return {
        match.group(1).lower(): " ".join(_unescape(match.group(match.lastindex or 0)).split())
        for match in _ATTRIBUTE.finditer(text)
    }


def _unescape(text: str) -> str:
    return _ENTITY.sub(_character, text) if "&" in text else text


def _character(entity: re.Match[str]) -> str:
    """Return the character of an entity; what names none stays as it is."""
    decimal, hexadecimal, name = entity.groups()
    if name:
        return html.entities.html5.get(f"{name};", entity.group())
    code = int(decimal) if decimal else int(hexadecimal, 16)
    is_character = code <= 0x10FFFF and not 0xD800 <= code <= 0xDFFF
    return chr(code) if is_character else entity.group()


_Key = tuple[str, int]
"""Id of a document, and how many of the same id came before."""


def read_sgm(files: CorpusFiles, findings: Findings) -> Iterator[ParallelDocument]:
    """Yield the documents of two files with segments, or of one with sections `<src>` and `<ref>`.

    Raises:
        DataError: a file has no segment of its side, or none by the translator
            (`translator`, or `sysid` in SGM) that `files.reference` names.
    """
    source, target = files.pair()
    if source == target:
        markup = scan(source, SECTIONS, findings, files.max_line_bytes)
        sources, targets = markup.section("src"), markup.section("ref")
        _drop_strays(markup, findings, source=1, target=1)
    else:
        markup = scan(source, (), findings, files.max_line_bytes)
        sources = markup.documents
        _drop_strays(markup, findings, source=1, target=0)
        markup = scan(target, (), findings, files.max_line_bytes)
        targets = markup.documents
        _drop_strays(markup, findings, source=0, target=1)
    _require_segments(source, sources, "src")
    _require_segments(target, targets, "ref")
    chosen = _choose(target, targets, files.reference)
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
            message = f"document {document.identity} occurs again; it was read as another one."
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


FORMAT = Format(names=("*.sgm", "*.xml"), files="either", read=read_sgm)
