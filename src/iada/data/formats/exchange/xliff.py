"""XLIFF 1.2 and 2.x: segments with a source and a target. Each `<file>` is a document.

It may be read in both directions and is translated in its own. In translation, targets that a
person has approved stand: in version 1 those of approved units and those in the state `final` or
`signed-off`, in version 2 those of segments in the state `reviewed` or `final`.
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
from iada.data.formats.findings import Findings
from iada.data.formats.lines import write_lines
from iada.errors import DataError

_SEGMENTS = ("{*}trans-unit", "{*}segment")
"""What holds a source and a target, in versions 1 and 2."""
_FINAL = {"trans-unit": ("final", "signed-off"), "segment": ("reviewed", "final")}
"""States of targets that a person has approved."""


def read_xliff(files: CorpusFiles, findings: Findings) -> Iterator[ParallelDocument]:
    """Yield the documents of an XLIFF file.

    Raises:
        DataError: the file is not XLIFF, or has other languages.
    """
    return group_records(files.source, _records(files, findings), findings)


def write_xliff(files: CorpusFiles, documents: Iterable[ParallelDocument]) -> None:
    """Write documents, numbered from 1, as XLIFF 1.2, one `<file>` each."""

    def lines() -> Iterator[str]:
        one, two = map(quoteattr, files.languages)
        yield DECLARATION
        yield '<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">'
        for number, document in enumerate(documents, start=1):
            yield (
                f'<file original="{number}" source-language={one} target-language={two} '
                'datatype="plaintext"><body>'
            )
            for unit, (source, target) in enumerate(written_pairs(document), start=1):
                yield (
                    f'<trans-unit id="{unit}"><source>{source}</source>'
                    f"<target>{target}</target></trans-unit>"
                )
            yield "</body></file>"
        yield "</xliff>"

    write_lines(files.source, lines())


def xliff_pieces(files: CorpusFiles, findings: Findings) -> Iterator[Piece]:
    """Yield the documents of an XLIFF file.

    Segments that are marked `translate="no"` stay as they are.
    """
    root = parse_whole(files.source, "xliff")
    slots = []
    for number, file in enumerate(root.iter("{*}file"), start=1):
        if _is_reversed(files, file):
            raise DataError(
                f"{files.source}:{file.sourceline}: is from `{files.languages[1]}`, but the model "
                f"translates from `{files.languages[0]}`. Give a file in that direction."
            )
        # Version 1 has the languages of each file, version 2 those of all.
        is_own = file.get("source-language") is not None
        holder, name = (file, "target-language") if is_own else (root, "trgLang")
        if not holder.get(name):
            holder.set(name, files.languages[1])
        for segment in file.iter(*_SEGMENTS):
            source = segment.find("{*}source")
            if source is not None and _is_translatable(segment):
                target = segment.find("{*}target")
                make = _target_maker(segment, source)
                is_final = files.keeps_targets and _is_final(segment, target)
                slots.append(Slot(str(number), source, target, make, is_final))
    return slot_pieces(files, root, slots, findings)


def _records(files: CorpusFiles, findings: Findings) -> Iterator[Record]:
    for number, file in enumerate(stream_elements(files.source, "xliff", "file"), start=1):
        names = ["source", "target"]
        if _is_reversed(files, file):
            names.reverse()
        segments = [*file.iter(*_SEGMENTS)]
        source, target = (
            tuple(segment_text(s.find(f"{{*}}{name}"), files.source, findings) for s in segments)
            for name in names
        )
        findings.source.read += len(segments)
        findings.target.read += len(segments)
        document = file.get("original") or file.get("id") or str(number)
        yield Record(file.sourceline, " ".join(document.split()), source, target, is_whole=True)


def _is_reversed(files: CorpusFiles, file: etree._Element) -> bool:
    """Tell whether the source of the file is the target side; refuse other languages."""
    root = file.getroottree().getroot()
    source = file.get("source-language") or root.get("srcLang") or ""
    target = file.get("target-language") or root.get("trgLang") or ""
    for is_reversed, (one, two) in enumerate((files.languages, files.languages[::-1])):
        if matches_language(source, one) and (not target or matches_language(target, two)):
            return bool(is_reversed)
    raise DataError(
        f"{files.source}:{file.sourceline}: is from `{source}` to `{target or 'nothing'}`, but the "
        f"languages are `{files.languages[0]}` and `{files.languages[1]}`. Change "
        "`data.source_language` or `data.target_language`."
    )


def _is_translatable(segment: etree._Element) -> bool:
    """Tell whether the nearest `translate` of a segment and what encloses it is not `no`."""
    marks = (element.get("translate") for element in (segment, *segment.iterancestors()))
    return next((mark for mark in marks if mark is not None), "yes") != "no"


def _is_final(segment: etree._Element, target: etree._Element | None) -> bool:
    """Tell whether a person has approved the target of a segment."""
    name = etree.QName(segment).localname
    # Version 1 has the state at the target, version 2 at the segment.
    holder = target if name == "trans-unit" else segment
    state = None if holder is None else holder.get("state")
    return segment.get("approved") == "yes" or state in _FINAL[name]


def _target_maker(segment: etree._Element, source: etree._Element) -> Callable[[], etree._Element]:
    def make() -> etree._Element:
        name = etree.QName(source)
        target = segment.makeelement(etree.QName(name.namespace, "target"))
        split_source = segment.find("{*}seg-source")
        insert_after(source if split_source is None else split_source, target)
        return target

    return make


FORMAT = Format(
    names=("*.xlf", "*.xliff"), files="one", read=read_xliff, write=write_xliff, pieces=xliff_pieces
)
