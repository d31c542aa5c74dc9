"""TSV: columns by name, documents by id, and rows that cannot be used."""

from collections.abc import Callable
from typing import Any

import pytest

from iada.errors import DataError

Read = Callable[..., Any]
HEADER = "document\tsource\ttarget\n"


@pytest.mark.parametrize(
    "text",
    [
        "document\tsource\ttarget\nd1\ta\tA\nd1\tb\tB\nd2\tc\tC\n",
        # Other columns, another order, language codes, no final line feed.
        "de\tscore\tdocument\ten\nA\t1\td1\ta\nB\t2\td1\tb\nC\t3\td2\tc",
        # Empty lines are no rows.
        "document\tsource\ttarget\n\nd1\ta\tA\n\nd1\tb\tB\nd2\tc\tC\n\n",
        # `source` and `target` win over language codes.
        "document\ten\tde\tsource\ttarget\nd1\t-\t-\ta\tA\nd1\t-\t-\tb\tB\nd2\t-\t-\tc\tC\n",
    ],
)
def test_columns_are_found_by_name(read: Read, text: str) -> None:
    outcome = read("t.tsv", {"t.tsv": text})
    assert outcome.documents == [[("a", "A"), ("b", "B")], [("c", "C")]]
    assert outcome.names == ["t.tsv:d1", "t.tsv:d2"]
    assert outcome.log == []
    read_units = text.count("\n") + (not text.endswith("\n"))
    assert outcome.units == [(read_units, 3, 0, read_units - 3)] * 2


def test_nothing_is_quoted(read: Read) -> None:
    outcome = read("t.tsv", {"t.tsv": HEADER + 'd1\t"a\t""A\n'})
    assert outcome.documents == [[('"a', '""A')]]


@pytest.mark.parametrize(
    "header",
    [
        "source\ttarget",
        "document\tsource",
        "document\ten\tfr",
        "document\tdocument\ten\tde",
        "\xff",
    ],
)
def test_a_header_without_the_columns_is_refused(read: Read, header: str) -> None:
    with pytest.raises(DataError, match=r"t\.tsv:1: the first line must name the columns"):
        read("t.tsv", {"t.tsv": header.encode("latin-1") + b"\nd1\ta\tA\n"})


@pytest.mark.parametrize("text", ["", HEADER, HEADER + "\n\n"])
def test_a_table_without_rows_is_refused(read: Read, text: str) -> None:
    with pytest.raises(DataError, match=r"must name the columns|holds no sentence"):
        read("t.tsv", {"t.tsv": text})


def test_a_row_of_other_width_takes_its_document_along(read: Read) -> None:
    rows = "d1\ta\tA\nd2\tb\tB\nd2\tb\tB\tmore\nd2\tb\tB\nd3\tc\tC\n"
    outcome = read("t.tsv", {"t.tsv": HEADER + rows})
    assert outcome.documents == [[("a", "A")], [("c", "C")]]
    assert outcome.places == [("malformed_row", "t.tsv", 4, 6)]
    assert "has 4 cells but the header has 3" in outcome.log[0]["message"]
    assert outcome.units == [(6, 2, 3, 1)] * 2


def test_a_row_that_tells_no_document_takes_its_neighbours_along(read: Read) -> None:
    rows = "d1\ta\tA\nd2\tb\tB\nbroken\nd3\tc\tC\nd4\td\tD\n"
    outcome = read("t.tsv", {"t.tsv": HEADER + rows})
    assert outcome.documents == [[("a", "A")], [("d", "D")]]
    assert outcome.places == [("malformed_row", "t.tsv", 4, 4), ("missing_field", "t.tsv", 4, 2)]


def test_a_row_of_unknown_document_inside_one_takes_only_it_along(read: Read) -> None:
    rows = "d1\ta\tA\nd2\tb\tB\n \tx\tX\nd2\tb\tB\nd3\tc\tC\n"
    outcome = read("t.tsv", {"t.tsv": HEADER + rows})
    assert outcome.documents == [[("a", "A")], [("c", "C")]]
    assert outcome.places == [("missing_field", "t.tsv", 4, 6)]


def test_a_row_that_cannot_be_decoded_takes_its_document_along(read: Read) -> None:
    rows = b"d1\ta\tA\nd2\tb\tB\nd2\tM\xfcll\tB\nd3\tc\tC\n"
    outcome = read("t.tsv", {"t.tsv": HEADER.encode() + rows})
    assert outcome.documents == [[("a", "A")], [("c", "C")]]
    # 23 bytes of header, 7 and 7 of rows, 4 before the byte.
    assert outcome.places == [("bad_utf8", "t.tsv", 4, 4)]
    assert "byte 41 is" in outcome.log[0]["message"]


def test_an_id_that_comes_back_is_another_document(read: Read) -> None:
    rows = "d1\ta\tA\nd2\tb\tB\nd1\tc\tC\n"
    outcome = read("t.tsv", {"t.tsv": HEADER + rows})
    assert outcome.documents == [[("a", "A")], [("b", "B")], [("c", "C")]]
    assert outcome.places == [("repeated_id", "t.tsv", 4, 0)]
    assert outcome.findings.errors == 0


def test_an_empty_cell_is_an_empty_sentence(read: Read) -> None:
    outcome = read("t.tsv", {"t.tsv": HEADER + "d1\ta\t\nd1\t\t\n"})
    assert outcome.documents == [[("a", ""), ("", "")]]
    assert outcome.places == [("empty_one_side", "t.tsv", 2, 0)]


def test_carriage_returns_are_repaired_with_their_lines(read: Read) -> None:
    outcome = read("t.tsv", {"t.tsv": (HEADER + "d1\ta\tA\n").replace("\n", "\r\n")})
    assert outcome.documents == [[("a", "A")]]
    assert outcome.places == [
        ("carriage_return", "t.tsv", 1, 0),
        ("carriage_return", "t.tsv", 2, 0),
    ]
