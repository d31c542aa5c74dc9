"""TMX and XLIFF: parsed as streams, in both directions, without entities or network."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from iada.data.formats.file_format import CorpusFiles
from iada.data.formats.readers import detect_format, file_pieces
from iada.errors import DataError

Read = Callable[..., Any]


def unit(document: str, *texts: tuple[str, str]) -> str:
    prop = f'<prop type="document">{document}</prop>' if document else ""
    variants = "".join(f'<tuv xml:lang="{code}"><seg>{text}</seg></tuv>\n' for code, text in texts)
    return f"<tu>{prop}\n{variants}</tu>\n"


def tmx(*units: str) -> str:
    head = '<?xml version="1.0"?>\n<tmx version="1.4"><header/><body>\n'
    return f"{head}{''.join(units)}</body></tmx>\n"


UNITS = (
    unit("d1", ("en-US", "a &amp; b"), ("de", "A"), ("fr", "no")),
    unit("d1", ("DE", "B"), ("en", "b")),
    unit("d2", ("en", "c"), ("de-AT", "C")),
)


def test_units_of_a_memory_are_grouped_by_their_document(read: Read) -> None:
    outcome = read("t.tmx", {"t.tmx": tmx(*UNITS)})
    assert outcome.documents == [[("a & b", "A"), ("b", "B")], [("c", "C")]]
    assert outcome.names == ["t.tmx:d1", "t.tmx:d2"]
    assert outcome.units == [(3, 3, 0, 0)] * 2
    assert outcome.log == []


def test_a_memory_is_read_in_both_directions_and_encodings(read: Read) -> None:
    content = tmx(*UNITS).replace('"1.0"', '"1.0" encoding="utf-16"').encode("utf-16")
    languages = {"source_language": "de", "target_language": "en"}
    outcome = read("t.tmx", {"t.tmx": content}, **languages)
    assert outcome.documents == [[("A", "a & b"), ("B", "b")], [("C", "c")]]


def test_inline_codes_are_no_text(read: Read) -> None:
    text = 'a<bpt i="1">&lt;b&gt;</bpt> <hi>big</hi><ph x="1"/> b<ept i="1">&lt;/b&gt;</ept>\n  c'
    outcome = read("t.tmx", {"t.tmx": tmx(unit("1", ("en", text), ("de", "x")))})
    assert outcome.documents == [[("a big b c", "x")]]
    assert [found["kind"] for found in outcome.log] == ["wrapped_segment"]


def test_a_unit_without_one_of_the_languages_takes_its_document_along(read: Read) -> None:
    outcome = read("t.tmx", {"t.tmx": tmx(*UNITS, unit("d2", ("en", "d"), ("fr", "D")))})
    assert len(outcome.documents) == 1
    assert outcome.places == [("missing_field", "t.tmx", 16, 4)]


def test_documents_of_a_memory_are_stated_or_unknown(read: Read) -> None:
    files = {"t.tmx": tmx(unit("", ("en", "a"), ("de", "A")), unit("", ("en", "b"), ("de", "B")))}
    assert read("t.tmx", files, boundaries="none").documents == [[("a", "A"), ("b", "B")]]
    with pytest.raises(DataError, match=r"t\.tmx:3: the unit names no document"):
        read("t.tmx", files)


XLIFF1 = """<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">
<file original="a.html" source-language="en-GB" target-language="de"><body>
<trans-unit id="1"><source>a <g id="1">b</g><x id="2"/></source><target>A</target>
<alt-trans><source>no</source><target>no</target></alt-trans></trans-unit>
<group><trans-unit id="2"><source>b</source></trans-unit></group>
</body></file>
<file original="b.html" source-language="en-GB"><body>
<trans-unit id="1"><source>c</source><target>C</target></trans-unit></body></file></xliff>"""
XLIFF2 = """<xliff version="2.1" srcLang="en" trgLang="de"
xmlns="urn:oasis:names:tc:xliff:document:2.0">
<file id="f1"><unit id="1"><segment><source>a <pc id="1">b</pc></source><target>A</target></segment>
<segment><source>b</source><target/></segment></unit></file>
<file id="f2"><unit id="1"><segment><source>c</source><target>C</target></segment></unit></file>
</xliff>"""


@pytest.mark.parametrize(
    ("content", "names"), [(XLIFF1, ["a.html", "b.html"]), (XLIFF2, ["f1", "f2"])]
)
def test_each_file_of_xliff_is_a_document(read: Read, content: str, names: list[str]) -> None:
    outcome = read("t.xlf", {"t.xlf": content})
    assert outcome.documents == [[("a b", "A"), ("b", "")], [("c", "C")]]
    assert outcome.names == [f"t.xlf:{name}" for name in names]
    # A unit that is not translated yet.
    assert [found["kind"] for found in outcome.log] == ["empty_one_side"]


def test_other_languages_of_xliff_are_refused(read: Read) -> None:
    with pytest.raises(DataError, match=r"t\.xlf:2: is from `en-GB` to `de`, but the languages"):
        read("t.xlf", {"t.xlf": XLIFF1}, source_language="fr")
    swapped = read("t.xlf", {"t.xlf": XLIFF2}, source_language="de", target_language="en")
    assert swapped.documents[0][0] == ("A", "a b")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("<html><body/></html>", r"t\.tmx:1: begins with `<html>`, but must begin with `<tmx>`"),
        (tmx(*UNITS)[:-30], r"t\.tmx:\d+: is not well-formed XML"),
        ("", r"t\.tmx:1: is not well-formed XML"),
        (tmx(), r"t\.tmx holds no sentence"),
    ],
)
def test_what_is_no_memory_is_refused(read: Read, content: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read("t.tmx", {"t.tmx": content})


def test_entities_are_never_expanded(read: Read, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret", encoding="utf-8")
    head = f'<!DOCTYPE tmx [<!ENTITY e "x"><!ENTITY f SYSTEM "{tmp_path}/secret">]>\n'
    content = head + tmx(unit("1", ("en", "a&e;&f;b"), ("de", "A"))).split("\n", 1)[1]
    outcome = read("t.tmx", {"t.tmx": content})
    assert outcome.documents == [[("ab", "A")]]


def test_an_entity_bomb_is_refused(read: Read) -> None:
    entities = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 12))
    content = tmx(unit("1", ("en", "&e11;"), ("de", "A"))).split("\n", 1)[1]
    with pytest.raises(DataError, match=r"t\.tmx:1: is not well-formed XML .*amplification"):
        read("t.tmx", {"t.tmx": f'<!DOCTYPE tmx [<!ENTITY e0 "x">{entities}]>\n{content}'})


@pytest.mark.parametrize("name", ["t.tmx", "t.xlf", "t.html", "t.xml2"])
def test_markup_is_not_translated_as_text(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text(tmx(*UNITS), encoding="utf-8")
    with pytest.raises(DataError, match=r"in which no translation can be written|it is markup"):
        list(file_pieces(detect_format(name), CorpusFiles(path))())
