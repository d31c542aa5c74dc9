"""Exchange formats of translation tools: TMX memories, and XLIFF 1.2 and 2.x.

Both are XML with both sides in one file, parsed as a stream without network, entities or DTDs. Of
inline codes only the text that they enclose is kept. White space around a segment is not part of
it, and line breaks inside become one space.

Each `<file>` of XLIFF is a document. A memory has no documents of its own: its units name them in a
`<prop type="document">`, or `data.boundaries: none` states that the file is one.
"""

from collections.abc import Iterator
from pathlib import Path

from lxml import etree

from iada.data.documents import ParallelDocument
from iada.data.formats.assembly import Record, group_records
from iada.data.formats.file_format import CorpusFiles, Format
from iada.data.formats.findings import Finding, Findings, problem
from iada.data.formats.lines import byte_blocks, repair
from iada.errors import DataError

_CODES = frozenset({"bpt", "ept", "ph", "it", "ut", "x", "bx", "ex", "sc", "ec", "cp"})
"""Inline elements whose content is markup of another format and not text."""
_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"


def read_tmx(files: CorpusFiles, findings: Findings) -> Iterator[ParallelDocument]:
    """Yield the documents of a translation memory; it may be read in both directions.

    Raises:
        DataError: the file is not TMX, or its documents are unknown.
    """
    return group_records(files.source, _tmx_records(files, findings), findings)


def read_xliff(files: CorpusFiles, findings: Findings) -> Iterator[ParallelDocument]:
    """Yield the documents of an XLIFF file; it may be read in both directions.

    Raises:
        DataError: the file is not XLIFF, or has other languages.
    """
    return group_records(files.source, _xliff_records(files, findings), findings)


def _tmx_records(files: CorpusFiles, findings: Findings) -> Iterator[Record]:
    for unit in _elements(files.source, "tmx", "tu"):
        document = next(
            (p.text for p in unit.iterfind("{*}prop") if p.get("type") == "document"), None
        )
        if document is None and files.boundaries != "none":
            raise DataError(
                f"{files.source}:{unit.sourceline}: the unit names no document in a "
                '`<prop type="document">`. Set `data.boundaries: none` if the file is one document.'
            )
        problems: list[Finding] = []
        sides = []
        for code in files.languages:
            variants = [v for v in unit.iterfind("{*}tuv") if _speaks(v, code)]
            text = variants[0].find("{*}seg") if variants else None
            if text is None:
                message = f"the unit has no segment in `{code}`."
                line = unit.sourceline
                problems.append(problem("missing_field", files.source, line, message))
            sides.append(_sentence(text, files.source, findings))
        findings.source.read += 1
        findings.target.read += 1
        source, target = sides
        name = (document or "1").strip() or None
        if name is None:
            message = "the unit names an empty document."
            problems.append(problem("missing_field", files.source, unit.sourceline, message))
        yield Record(unit.sourceline, name, (source,), (target,), tuple(problems))


def _xliff_records(files: CorpusFiles, findings: Findings) -> Iterator[Record]:
    for number, file in enumerate(_elements(files.source, "xliff", "file"), start=1):
        names = ["source", "target"]
        if _is_reversed(files, file):
            names.reverse()
        segments = [*file.iter("{*}trans-unit", "{*}segment")]
        source, target = (
            tuple(_sentence(s.find(f"{{*}}{name}"), files.source, findings) for s in segments)
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
        if _matches(source, one) and (not target or _matches(target, two)):
            return bool(is_reversed)
    raise DataError(
        f"{files.source}:{file.sourceline}: is from `{source}` to `{target or 'nothing'}`, but the "
        f"languages are `{files.languages[0]}` and `{files.languages[1]}`. Change "
        "`data.source_language` or `data.target_language`."
    )


def _speaks(variant: etree._Element, code: str) -> bool:
    return _matches(variant.get(_LANGUAGE) or variant.get("lang") or "", code)


def _matches(tag: str, code: str) -> bool:
    """Tell whether a language tag such as `en-US` is that of a code such as `en`."""
    tag, code = tag.lower().replace("_", "-"), code.lower().replace("_", "-")
    return tag == code or tag.startswith(f"{code}-")


def _elements(path: Path, root: str, name: str) -> Iterator[etree._Element]:
    """Yield the elements of a name as they are parsed; each is forgotten after its turn."""
    parser = etree.XMLPullParser(
        events=("start", "end"), resolve_entities=False, no_network=True, load_dtd=False
    )
    is_known = False
    try:
        for block in byte_blocks(path):
            parser.feed(block)
            for event, element in parser.read_events():
                tag = etree.QName(element).localname if isinstance(element.tag, str) else ""
                if not is_known and tag != root:
                    raise DataError(
                        f"{path}:{element.sourceline}: begins with `<{tag}>`, but must begin with "
                        f"`<{root}>`. Is it another format?"
                    )
                is_known = True
                if event == "end" and tag == name:
                    yield element
                    _forget(element)
        parser.close()
    except etree.XMLSyntaxError as error:
        raise DataError(
            f"{path}:{error.lineno or 1}: is not well-formed XML ({error.msg}). Export it again."
        ) from None


def _forget(element: etree._Element) -> None:
    element.clear()
    parent = element.getparent()
    while parent is not None and element.getprevious() is not None:
        del parent[0]


def _sentence(element: etree._Element | None, path: Path, findings: Findings) -> str:
    if element is None:
        return ""
    parts = "".join(_text(element)).split("\n")
    text = " ".join(filter(None, (part.strip(" \t\r") for part in parts)))
    if len(parts) > 1:
        message = "the segment that begins here spans several lines; spaces join them."
        findings.report("wrapped_segment", path, element.sourceline, message)
    return repair(text, path, element.sourceline, findings)


def _text(element: etree._Element) -> Iterator[str]:
    """Yield the text of an element, without that of inline codes."""
    yield element.text or ""
    for child in element:
        if isinstance(child.tag, str) and etree.QName(child).localname not in _CODES:
            yield from _text(child)
        yield child.tail or ""


TMX = Format(names=("*.tmx",), files="one", read=read_tmx)
XLIFF = Format(names=("*.xlf", "*.xliff"), files="one", read=read_xliff)
