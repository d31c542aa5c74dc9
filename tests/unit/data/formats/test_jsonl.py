"""JSON lines: documents and sentence pairs, and what JSON allows but no corpus means."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from iada.errors import DataError

Read = Callable[..., Any]


def lines(*records: object) -> dict[str, str]:
    return {"t.jsonl": "".join(f"{json.dumps(record)}\n" for record in records)}


def pair(document: object, source: object, target: object) -> dict[str, object]:
    return {"document": document, "source": source, "target": target}


GOOD = pair("good", "g", "G")


@pytest.mark.parametrize(
    "records",
    [
        [
            {"id": "d1", "source": ["a", "b"], "target": ["A", "B"]},
            {"id": 2, "en": ["c"], "de": ["C"]},
        ],
        [pair("d1", "a", "A"), pair("d1", "b", "B"), {"document": 2, "en": "c", "de": "C", "x": 1}],
        [pair("d1", "a", "A"), pair("d1", "b", "B"), {"id": 2, "source": ["c"], "target": ["C"]}],
    ],
)
def test_documents_and_pairs_are_read(read: Read, records: list[object]) -> None:
    outcome = read("t.jsonl", lines(*records))
    assert outcome.documents == [[("a", "A"), ("b", "B")], [("c", "C")]]
    assert outcome.names == ["t.jsonl:d1", "t.jsonl:2"]
    assert outcome.log == []
    assert outcome.units == [(3, 3, 0, 0)] * 2


def test_a_document_may_do_without_an_id(read: Read) -> None:
    outcome = read("t.jsonl", lines({"source": ["a"], "target": ["A"]}, {"en": ["b"], "de": ["B"]}))
    assert outcome.names == ["t.jsonl:1", "t.jsonl:2"]


def test_empty_lines_are_ignored(read: Read) -> None:
    outcome = read("t.jsonl", {"t.jsonl": f"\n{json.dumps(GOOD)}\n  \n"})
    assert outcome.documents == [[("g", "G")]]
    assert outcome.units == [(3, 1, 0, 2)] * 2


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{bad", "not valid JSON"),
        ("[1]", "not a JSON object"),
        ("[" * 100_000, "nested too deeply"),
        ('{"a":' * 100_000, "nested too deeply"),
        ('{"document": NaN}', "NaN is not a JSON number"),
        ('{"document": -Infinity}', "-Infinity is not a JSON number"),
        (f'{{"document": {"9" * 5000}}}', "too many digits"),
        ('{"document": "d", "document": "e"}', "the same key twice"),
    ],
)
def test_a_line_that_is_no_record_is_located(read: Read, line: str, message: str) -> None:
    good = json.dumps({"id": "good", "source": ["g"], "target": ["G"]})
    outcome = read("t.jsonl", {"t.jsonl": f"{good}\n{line}\n{good}\n"})
    assert outcome.documents == [[("g", "G")]] * 2
    assert outcome.places == [
        ("malformed_record", "t.jsonl", 2, 2),
        ("repeated_id", "t.jsonl", 3, 0),
    ]
    assert message in outcome.log[0]["message"]


def test_a_broken_line_between_pairs_takes_both_neighbours_along(read: Read) -> None:
    text = "\n".join(
        [json.dumps(pair(d, "a", "A")) for d in ("d0", "d1")]
        + ["{"]
        + [json.dumps(pair(d, "b", "B")) for d in ("d2", "d3")]
    )
    outcome = read("t.jsonl", {"t.jsonl": text})
    assert outcome.names == ["t.jsonl:d0", "t.jsonl:d3"]
    assert outcome.places == [
        ("malformed_record", "t.jsonl", 3, 4),
        ("missing_field", "t.jsonl", 3, 2),
    ]


@pytest.mark.parametrize(
    ("record", "kind", "dropped"),
    [
        (pair("d", "a\nb", "A"), "line_break", 2),
        (pair("d", "\ud800", "A"), "lone_surrogate", 2),
        (pair("d", "a", None), "malformed_record", 2),
        (pair("d", 5, "A"), "malformed_record", 2),
        ({"document": "d", "source": "a"}, "missing_field", 2),
        (pair("\ud800", "a", "A"), "missing_field", 2),
        (pair(1.5, "a", "A"), "missing_field", 2),
        (pair(True, "a", "A"), "missing_field", 2),
        (pair(" ", "a", "A"), "missing_field", 2),
        (pair("d\n1", "a", "A"), "missing_field", 2),
        ({"source": "a", "target": "A"}, "missing_field", 2),
        ({"id": "d", "source": ["a", "b"], "target": ["A"]}, "count_mismatch", 3),
        ({"id": "d", "source": ["a", None], "target": ["A", "B"]}, "malformed_record", 4),
        ({"id": "d", "source": ["a", "b\nc"], "target": ["A", "B"]}, "line_break", 4),
        ({"id": None, "source": ["a"], "target": ["A"]}, "missing_field", 2),
        ({"id": "d", "source": ["a", "b"]}, "missing_field", 3),
        ({"id": "d", "source": ["a"], "target": "A"}, "malformed_record", 2),
        ({"id": "d", "source": [], "target": []}, "empty_document", 0),
    ],
)
def test_a_record_that_cannot_be_used_is_left_out(
    read: Read, record: object, kind: str, dropped: int
) -> None:
    whole = {"id": "good", "source": ["g"], "target": ["G"]}
    outcome = read("t.jsonl", lines(whole, record, whole | {"id": "end"}))
    assert outcome.names == ["t.jsonl:good", "t.jsonl:end"]
    assert outcome.places[0] == (kind, "t.jsonl", 2, dropped)


def test_a_pair_that_cannot_be_used_takes_its_document_along(read: Read) -> None:
    records = [
        GOOD,
        pair("d", "a", "A"),
        pair("d", "b\nc", "B"),
        pair("d", "d", "D"),
        pair("e", "e", "E"),
    ]
    outcome = read("t.jsonl", lines(*records))
    assert outcome.documents == [[("g", "G")], [("e", "E")]]
    assert outcome.places == [("line_break", "t.jsonl", 3, 6)]


def test_odd_characters_of_sentences_are_repaired(read: Read) -> None:
    record = {"id": "d", "source": ["a\rb", "c\u2028"], "target": ["\0A", "\ufeffC"]}
    outcome = read("t.jsonl", lines(GOOD, record))
    assert outcome.documents[1] == [("a b", "A"), ("c\u2028", "\ufeffC")]
    assert outcome.findings.counts == {
        "byte_order_mark": 1,
        "carriage_return": 1,
        "nul": 1,
        "odd_separator": 1,
    }
    assert {line for _, _, line, _ in outcome.places} == {2}


def test_white_space_around_records_is_no_trouble(read: Read) -> None:
    content = b"\xef\xbb\xbf" + json.dumps(GOOD).encode() + b"\r\n"
    outcome = read("t.jsonl", {"t.jsonl": content})
    assert outcome.documents == [[("g", "G")]]
    assert outcome.places == [("byte_order_mark", "t.jsonl", 1, 0)]


def test_a_line_that_cannot_be_decoded_is_left_out(read: Read) -> None:
    good = json.dumps({"id": 1, "source": ["g"], "target": ["G"]}).encode()
    outcome = read("t.jsonl", {"t.jsonl": good + b"\n\xff\n"})
    assert outcome.places == [("bad_utf8", "t.jsonl", 2, 2)]
    assert f"byte {len(good) + 1} is" in outcome.log[0]["message"]


@pytest.mark.parametrize("text", ["", "\n\n"])
def test_a_file_without_records_is_refused(read: Read, text: str) -> None:
    with pytest.raises(DataError, match=r"t\.jsonl holds no sentence"):
        read("t.jsonl", {"t.jsonl": text})


def lines_of(*records: object) -> str:
    return "".join(f"{json.dumps(record) if record else ''}\n" for record in records)


def test_fields_can_be_named_and_nested(read: Read) -> None:
    content = lines_of(
        {"talk": 1, "text": {"src": "a", "tgt": "A"}}, {"talk": 2, "text": {"src": "b", "tgt": "B"}}
    )
    columns = {"document_column": "talk", "source_column": "text.src", "target_column": "text.tgt"}
    assert read("t.jsonl", {"t.jsonl": content}, **columns).documents == [
        [("a", "A")],
        [("b", "B")],
    ]


def test_pairs_of_hugging_face_datasets_are_told_apart_by_boundaries(read: Read) -> None:
    pair = {"translation": {"en": "a", "de": "A"}}
    files = {"t.jsonl": lines_of(pair, pair, None, pair)}
    outcome = read("t.jsonl", files)
    assert [len(document) for document in outcome.documents] == [2, 1]
    assert outcome.units == [(4, 3, 0, 1)] * 2
    files = {"t.jsonl": lines_of(pair, pair)}
    assert [len(d) for d in read("t.jsonl", files, boundaries="none").documents] == [2]
    with pytest.raises(DataError, match=r"2 lines but no blank line"):
        read("t.jsonl", files)
    files = {"t.jsonl": lines_of(pair | {"doc_id": "x"}, pair | {"doc_id": "y"})}
    assert read("t.jsonl", files).names == ["t.jsonl:x", "t.jsonl:y"]


WMT = {
    "doc_id": "d1",
    "src_text": "a\nb\n\nc",
    "refs": {"refA": {"ref": "A\nB\n\nC"}, "refB": {"ref": "AA\nBB\nCC"}},
}


def test_texts_of_wmt_have_a_segment_on_each_line(read: Read) -> None:
    outcome = read("t.jsonl", {"t.jsonl": lines_of(WMT)})
    assert outcome.documents == [[("a", "A"), ("b", "B"), ("c", "C")]]
    assert outcome.names == ["t.jsonl:d1"]
    outcome = read("t.jsonl", {"t.jsonl": lines_of(WMT)}, reference="refB")
    assert [target for _, target in outcome.documents[0]] == ["AA", "BB", "CC"]


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({"refs": {}}, "missing_field"),
        ({"refs": {"refA": {"ref": "A\nB"}}}, "count_mismatch"),
        ({"doc_id": ""}, "missing_field"),
        ({"src_text": 3}, "malformed_record"),
    ],
)
def test_a_text_of_wmt_that_does_not_fit_is_left_out(
    read: Read, change: dict[str, object], kind: str
) -> None:
    outcome = read("t.jsonl", {"t.jsonl": lines_of(WMT | change, WMT)})
    assert len(outcome.documents) == 1
    assert {found["kind"] for found in outcome.log} >= {kind}
