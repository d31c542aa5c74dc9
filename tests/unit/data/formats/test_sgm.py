"""SGM and XML as they are found: rarely well-formed, paired by id, read in linear time."""

from collections.abc import Callable
from typing import Any

import pytest

from iada.errors import DataError

Read = Callable[..., Any]

SOURCE = """<srcset setid="s" srclang="any">
<doc docid="d1" genre="news">
<hl>
<seg id="1">A &amp; B</seg>
</hl>
<p>
<seg id="2"> two </seg>
</p>
</doc>
<doc docid="d2">
<seg id="1">three</seg>
</doc>
</srcset>
"""
TARGET = (
    SOURCE.replace("srcset", "refset").replace("A &amp; B", "A &amp; B!").replace("two", "zwei")
)
PAIRED = [[("A & B", "A & B!"), ("two", "zwei")], [("three", "three")]]


def two(source: str | bytes = SOURCE, target: str | bytes = TARGET) -> dict[str, str | bytes]:
    return {"t.en.sgm": source, "t.de.sgm": target}


def test_documents_are_paired_by_id(read: Read) -> None:
    outcome = read("t.{language}.sgm", two())
    assert outcome.documents == PAIRED
    assert outcome.names == ["t.en.sgm:d1", "t.en.sgm:d2"]
    assert outcome.log == []
    assert outcome.units == [(3, 3, 0, 0)] * 2


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("A &amp; B", "A & B"),
        lambda text: text.replace("<doc", "<DOC").replace("</doc", "</Doc").replace("<seg", "<SEG"),
        lambda text: text.replace('"', ""),
        lambda text: text.replace('"', "'"),
        lambda text: text.replace("docid=", "  id = "),
        lambda text: text.replace("<seg id=", "<seg other='x' id="),
        lambda text: text.replace("\n", "\r\n"),
        lambda text: f'<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE mteval>\n{text}',
        lambda text: text.replace("srcset", "unknown").replace("refset", "unknown"),
        lambda text: text.replace(" id=", " nothing="),
        # IWSLT: metadata in front of the segments of a talk.
        lambda text: text.replace("<hl>", "<url>http://x?a=1&b=2</url>\n<title>T</title><hl>"),
    ],
)
def test_files_need_not_be_well_formed(read: Read, change: Callable[[str], str]) -> None:
    outcome = read("t.{language}.sgm", two(change(SOURCE), change(TARGET)))
    assert outcome.documents == PAIRED
    assert outcome.log == []


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("a&lt;b&gt;&quot;&apos;", "a<b>\"'"),
        ("caf&eacute; &#233; &#xE9;", "café é é"),
        ("&nosuch; & &; &#; a&copy=b", "&nosuch; & &; &#; a&copy=b"),
        ("&amp;lt;", "&lt;"),
        ("&#xD800; &#1114112; &#99999999999;", "&#xD800; &#1114112; &#99999999999;"),
        ("a <b>bold</b> move", "a <b>bold</b> move"),
        ("\t x \xa0 ", "x \xa0"),
    ],
)
def test_entities_are_resolved_and_other_text_stays(read: Read, written: str, meant: str) -> None:
    outcome = read("t.{language}.sgm", two(SOURCE.replace("three", written)))
    assert outcome.documents[1][0][0] == meant
    assert outcome.log == []


def test_segments_are_paired_by_id_and_not_by_place(read: Read) -> None:
    target = (
        "<doc docid=d2><seg id=1>C</seg></doc>"
        "<doc docid=d1><seg id=2>B</seg><seg id=1>A</seg></doc>"
    )
    outcome = read("t.{language}.sgm", two(target=target))
    assert outcome.documents == [[("A & B", "A"), ("two", "B")], [("three", "C")]]


def test_line_breaks_inside_a_segment_become_one_space(read: Read) -> None:
    outcome = read("t.{language}.sgm", two(SOURCE.replace("three", "\n one\r\n\n  line&#10;here ")))
    assert outcome.documents[1][0][0] == "one line here"
    assert outcome.places == [("wrapped_segment", "t.en.sgm", 11, 0)]
    assert outcome.findings.errors == 0


def test_odd_characters_of_segments_are_repaired(read: Read) -> None:
    outcome = read("t.{language}.sgm", two(SOURCE.replace("three", "a&#13;b&#0;c\u2028")))
    assert outcome.documents[1][0][0] == "a bc\u2028"
    assert sorted(outcome.places) == [
        ("carriage_return", "t.en.sgm", 11, 0),
        ("nul", "t.en.sgm", 11, 0),
        ("odd_separator", "t.en.sgm", 11, 0),
    ]


@pytest.mark.parametrize(
    ("change", "places"),
    [
        # d1 begins at line 2 and has two segments, d2 at line 10 and has one.
        (
            ("d2", "d3"),
            [("missing_document", "t.en.sgm", 10, 1), ("missing_document", "t.de.sgm", 10, 1)],
        ),
        (('<seg id="1">three</seg>\n', ""), [("segment_mismatch", "t.en.sgm", 10, 1)]),
        (('<seg id="1">three', '<seg id="7">three'), [("segment_mismatch", "t.en.sgm", 10, 2)]),
        (
            ('<seg id="1">three</seg>', '<seg id="1">three</seg><seg id="1">three</seg>'),
            [("segment_mismatch", "t.en.sgm", 10, 3)],
        ),
        (("three</seg>", "three"), [("malformed_markup", "t.de.sgm", 11, 2)]),
        (("</refset>", "<seg>lost</seg>"), [("malformed_markup", "t.de.sgm", 13, 1)]),
    ],
)
def test_what_does_not_pair_up_is_left_out(
    read: Read, change: tuple[str, str], places: list[tuple[str, str, int, int]]
) -> None:
    outcome = read("t.{language}.sgm", two(target=TARGET.replace(*change)))
    assert outcome.documents == (PAIRED if "lost" in change[1] else PAIRED[:1])
    found = sorted(outcome.places, reverse=True)
    assert [place for place in found if place[3]] == sorted(places, reverse=True)


def test_a_segment_that_cannot_be_decoded_takes_its_document_along(read: Read) -> None:
    source = SOURCE.encode().replace(b"three", b"dr\xfc\nei")
    outcome = read("t.{language}.sgm", two(source))
    assert outcome.documents == PAIRED[:1]
    assert outcome.places == [
        ("wrapped_segment", "t.en.sgm", 11, 0),
        ("bad_utf8", "t.en.sgm", 11, 2),
    ]
    assert f"byte {source.index(0xFC)} is" in outcome.log[-1]["message"]


def test_a_bad_byte_outside_of_segments_is_reported(read: Read) -> None:
    source = SOURCE.encode().replace(b"<hl>", b"<hl>\xfc")
    outcome = read("t.{language}.sgm", two(source))
    assert outcome.documents == PAIRED
    assert outcome.places == [("bad_utf8", "t.en.sgm", 3, 0)]


def test_a_document_that_comes_back_is_paired_with_the_one_that_comes_back(read: Read) -> None:
    more = "<doc docid=d2><seg id=1>{}</seg></doc>"
    outcome = read("t.{language}.sgm", two(SOURCE + more.format("x"), TARGET + more.format("X")))
    assert outcome.documents == [*PAIRED, [("x", "X")]]
    assert sorted(outcome.places) == [
        ("repeated_id", "t.de.sgm", 14, 0),
        ("repeated_id", "t.en.sgm", 14, 0),
    ]


def test_ids_given_twice_on_both_sides_are_no_pairs(read: Read) -> None:
    twice = [text.replace('<seg id="2">', '<seg id="1">') for text in (SOURCE, TARGET)]
    outcome = read("t.{language}.sgm", two(*twice))
    assert outcome.documents == PAIRED[1:]
    assert outcome.places == [("segment_mismatch", "t.en.sgm", 2, 4)]


def test_an_empty_document_is_reported(read: Read) -> None:
    more = "<doc docid=d9></doc>"
    outcome = read("t.{language}.sgm", two(SOURCE + more, TARGET + more))
    assert outcome.documents == PAIRED
    assert outcome.places == [("empty_document", "t.en.sgm", 14, 0)]


@pytest.mark.parametrize(("reference", "word"), [(None, "A"), ("a", "A"), ("b", "B")])
def test_one_of_several_references_is_taken_from_sgm(
    read: Read, reference: str | None, word: str
) -> None:
    document = '<doc docid="d1" sysid="{}"><seg id="1">{}</seg></doc>'
    target = document.format("a", "A") + document.format("b", "B")
    source = '<doc docid="d1"><seg id="1">a</seg></doc>'
    outcome = read("t.{language}.sgm", two(source, target), reference=reference)
    assert outcome.documents == [[("a", word)]]
    assert outcome.log == []
    assert outcome.units == [(1, 1, 0, 0), (2, 1, 0, 1)]


XML = """<?xml version='1.0' encoding='utf-8'?>
<dataset id="wmt">
  <collection id="general">
    <doc origlang="en" id="d1">
      <src lang="en"><p><seg id="1">a</seg><seg id="2">b</seg></p></src>
      <ref lang="de" translator="A"><p><seg id="1">A</seg><seg id="2">B</seg></p></ref>
      <ref lang="de" translator="B"><p><seg id="1">AA</seg><seg id="2">BB</seg></p></ref>
      <hyp system="x"><p><seg id="1">no</seg></p></hyp>
    </doc>
    <doc id="d2">
      <src lang="en"><seg id="1">c</seg></src>
      <ref lang="de" translator="A"><seg id="1">C</seg></ref>
    </doc>
  </collection>
</dataset>
"""


def test_one_file_holds_both_sides(read: Read) -> None:
    outcome = read("t.xml", {"t.xml": XML})
    assert outcome.documents == [[("a", "A"), ("b", "B")], [("c", "C")]]
    assert outcome.log == []
    assert outcome.units == [(3, 3, 0, 0), (5, 3, 0, 2)]


def test_what_is_not_taken_is_not_checked(read: Read) -> None:
    content = XML.replace("AA", "A&#13;A").replace(">no<", ">n&#0;o<")
    assert read("t.xml", {"t.xml": content}).log == []
    outcome = read("t.xml", {"t.xml": content}, reference="B")
    assert outcome.places[0] == ("carriage_return", "t.xml", 7, 0)


def test_a_section_after_the_document_belongs_to_none(read: Read) -> None:
    content = XML.replace("    </doc>\n  </coll", "</doc><src><seg>x</seg></src>\n  </coll")
    outcome = read("t.xml", {"t.xml": content})
    assert len(outcome.documents) == 2
    assert outcome.places == [("malformed_markup", "t.xml", 13, 2)]


def test_white_space_inside_an_id_does_not_matter(read: Read) -> None:
    source = SOURCE.replace('docid="d2"', 'docid=" d\n 2 "')
    target = TARGET.replace('docid="d2"', "docid='d 2'")
    assert read("t.{language}.sgm", two(source, target)).names[1] == "t.en.sgm:d 2"


def test_the_translator_can_be_chosen(read: Read) -> None:
    outcome = read("t.xml", {"t.xml": XML}, reference="B")
    assert outcome.documents == [[("a", "AA"), ("b", "BB")]]
    # d2 has no such reference.
    assert outcome.places == [("missing_document", "t.xml", 11, 1)]


def test_an_unknown_translator_is_refused_with_those_that_are_known(read: Read) -> None:
    with pytest.raises(DataError, match=r"has no reference by C; it has 'A', 'B'"):
        read("t.xml", {"t.xml": XML}, reference="C")


def test_a_segment_outside_of_the_sections_is_reported(read: Read) -> None:
    content = XML.replace("    <doc id", '    <doc id="d0"><seg id="1">x</seg></doc>\n    <doc id')
    outcome = read("t.xml", {"t.xml": content})
    assert len(outcome.documents) == 2
    assert outcome.places == [("malformed_markup", "t.xml", 10, 2)]


@pytest.mark.parametrize(
    ("pattern", "files"),
    [
        ("t.{language}.sgm", two(target="<refset></refset>")),
        ("t.{language}.sgm", two(source="")),
        ("t.xml", {"t.xml": SOURCE}),
        ("t.xml", {"t.xml": "<seg id=1>a</seg>"}),
    ],
)
def test_a_side_without_segments_is_refused(read: Read, pattern: str, files: Any) -> None:
    with pytest.raises(DataError, match=r"holds no `<seg>` in a `<doc>`"):
        read(pattern, files)


@pytest.mark.parametrize("text", ["<seg\x1cid=1>", "<\u017feg id=1>", "<segment>", "<docs>"])
def test_what_only_resembles_a_tag_is_text(read: Read, text: str) -> None:
    outcome = read("t.{language}.sgm", two(SOURCE.replace("three", text)))
    assert outcome.documents[1][0][0] == text
    assert outcome.findings.errors == 0


def test_control_characters_of_ids_are_shown_as_text(read: Read) -> None:
    source = SOURCE.replace("d1", "d\x1b[31m1").replace("d2", "\x07")
    outcome = read("t.{language}.sgm", two(source, TARGET.replace("d1", "d\x1b[31m1")))
    assert outcome.names == [r"t.en.sgm:d\x1b[31m1"]
    assert r"document \x07 has no partner" in outcome.log[0]["message"]
    assert "\x1b" not in outcome.findings.table()
