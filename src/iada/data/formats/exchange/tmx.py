"""TMX, translation memories: units with a variant in each language.

A memory has no documents of its own: its units name them in a `<prop type="document">`, or
`data.boundaries: none` states that the file is one. It may be read in both directions.
"""

from collections.abc import Callable, Iterable, Iterator
from xml.sax.saxutils import quoteattr

from lxml import etree

from iada.data.documents import ParallelDocument
from iada.data.formats.assembly import Record, group_records
from iada.data.formats.exchange.segments import (
    DECLARATION,
    Slot,
    insert_after,
    matches_language,
    parse_whole,
    segment_text,
    slot_pieces,
    stream_elements,
    written_pairs,
)
from iada.data.formats.file_format import CorpusFiles, Format, Piece
from iada.data.formats.findings import Finding, Findings, problem
from iada.data.formats.lines import write_lines
from iada.errors import DataError

_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"


def read_tmx(files: CorpusFiles, findings: Findings) -> Iterator[ParallelDocument]:
    """Yield the documents of a translation memory.

    Raises:
        DataError: the file is not TMX, or its documents are unknown.
    """
    return group_records(files.source, _records(files, findings), findings)


def write_tmx(files: CorpusFiles, documents: Iterable[ParallelDocument]) -> None:
    """Write documents, numbered from 1, as a translation memory."""

    def lines() -> Iterator[str]:
        one, two = map(quoteattr, files.languages)
        yield DECLARATION
        yield '<tmx version="1.4">'
        yield (
            '<header creationtool="iada" creationtoolversion="1" segtype="sentence" '
            f'o-tmf="iada" adminlang="en" srclang={one} datatype="plaintext"/>'
        )
        yield "<body>"
        for number, document in enumerate(documents, start=1):
            for source, target in written_pairs(document):
                yield (
                    f'<tu><prop type="document">{number}</prop>'
                    f"<tuv xml:lang={one}><seg>{source}</seg></tuv>"
                    f"<tuv xml:lang={two}><seg>{target}</seg></tuv></tu>"
                )
        yield from ("</body>", "</tmx>")

    write_lines(files.source, lines())


def tmx_pieces(files: CorpusFiles, findings: Findings) -> Iterator[Piece]:
    """Yield the documents of a memory; a unit without a variant in the target language gets one."""
    root = parse_whole(files.source, "tmx")
    slots = []
    for unit in root.iter("{*}tu"):
        document = _document_of(unit, files)
        source, target = (_segment(unit, code) for code in files.languages)
        if source is None:
            message = f"the unit has no segment in `{files.languages[0]}`."
            findings.report("missing_field", files.source, unit.sourceline, message)
        else:
            make = _variant_maker(source, files.languages[1])
            slots.append(Slot(document or "1", source, target, make))
    return slot_pieces(files, root, slots, findings)


def _records(files: CorpusFiles, findings: Findings) -> Iterator[Record]:
    for unit in stream_elements(files.source, "tmx", "tu"):
        document = _document_of(unit, files)
        problems: list[Finding] = []
        sides = []
        for code in files.languages:
            text = _segment(unit, code)
            if text is None:
                message = f"the unit has no segment in `{code}`."
                line = unit.sourceline
                problems.append(problem("missing_field", files.source, line, message))
            sides.append(segment_text(text, files.source, findings))
        findings.source.read += 1
        findings.target.read += 1
        source, target = sides
        name = (document or "1").strip() or None
        if name is None:
            message = "the unit names an empty document."
            problems.append(problem("missing_field", files.source, unit.sourceline, message))
        yield Record(unit.sourceline, name, (source,), (target,), tuple(problems))


def _document_of(unit: etree._Element, files: CorpusFiles) -> str | None:
    """Return what a unit says about its document; refuse it if its document is unknown."""
    document = next((p.text for p in unit.iterfind("{*}prop") if p.get("type") == "document"), None)
    if document is None and files.boundaries != "none":
        raise DataError(
            f"{files.source}:{unit.sourceline}: the unit names no document in a "
            '`<prop type="document">`. Set `data.boundaries: none` (`--boundaries none`) if the '
            "file is one document."
        )
    return document


def _segment(unit: etree._Element, code: str) -> etree._Element | None:
    for variant in unit.iterfind("{*}tuv"):
        if matches_language(variant.get(_LANGUAGE) or variant.get("lang") or "", code):
            return variant.find("{*}seg")
    return None


def _variant_maker(source: etree._Element, code: str) -> Callable[[], etree._Element]:
    def make() -> etree._Element:
        own = source.getparent()
        variant = own.makeelement(own.tag, {_LANGUAGE: code})
        segment = etree.SubElement(variant, source.tag)
        variant.text, segment.tail = own.text, source.tail
        insert_after(own, variant)
        return segment

    return make


FORMAT = Format(names=("*.tmx",), files="one", read=read_tmx, write=write_tmx, pieces=tmx_pieces)
