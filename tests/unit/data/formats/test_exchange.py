"""TMX and XLIFF: parsed as streams, in both directions, without entities or network."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from iada.data.formats.exchange.segments import fill_segment
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


def translate(path: Path, content: str, form: str | None = None, **settings: Any) -> str:
    """Fill a file with upper-case "translations"."""
    path.write_text(content, encoding="utf-8")
    files = CorpusFiles(path, **settings)
    pieces = file_pieces(form or detect_format(path.name), files)  # type: ignore[arg-type]
    lines: list[str] = []
    for piece in pieces():
        sentences = [] if piece.document is None else piece.document.sentences
        lines += piece.render([sentence.upper() for sentence in sentences])
    return "".join(f"{line}\n" for line in lines)


def test_a_memory_is_filled_and_keeps_everything_else(tmp_path: Path) -> None:
    content = (
        '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n'
        '<!-- memory --><tmx version="1.4"><header srclang="en"/><body>\n'
        '<tu tuid="a"><note>keep</note>\n  <tuv xml:lang="en"><seg>one &amp; two</seg></tuv>\n'
        "</tu>\n"
        '<tu tuid="b">\n  <tuv xml:lang="de" creationid="x"><seg>alt <ph/></seg></tuv>\n'
        '  <tuv xml:lang="en"><seg>three</seg></tuv>\n</tu>\n</body></tmx>\n'
    )
    added = '\n  <tuv xml:lang="de"><seg>ONE &amp; TWO</seg></tuv>\n</tu>'
    expected = content.replace("\n</tu>", added, 1).replace("alt <ph/>", "THREE")
    assert translate(tmp_path / "t.tmx", content, boundaries="none") == expected


@pytest.mark.parametrize(
    ("content", "filled", "texts"),
    [
        (XLIFF1, "<source>b</source><target>B</target>", ["A B", "B", "C"]),
        (XLIFF2, "<source>b</source><target>B</target>", ["A B", "B", "C"]),
    ],
    ids=["1.2", "2.1"],
)
def test_xliff_comes_back_with_its_targets_filled(
    tmp_path: Path, read: Read, content: str, filled: str, texts: list[str]
) -> None:
    output = translate(tmp_path / "t.xlf", content)
    assert filled in output
    outcome = read("out.xlf", {"out.xlf": output})
    assert [target for document in outcome.documents for _, target in document] == texts
    assert without_targets(output) == without_targets(content)


def without_targets(content: str) -> str:
    """Everything but the targets of segments: ids, groups, alternatives, source languages."""
    root = etree.fromstring(content.encode())
    for target in root.xpath(
        "//*[local-name() = 'target'][not(ancestor::*[local-name() = 'alt-trans'])]"
    ):
        target.getparent().remove(target)
    for file in root.iter("{*}file"):
        file.attrib.pop("target-language", None)
    return "".join(etree.canonicalize(root).split())


def test_languages_are_added_where_xliff_did_not_know_its_target(tmp_path: Path) -> None:
    output = translate(tmp_path / "t.xlf", XLIFF1)
    assert output.count('target-language="de"') == 2
    output = translate(tmp_path / "t.xlf", XLIFF2.replace(' trgLang="de"', ""))
    assert 'trgLang="de"' in output


def test_what_must_not_be_translated_stays(tmp_path: Path) -> None:
    content = XLIFF1.replace('<trans-unit id="2">', '<trans-unit id="2" translate="no">')
    output = translate(tmp_path / "t.xlf", content)
    assert "<source>b</source></trans-unit>" in output
    content = XLIFF2.replace('<file id="f1">', '<file id="f1" translate="no">')
    assert "<target>A</target>" in translate(tmp_path / "t.xlf", content)


STATES1 = """<xliff version="1.2"><file source-language="en" target-language="de"><body>
<trans-unit id="1" approved="yes"><source>a</source><target>eins <x id="1"/></target></trans-unit>
<trans-unit id="2"><source>b</source><target state="final">zwei</target></trans-unit>
<trans-unit id="3"><source>c</source><target state="signed-off">drei</target></trans-unit>
<trans-unit id="4"><source>d</source><target state="translated">v</target></trans-unit>
<trans-unit id="5" approved="yes"><source>e</source></trans-unit>
</body></file></xliff>
"""
STATES2 = """<xliff version="2.1" srcLang="en" trgLang="de"><file id="1"><unit id="1">
<segment state="reviewed"><source>a</source><target>eins <x id="1"/></target></segment>
<segment state="final"><source>b</source><target>zwei</target></segment>
<segment state="final"><source>c</source><target>drei</target></segment>
<segment state="translated"><source>d</source><target>v</target></segment>
<segment><source>e</source></segment>
</unit></file></xliff>
"""


@pytest.mark.parametrize("content", [STATES1, STATES2], ids=["1.2", "2.1"])
def test_approved_targets_stand_unless_told_otherwise(
    tmp_path: Path, content: str, caplog: pytest.LogCaptureFixture
) -> None:
    files = CorpusFiles(tmp_path / "t.xlf", keeps_targets=True)
    output = translate(files.source, content, keeps_targets=True)
    (piece, _) = file_pieces("xliff", files)()
    assert piece.kept == ("eins", "zwei", "drei", None, None)
    for text in ('>eins <x id="1"/></target>', ">zwei</target>", ">drei</target>", ">D</target>"):
        assert text in output
    assert "<source>e</source><target>E</target>" in output
    assert "(kept_target, 3)" in caplog.text
    assert "(replaced_target, 1)" in caplog.text
    caplog.clear()
    # A test set has its references there.
    output = translate(files.source, content)
    assert [f">{letter}</target>" in output for letter in "ABCDE"] == [True] * 5
    assert not caplog.text


def test_a_file_from_the_target_language_is_not_translated(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is from `en`, but the model translates from `de`"):
        translate(tmp_path / "t.xlf", XLIFF1, languages=("de", "en"))


@pytest.mark.parametrize(
    ("source", "translation", "expected"),
    [
        # Around everything, and at the ends.
        ("<g id='1'>a b</g>", "x y z", '<g id="1">x y z</g>'),
        ("<x id='1'/>a b<x id='2'/>", "x y", '<x id="1"/>x y<x id="2"/>'),
        (" a<x id='1'/>\n", "x y", ' x y<x id="1"/>\n'),
        # Inside, at the nearest word boundary, before or after the space as in the source.
        ("aa <g id='1'>bb</g> cc", "xx yy zz", 'xx <g id="1">yy</g> zz'),
        ("aa<x id='1'/> bb", "xx yy", 'xx<x id="1"/> yy'),
        # Codes keep their order and their content, whatever the length.
        ("a <bpt i='1'>&lt;b></bpt>b<ept i='1'>&lt;/b></ept> c", "x", None),
        ("a <g id='1'>b <g id='2'>c</g></g> d", "", None),
        # Without spaces.
        ("ab<x id='1'/>cd", "\u4f60\u597d\u5417\u597d", '\u4f60\u597d<x id="1"/>\u5417\u597d'),
        ("a<!-- note --> b", "x y", "x<!-- note --> y"),
    ],
)
def test_inline_codes_follow_their_rule(
    source: str, translation: str, expected: str | None
) -> None:
    segment = etree.fromstring(f"<source>{source}</source>")
    target = etree.fromstring("<target>old <x id='9'/> text</target>")
    fill_segment(target, segment, translation)
    text = etree.tostring(target, encoding="unicode")
    if expected is not None:
        assert text == f"<target>{expected}</target>"
    assert (
        "".join(
            etree.fromstring(text).xpath("//text()[not(ancestor::bpt or ancestor::ept)]")
        ).strip()
        == translation
    )
    assert [(e.tag, dict(e.attrib)) for e in target.iter() if e is not target] == [
        (e.tag, dict(e.attrib)) for e in segment.iter() if e is not segment
    ]


TEXT = st.text(alphabet="ab \u4f60", max_size=6)


@settings(max_examples=200, deadline=None)
@given(runs=st.lists(TEXT, min_size=1, max_size=6), translation=st.text("xy ", max_size=12))
def test_no_code_and_no_letter_is_lost(runs: list[str], translation: str) -> None:
    # An empty sentence has an empty translation.
    translation = translation.strip() if "".join(runs).strip() else ""
    segment = etree.fromstring("<s>" + "<x/>".join(runs) + "</s>")
    target = etree.Element("t")
    fill_segment(target, segment, translation)
    assert "".join(target.itertext()).strip() == translation
    assert len(target) == len(runs) - 1


@pytest.mark.parametrize("name", ["t.html", "t.xml2", "t.txt", "t.xml", "t.xlf"])
def test_other_markup_is_not_translated(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError, match=r"no translation can be written|it is markup|must begin"):
        translate(tmp_path / name, tmx(*UNITS))


def test_a_format_can_be_named(tmp_path: Path) -> None:
    assert "<seg>C</seg>" in translate(tmp_path / "t.txt", tmx(*UNITS), "tmx")


def test_a_unit_without_the_source_language_is_refused_in_translation(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="the unit has no segment in `en`"):
        translate(tmp_path / "t.tmx", tmx(unit("1", ("fr", "a"))))
