"""TSV and JSON lines to translate: the target is filled and everything else stays as it was."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from iada.data.documents import ParallelDocument
from iada.data.formats.file_format import CorpusFiles, Piece
from iada.data.formats.readers import detect_format, file_pieces, read_documents
from iada.errors import DataError


def shouted(pieces: Iterator[Piece]) -> tuple[list[str], list[tuple[str, ...]]]:
    """Return the lines of the output in upper case, and the documents."""
    lines: list[str] = []
    documents = []
    for piece in pieces:
        sentences = () if piece.document is None else piece.document.sentences
        lines += piece.render([sentence.upper() for sentence in sentences])
        if piece.document is not None:
            documents.append(sentences)
    return lines, documents


def pieces(path: Path) -> Iterator[Piece]:
    return file_pieces(detect_format(path.name), CorpusFiles(path))()


def tsv(tmp_path: Path, *rows: str) -> Iterator[Piece]:
    path = tmp_path / "in.tsv"
    path.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    return pieces(path)


def jsonl(tmp_path: Path, *rows: object) -> Iterator[Piece]:
    path = tmp_path / "in.jsonl"
    lines = [row if isinstance(row, str) else json.dumps(row, ensure_ascii=False) for row in rows]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return pieces(path)


def test_the_target_column_is_filled(tmp_path: Path) -> None:
    rows = ["document\tsource\ttarget\tnote", "1\ta\t\tn1", "1\t\told\tn2", "", "2\tb\t\t"]
    lines, documents = shouted(tsv(tmp_path, *rows))
    assert lines == ["document\tsource\ttarget\tnote", "1\ta\tA\tn1", "1\t\t\tn2", "", "2\tb\tB\t"]
    assert documents == [("a", ""), ("b",)]


def test_a_missing_target_column_is_added(tmp_path: Path) -> None:
    lines, _ = shouted(tsv(tmp_path, "en\tdocument", "a\tx", "b\tx"))
    assert lines == ["en\tdocument\tde", "a\tx\tA", "b\tx\tB"]


def test_empty_lines_do_not_separate_documents(tmp_path: Path) -> None:
    rows = ["document\tsource", "", "1\ta", "", "", "1\tb", "", "2\tc", ""]
    lines, documents = shouted(tsv(tmp_path, *rows))
    assert documents == [("a", "b"), ("c",)]
    assert len(lines) == len(rows)
    assert [number for number, line in enumerate(lines) if not line] == [1, 3, 4, 6, 8]


def test_a_translation_cannot_begin_another_cell(tmp_path: Path) -> None:
    _, piece = tsv(tmp_path, "document\tsource\ttarget\tmore", "1\ta\tb\tc")
    assert piece.render(["x\ty"]) == ["1\ta\tx y\tc"]


def test_targets_that_are_there_are_references(tmp_path: Path) -> None:
    *_, piece = tsv(tmp_path, "document\tde\ten", "1\tx\ta", "1\ty\tb")
    assert piece.reference is not None
    assert piece.reference.sentences == ("x", "y")
    *_, piece = tsv(tmp_path, "document\tsource", "1\tx")
    assert piece.reference is None


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["source\ttarget", "a\tb"], r"in\.tsv:1: the first line must name the columns"),
        (["document\tsource\tsource", "1\ta\tb"], r"in\.tsv:1: .*each once"),
        (["document\tsource", "1\ta", "1"], r"in\.tsv:3: has 1 cells but the header has 2"),
        (["document\tsource", " \ta"], r"in\.tsv:2: .*has no document id"),
        (["document\tsource", "1\ta\0"], r"in\.tsv:2: contains a NUL character"),
    ],
)
def test_a_bad_table_is_refused_with_its_line(
    tmp_path: Path, rows: list[str], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        shouted(tsv(tmp_path, *rows))


def test_whole_documents_and_single_sentences_are_filled(tmp_path: Path) -> None:
    rows = [
        {"id": 1, "source": ["a", ""], "note": "ü"},
        {"id": 1, "source": ["b"]},
        "",
        {"document": "x", "en": "c", "de": "old"},
        {"document": "x", "en": "d"},
        {"document": "y", "en": "e"},
    ]
    lines, documents = shouted(jsonl(tmp_path, *rows))
    assert documents == [("a", ""), ("b",), ("c", "d"), ("e",)]
    assert [json.loads(line) if line else "" for line in lines] == [
        {"id": 1, "source": ["a", ""], "note": "ü", "target": ["A", ""]},
        {"id": 1, "source": ["b"], "target": ["B"]},
        "",
        {"document": "x", "en": "c", "de": "C"},
        {"document": "x", "en": "d", "de": "D"},
        {"document": "y", "en": "e", "de": "E"},
    ]
    assert "ü" in lines[0]


def test_a_document_without_sentences_stays(tmp_path: Path) -> None:
    lines, documents = shouted(jsonl(tmp_path, {"source": []}, {"source": ["a"]}))
    assert documents == [(), ("a",)]
    assert json.loads(lines[0]) == {"source": [], "target": []}


def test_references_must_be_complete_to_count(tmp_path: Path) -> None:
    whole, part, none = jsonl(
        tmp_path,
        {"source": ["a", "b"], "target": ["x", "y"]},
        {"source": ["a", "b"], "target": ["x"]},
        {"source": ["a"]},
    )
    assert whole.reference is not None
    assert whole.reference.sentences == ("x", "y")
    assert part.reference is None
    assert none.reference is None


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("{", r"in\.jsonl:2: not valid JSON"),
        ("[]", r"in\.jsonl:2: not a JSON object"),
        ({"source": "a"}, r"in\.jsonl:2: has no field `document`"),
        ({"document": 1, "source": 3}, r"in\.jsonl:2: a sentence is not text"),
        ({"document": 1}, r"in\.jsonl:2: lacks a side"),
        ({"source": ["a\nb"]}, r"in\.jsonl:2: .*line break"),
        ('{"source": ["\\ud800"]}', r"in\.jsonl:2: .*lone surrogate"),
    ],
)
def test_a_bad_record_is_refused_with_its_line(tmp_path: Path, row: object, message: str) -> None:
    with pytest.raises(DataError, match=message):
        shouted(jsonl(tmp_path, {"source": ["a"]}, row))


def test_the_hypothesis_of_wmt_is_filled_and_paragraphs_stay(tmp_path: Path) -> None:
    record = {"doc_id": "d1", "src_text": "a\n b\n\nc\n", "refs": {"refA": {"ref": "x\ny\nz"}}}
    (piece,) = jsonl(tmp_path, record)
    assert piece.document is not None
    assert piece.document.sentences == ("a", " b", "c")
    assert piece.reference is not None
    assert piece.reference.sentences == ("x", "y", "z")
    (line,) = piece.render(["A", "B", "C"])
    assert json.loads(line) == record | {"hypothesis": "A\nB\n\nC\n"}
    (tmp_path / "out.jsonl").write_text(f"{line}\n", encoding="utf-8")
    (read,) = read_documents(tmp_path / "out.jsonl", reference="hypothesis")
    assert isinstance(read, ParallelDocument)
    assert read.target.sentences == ("A", "B", "C")


def test_the_target_of_a_hugging_face_pair_is_filled(tmp_path: Path) -> None:
    rows = [{"id": 1, "translation": {"en": "a"}}, {"translation": {"en": "b", "de": "old"}}]
    lines, documents = shouted(jsonl(tmp_path, *rows))
    assert documents == [("a", "b")]
    assert [json.loads(line) for line in lines] == [
        {"id": 1, "translation": {"en": "a", "de": "A"}},
        {"translation": {"en": "b", "de": "B"}},
    ]
