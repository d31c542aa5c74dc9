"""Segments of XML formats: their text, and a translation put in its place.

XML is parsed without network, entities or DTDs. Of inline codes only the text that they enclose is
read. White space around a segment is not part of it, and line breaks inside become one space.

In translation the file stays as it is, with the target segments filled or added. Inline codes are
copied from the source segment: those at its ends stay there, and those inside the text go to the
word boundary at about the same place, in their order.
"""

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from xml.sax.saxutils import escape

from lxml import etree

from iada.data.documents import Document, ParallelDocument
from iada.data.formats.file_format import CorpusFiles, Piece, report_target
from iada.data.formats.findings import Findings
from iada.data.formats.lines import byte_blocks, read_bytes, repair
from iada.errors import DataError

_CODES = frozenset({"bpt", "ept", "ph", "it", "ut", "x", "bx", "ex", "sc", "ec", "cp"})
"""Inline elements whose content is markup of another format and not text."""
_SAFELY = {"resolve_entities": False, "no_network": True, "load_dtd": False}
DECLARATION = '<?xml version="1.0" encoding="UTF-8"?>'


def matches_language(tag: str, code: str) -> bool:
    """Tell whether a language tag such as `en-US` is that of a code such as `en`."""
    tag, code = tag.lower().replace("_", "-"), code.lower().replace("_", "-")
    return tag == code or tag.startswith(f"{code}-")


def parse_whole(path: Path, root: str) -> etree._Element:
    """Parse a whole file; refuse another root element."""
    try:
        found = etree.fromstring(read_bytes(path), etree.XMLParser(**_SAFELY))
    except etree.XMLSyntaxError as error:
        raise _malformed(path, error) from None
    _require_root(path, found, root)
    return found


def stream_elements(path: Path, root: str, name: str) -> Iterator[etree._Element]:
    """Yield the elements of a name as they are parsed; each is forgotten after its turn."""
    parser = etree.XMLPullParser(events=("start", "end"), **_SAFELY)
    is_known = False
    try:
        for block in byte_blocks(path):
            parser.feed(block)
            for event, element in parser.read_events():
                if not is_known:
                    _require_root(path, element, root)
                is_known = True
                if event == "end" and _name(element) == name:
                    yield element
                    _forget(element)
        parser.close()
    except etree.XMLSyntaxError as error:
        raise _malformed(path, error) from None


def segment_text(element: etree._Element | None, path: Path, findings: Findings) -> str:
    """Return a segment as a sentence; one that is not there is empty."""
    if element is None:
        return ""
    parts = "".join(_text_runs(element)).split("\n")
    text = " ".join(filter(None, (part.strip(" \t\r") for part in parts)))
    if len(parts) > 1:
        message = "the segment that begins here spans several lines; spaces join them."
        findings.report("wrapped_segment", path, element.sourceline, message)
    return repair(text, path, element.sourceline, findings)


@dataclass(frozen=True)
class Slot:
    """A segment to translate, and where its translation goes."""

    document: str
    """Segments in a row with the same one are a document."""
    source: etree._Element
    target: etree._Element | None
    make: Callable[[], etree._Element]
    """Adds the element of the target if there is none."""
    is_final: bool = False
    """Whether the file marks the target as done, so that it stands as it is."""


def slot_pieces(
    files: CorpusFiles, root: etree._Element, slots: Sequence[Slot], findings: Findings
) -> Iterator[Piece]:
    """Yield the documents of a file; the last piece writes the whole file."""
    groups = [[*group] for _, group in groupby(slots, key=lambda slot: slot.document)]
    for number, group in enumerate(groups, start=1):
        yield _piece(f"{files.source.name}:{number}", files, group, findings)

    def render(_: Sequence[str]) -> list[str]:
        # By now all pieces before it have filled their part of the tree.
        text = etree.tostring(root.getroottree(), encoding="unicode")
        return [DECLARATION, *text.removesuffix("\n").split("\n")]

    yield Piece(render)


def insert_after(place: etree._Element, new: etree._Element) -> None:
    """Insert an element after its sibling, indented like it."""
    before, tail = place.getprevious(), place.tail
    indentation = place.getparent().text if before is None else before.tail
    place.addnext(new)
    # `addnext` moves the text that followed along with the new element.
    is_indented = indentation is not None and not indentation.strip()
    new.tail, place.tail = tail, indentation if is_indented else None


def fill_segment(target: etree._Element, source: etree._Element, translation: str) -> None:
    """Put a translation into a target segment, with the inline codes of the source."""
    text = "".join(_text_runs(source))
    lead, trail = _margins(text)
    filled = text[:lead] + translation + text[len(text) - trail :]
    for child in [*target]:
        target.remove(child)
    read = done = 0

    def cut(run: str | None) -> str:
        """Return the part of the translation that belongs to the next run of the source's text."""
        nonlocal read, done
        read += len(run or "")
        # Codes that meet at one word boundary stay in their order.
        begun, done = done, max(done, _place(text, read, translation))
        return filled[begun:done]

    def copy(into: etree._Element, element: etree._Element) -> None:
        into.text = cut(element.text)
        for child in element:
            new = deepcopy(child)
            into.append(new)
            if _has_text(child):
                for grandchild in [*new]:
                    new.remove(grandchild)
                copy(new, child)
            new.tail = cut(child.tail)

    copy(target, source)


def written_pairs(document: ParallelDocument) -> Iterator[tuple[str, str]]:
    """Yield the sentence pairs as XML text; refuse characters that XML cannot hold."""
    for pair in zip(document.source.sentences, document.target.sentences, strict=True):
        for sentence in pair:
            if any(
                (symbol < " " and symbol != "\t") or symbol in "\ufffe\uffff" for symbol in sentence
            ):
                raise DataError(
                    f"A sentence of {document.name} contains a control character, which XML "
                    "cannot hold. Remove it, or choose another format."
                )
        yield escape(pair[0]), escape(pair[1])


def _piece(name: str, files: CorpusFiles, slots: Sequence[Slot], findings: Findings) -> Piece:
    path = files.source

    def render(sentences: Sequence[str]) -> list[str]:
        for slot, sentence, known in zip(slots, sentences, kept, strict=True):
            if known is None:
                target = slot.make() if slot.target is None else slot.target
                fill_segment(target, slot.source, sentence)
        return []

    source = tuple(segment_text(slot.source, path, findings) for slot in slots)
    target = tuple(segment_text(slot.target, path, findings) for slot in slots)
    pairs = [*zip(slots, target, strict=True)]
    kept = tuple(text if slot.is_final and text else None for slot, text in pairs)
    for slot, text in pairs:
        if text:
            report_target(files, slot.source.sourceline, findings, stands=slot.is_final)
        if slot.is_final and text:
            continue
        # Codes at the ends of a segment have a certain place.
        if sum(bool(run.strip()) for run in _text_runs(slot.source)) > 1:
            message = (
                "the segment has inline codes inside its text; in the translation they stand at "
                "about the same place. Check them."
            )
            findings.report("inline_code", path, slot.source.sourceline, message)
    reference = Document(name, target) if all(target) else None
    return Piece(render, Document(name, source), reference, kept if any(kept) else ())


def _malformed(path: Path, error: etree.XMLSyntaxError) -> DataError:
    return DataError(
        f"{path}:{error.lineno or 1}: is not well-formed XML ({error.msg}). Export it again."
    )


def _require_root(path: Path, element: etree._Element, root: str) -> None:
    if _name(element) != root:
        raise DataError(
            f"{path}:{element.sourceline}: begins with `<{_name(element)}>`, but must begin with "
            f"`<{root}>`. Is it another format?"
        )


def _name(element: etree._Element) -> str:
    return etree.QName(element).localname if isinstance(element.tag, str) else ""


def _forget(element: etree._Element) -> None:
    element.clear()
    parent = element.getparent()
    while parent is not None and element.getprevious() is not None:
        del parent[0]


def _has_text(element: etree._Element) -> bool:
    """Whether what an element inside a segment holds is text, and not code or a comment."""
    return isinstance(element.tag, str) and _name(element) not in _CODES


def _text_runs(element: etree._Element) -> Iterator[str]:
    """Yield the text of an element between inline codes, without theirs."""
    yield element.text or ""
    for child in element:
        if _has_text(child):
            yield from _text_runs(child)
        yield child.tail or ""


def _margins(text: str) -> tuple[int, int]:
    """Return the lengths of the white space before and after a text."""
    stripped = text.lstrip()
    return len(text) - len(stripped), len(stripped) - len(stripped.rstrip())


def _place(text: str, position: int, translation: str) -> int:
    """Return where a code at a position of the text goes in the translation with its margins."""
    lead, trail = _margins(text)
    body = len(text) - lead - trail
    if position <= lead:
        return position
    if position >= lead + body:
        return position - body + len(translation)
    wanted = (position - lead) / body * len(translation)
    spaces = [index for index, symbol in enumerate(translation) if symbol.isspace()]
    if not spaces:
        # Chinese and its like have no spaces between words.
        return lead + round(wanted)
    place = min((0, *spaces, len(translation)), key=lambda end: abs(end - wanted))
    # As in the source, a code stands before or after the space.
    return lead + place + (place in spaces and text[position - 1].isspace())
