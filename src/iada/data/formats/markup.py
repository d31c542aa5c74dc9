"""SGM and XML of WMT and IWSLT to marked documents of one side each.

Such files are often not well-formed (bare `&`, upper-case tags, unquoted attributes, no header),
so they are scanned for the tags that matter, in one pass of linear time. White space around a
segment is no part of it, and line breaks inside become one space.
"""

import html.entities
import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from pathlib import Path

from iada.data.findings import Finding, Findings, problem
from iada.data.lines import BadLine, bad_line, decoded_lines, repair

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
"""Tags that part a document into source, references and translations of systems."""


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


def scan(file: Path, sections: Sequence[str], findings: Findings) -> Markup:
    """Find the documents and segments of a file.

    Args:
        file: SGM or XML.
        sections: tags that part documents; without any, a document holds its segments itself.
        findings: gets lines outside of segments that cannot be decoded.
    """
    lines = list(decoded_lines(file, findings))
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
    """Puts segments into the document and section in which they stand."""

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
