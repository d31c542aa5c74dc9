"""CSV, named and numbered columns, and `a ||| b`."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from iada.config.data import DataConfig
from iada.data.documents import Document, ParallelDocument
from iada.data.formats.file_format import CorpusFiles
from iada.data.formats.readers import describe_written, file_pieces, read_split, write_split
from iada.errors import DataError

Read = Callable[..., Any]


def test_cells_of_csv_may_be_quoted(read: Read) -> None:
    content = 'document,source,target,note\n1,"a, ""b""",A,\n\n1, c ,C,"x"\n2,d,D,\n'
    outcome = read("t.csv", {"t.csv": content})
    assert outcome.documents == [[('a, "b"', "A"), (" c ", "C")], [("d", "D")]]
    assert outcome.units == [(5, 3, 0, 2)] * 2
    assert outcome.log == []


def test_a_cell_of_csv_ends_on_its_line(read: Read) -> None:
    content = 'document,source,target\n1,a,A\n2,"b\nb",B\n3,c,C\n4,d,D\n'
    outcome = read("t.csv", {"t.csv": content})
    # Neither half of the row names its document, so both neighbours may lack a sentence.
    assert outcome.documents == [[("d", "D")]]
    assert outcome.places[:2] == [
        ("malformed_row", "t.csv", 3, 6),
        ("malformed_row", "t.csv", 4, 0),
    ]
    assert "A quoted cell ends on its own line" in outcome.log[0]["message"]


@pytest.mark.parametrize("name", ["t.tsv", "t.csv"])
def test_columns_can_be_named(read: Read, name: str) -> None:
    rows = [("src", "x", "talk", "tgt"), ("a", "", "1", "A"), ("b", "", "1", "B")]
    content = "".join(("\t" if name == "t.tsv" else ",").join(row) + "\n" for row in rows)
    columns = {"document_column": "talk", "source_column": "src", "target_column": "tgt"}
    assert read(name, {name: content}, **columns).documents == [[("a", "A"), ("b", "B")]]
    with pytest.raises(DataError, match=r"name the columns `talk`, `src` and `nothing`, each once"):
        read(name, {name: content}, **(columns | {"target_column": "nothing"}))


def test_numbered_columns_have_no_header(read: Read) -> None:
    content = "1\tA\ta\n1\tB\tb\n2\tC\tc\n"
    columns = {"document_column": "1", "source_column": "3", "target_column": "2"}
    outcome = read("t.tsv", {"t.tsv": content}, **columns)
    assert outcome.documents == [[("a", "A"), ("b", "B")], [("c", "C")]]
    assert outcome.units == [(3, 3, 0, 0)] * 2
    with pytest.raises(DataError, match=r"t\.tsv:1: has 3 cells, but .* are 3, 4 and 1"):
        read("t.tsv", {"t.tsv": content}, **(columns | {"target_column": "4"}))


@pytest.mark.parametrize(
    ("boundaries", "content", "documents"),
    [
        ("blank_line", "a\tA\nb\tB\n\nc\tC\n", [["a", "b"], ["c"]]),
        ("blank_line", "\na\tA\n\n\nc\tC\n\n", [["a"], ["c"]]),
        ("marker", "<d>\na\tA\n<d>\nb\tB\n", [["a"], ["b"]]),
        ("none", "a\tA\nb\tB\n", [["a", "b"]]),
    ],
)
def test_documents_without_a_column_are_told_apart_by_boundaries(
    read: Read, boundaries: str, content: str, documents: list[list[str]]
) -> None:
    settings = {"source_column": "1", "target_column": "2", "boundaries": boundaries}
    outcome = read("t.tsv", {"t.tsv": content}, **settings)
    assert [[source for source, _ in pairs] for pairs in outcome.documents] == documents
    assert outcome.names == [f"t.tsv:{number}" for number in range(1, len(documents) + 1)]
    assert outcome.findings.source.balances
    assert outcome.log == []


def test_unknown_boundaries_are_refused(read: Read) -> None:
    with pytest.raises(DataError, match=r"2 lines but no blank line.*`data\.boundaries: none`"):
        read("t.tsv", {"t.tsv": "a\tA\nb\tB\n"}, source_column="1")


def test_bars_separate_source_and_target(read: Read) -> None:
    outcome = read("t.bars", {"t.bars": "a | b ||| A\nc|||C\n\nd ||| \n"})
    assert outcome.documents == [[("a | b", "A"), ("c", "C")], [("d", "")]]
    outcome = read("t.bars", {"t.bars": "a ||| A\nb\n\nc ||| C\n"})
    assert outcome.documents == [[("c", "C")]]
    assert outcome.places == [("malformed_row", "t.bars", 2, 4)]


def documents() -> list[ParallelDocument]:
    pairs = [[('a, "x"', "A"), ("b", "")], [("c", "C")]]
    return [
        ParallelDocument(*(Document("d", tuple(pair[side] for pair in one)) for side in (0, 1)))
        for one in pairs
    ]


@pytest.mark.parametrize(
    "data",
    [
        DataConfig(train="t.csv"),
        DataConfig(train="t.csv", document_column="d", source_column="s", target_column="t"),
        DataConfig(train="t.tsv", document_column="2", source_column="1", target_column="4"),
        DataConfig(train="t.tsv", source_column="2", target_column="1"),
        DataConfig(train="t.tsv", source_column="2", target_column="1", boundaries="none"),
        DataConfig(train="t.jsonl", document_column="n", source_column="t.en", target_column="t.x"),
    ],
    ids=["csv", "named", "numbered", "unnumbered_documents", "one_document", "json"],
)
def test_what_is_written_is_read_with_the_same_columns(data: DataConfig, tmp_path: Path) -> None:
    written = describe_written(data, tmp_path, several=True)
    write_split(written, "train", documents())
    found = read_split(written, "train")
    assert [(d.source.sentences, d.target.sentences) for d in found] == [
        (d.source.sentences, d.target.sentences) for d in documents()
    ]
    assert (written.format == "text") == (data.boundaries == "none")


@pytest.mark.parametrize(
    ("name", "columns", "content", "expected"),
    [
        (
            "t.csv",
            (None, None, None),
            'document,en\n1,"a, b"\n',
            'document,en,de\n1,"a, b","A, B"\n',
        ),
        ("t.tsv", (None, "1", "3"), "a\tx\tb\n\nc\td\te\n", "a\tx\tA\n\nc\td\tC\n"),
        ("t.tsv", (None, "1", "2"), "a\nb\n", "a\tA\nb\tB\n"),
        ("t.bars", (None, None, None), "a ||| x\nb|||y\n", "a ||| A\nb ||| B\n"),
        ("t.bars", (None, None, None), "a\n\nb\n", "a ||| A\n\nb ||| B\n"),
    ],
)
def test_the_target_is_filled(
    tmp_path: Path, name: str, columns: Any, content: str, expected: str
) -> None:
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    files = replace(CorpusFiles(path), columns=columns)
    lines: list[str] = []
    for piece in file_pieces(name[2:], files)():  # type: ignore[arg-type]
        sentences = () if piece.document is None else piece.document.sentences
        lines += piece.render([sentence.upper() for sentence in sentences])
    assert "".join(f"{line}\n" for line in lines) == expected


def test_lines_alternate_between_the_languages(read: Read) -> None:
    content = "a\nA\nb\nB\n\nc\nC\n"
    outcome = read("t.pairs", {"t.pairs": content})
    assert outcome.documents == [[("a", "A"), ("b", "B")], [("c", "C")]]
    assert outcome.units == [(4, 3, 0, 1)] * 2
    marked = "<d>\na\nA\n\n\n<d>\nc\nC\n"
    outcome = read("t.pairs", {"t.pairs": marked}, boundaries="marker")
    assert outcome.documents == [[("a", "A"), ("", "")], [("c", "C")]]


def test_a_line_without_its_translation_takes_its_document_along(read: Read) -> None:
    outcome = read("t.pairs", {"t.pairs": "a\nA\nb\n\nc\nC\n\nd\nD\ne\n"})
    assert outcome.documents == [[("c", "C")]]
    assert outcome.places == [
        ("count_mismatch", "t.pairs", 3, 4),
        ("count_mismatch", "t.pairs", 10, 4),
    ]
    with pytest.raises(DataError, match="its document boundaries are unknown"):
        read("t.pairs", {"t.pairs": "a\nA\nb\nB\n"})


def test_the_tables_of_paradocs_have_numbered_columns(read: Read) -> None:
    rows = ["000001+000", "000001+000", "000001+001"]
    content = "".join(f"{d}\tsrc {n}\ttgt {n}\t0.9\tcollection\n" for n, d in enumerate(rows))
    columns = {"document_column": "1", "source_column": "2", "target_column": "3"}
    outcome = read("t.tsv", {"t.tsv": content}, **columns)
    assert outcome.documents == [[("src 0", "tgt 0"), ("src 1", "tgt 1")], [("src 2", "tgt 2")]]
