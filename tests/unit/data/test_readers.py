r"""Files to documents: split at `\n` only, boundaries as stated, misalignment refused."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iada.config.data import Boundaries
from iada.data.documents import Document, ParallelDocument
from iada.data.readers import (
    Span,
    documents_of,
    read_documents,
    read_lines,
    read_parallel,
    split_documents,
)
from iada.errors import DataError


def write(path: Path, text: str) -> Path:
    path.write_bytes(text.encode())
    return path


def test_a_final_line_feed_does_not_begin_an_empty_line(tmp_path: Path) -> None:
    assert read_lines(write(tmp_path / "a", "x\ny\n")) == ["x", "y"]
    assert read_lines(write(tmp_path / "a", "x\ny")) == ["x", "y"]
    assert read_lines(write(tmp_path / "a", "x\n\n")) == ["x", ""]
    assert read_lines(write(tmp_path / "a", "")) == []


@pytest.mark.parametrize("symbol", ["\v", "\f", "\x1c", "\x85", "\u2028", "\u2029"])
def test_only_a_line_feed_ends_a_line(tmp_path: Path, symbol: str) -> None:
    # `str.splitlines` would split at each of them, and `wc -l` at none.
    assert read_lines(write(tmp_path / "a", f"x{symbol}y\nz\n")) == [f"x{symbol}y", "z"]


def test_bytes_that_are_not_utf8_are_located(tmp_path: Path) -> None:
    path = tmp_path / "latin1.de"
    path.write_bytes(b"eins\nzwei\nf\xfcnf\n")
    # "eins\nzwei\n" are 10 bytes, "f" is byte 10.
    with pytest.raises(DataError, match=r"latin1\.de:3: byte 11 is not valid UTF-8"):
        read_lines(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [("a\nb\r\n", r"a:2: contains a carriage return"), ("a\0\n", r"a:1: contains a NUL character")],
)
def test_invisible_line_trouble_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_lines(write(tmp_path / "a", text))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"absent\.en does not exist or is not a file"):
        read_lines(tmp_path / "absent.en")
    with pytest.raises(DataError, match="does not exist or is not a file"):
        read_lines(tmp_path)


@pytest.mark.parametrize(
    ("boundaries", "lines", "spans"),
    [
        ("blank_line", ["a", "b", "", "c"], [(0, 2), (3, 4)]),
        ("blank_line", ["a", "", "b", ""], [(0, 1), (2, 3)]),
        ("blank_line", ["a", "", "", "b"], [(0, 1), (2, 2), (3, 4)]),
        ("blank_line", ["a", " \t", "b"], [(0, 1), (2, 3)]),
        ("blank_line", ["<d>", "a"], [(0, 2)]),
        ("marker", ["<d>", "a", "b", "<d>", "c"], [(1, 3), (4, 5)]),
        ("marker", ["a", "<d>", "b"], [(0, 1), (2, 3)]),
        ("marker", ["<d>", "a", "", "b"], [(1, 4)]),
        ("none", ["a", "", "<d>", "b"], [(0, 4)]),
    ],
)
def test_documents_are_parted_as_stated(
    boundaries: Boundaries, lines: list[str], spans: list[tuple[int, int]]
) -> None:
    assert split_documents(lines, boundaries) == [Span(*span) for span in spans]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(st.sampled_from(["a", "b c", "é"]), min_size=1), min_size=1))
def test_joining_with_blank_lines_and_splitting_is_the_identity(documents: list[list[str]]) -> None:
    lines = "\n\n".join("\n".join(document) for document in documents).split("\n")
    spans = split_documents(lines, "blank_line")
    assert [list(d.sentences) for d in documents_of(Path("x"), lines, spans)] == documents


def test_documents_are_named_after_file_and_number(tmp_path: Path) -> None:
    path = write(tmp_path / "test.en", "a\nb\n\nc\n")
    documents = read_documents(path)
    assert documents == [Document("test.en:1", ("a", "b")), Document("test.en:2", ("c",))]


def test_both_sides_are_read_together(tmp_path: Path) -> None:
    source = write(tmp_path / "t.en", "a\nb\n\nc\n")
    target = write(tmp_path / "t.de", "A\nB\n\nC\n")
    first, second = read_documents(source, target)
    assert isinstance(first, ParallelDocument)
    assert first.source.sentences == ("a", "b")
    assert first.target.sentences == ("A", "B")
    assert second.name == "t.en:2"


def test_an_empty_sentence_survives_where_blank_lines_part_nothing(tmp_path: Path) -> None:
    source = write(tmp_path / "t.en", "<d>\na\n\nb\n")
    target = write(tmp_path / "t.de", "<d>\nA\n\nB\n")
    (document,) = read_parallel(source, target, boundaries="marker")
    assert document.source.sentences == ("a", "", "b")


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        ("a\nb\n\nc\n", "A\n\nC\n", r"4 lines but .* has 3; they first diverge at line 2"),
        ("a\n\nb\n", "A\n\nB\nC\n", r"3 lines but .* has 4\. Both sides must be aligned"),
        ("a\nb\n\nc\n", "A\n\nB\nC\n", r"Line 2 parts documents in only one of"),
        ("a\n\n\nb\n", "A\n\n\nB\n", r"t\.en:3: empty document \(1 in the file\)"),
        ("\na\n\n\n", "\nA\n\n\n", r"t\.en:1: empty document \(2 in the file\)"),
        ("", "", r"t\.en holds no sentence"),
        ("\n \n", "\n\n", r"t\.en holds no sentence"),
        ("a\nb\n", "A\nB\n", r"2 lines but no blank line.*`data\.boundaries: none`"),
    ],
)
def test_files_that_do_not_fit_are_refused(
    tmp_path: Path, source: str, target: str, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        read_parallel(write(tmp_path / "t.en", source), write(tmp_path / "t.de", target))


def test_a_document_has_as_many_sentences_on_both_sides() -> None:
    with pytest.raises(DataError, match="Document n has 1 source sentences but 2 target"):
        ParallelDocument(Document("n", ("a",)), Document("n", ("A", "B")))


def test_a_sentence_is_a_single_line() -> None:
    with pytest.raises(DataError, match="Sentence 2 of document n contains a line break"):
        Document("n", ("a", "b\nc"))


@pytest.mark.parametrize(
    ("corpus", "split", "sentences", "documents"),
    [
        # The benchmark's own counts: sentences without the lines that part documents.
        ("ted", "dev", 8967, 93),
        ("ted", "test", 2271, 23),
        ("news", "dev", 2169, 81),
        ("news", "test", 2999, 155),
        ("europarl", "dev", 3587, 240),
        ("europarl", "test", 5134, 360),
    ],
)
def test_real_corpora_have_the_sizes_of_the_benchmark(
    real_data: Path, corpus: str, split: str, sentences: int, documents: int
) -> None:
    folder = real_data / corpus
    found = read_parallel(folder / f"{split}.en", folder / f"{split}.de")
    assert (sum(map(len, found)), len(found)) == (sentences, documents)
