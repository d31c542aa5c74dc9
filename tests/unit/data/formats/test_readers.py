r"""Files to documents: split at `\n` only, boundaries as stated, misalignment refused."""

import gzip
import html
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iada.config.data import Boundaries, DataConfig, FileFormat, Split
from iada.data.documents import Document, ParallelDocument
from iada.data.formats.assembly import DocumentSide, assemble
from iada.data.formats.file_format import CorpusFiles, Format
from iada.data.formats.findings import Findings, Tally
from iada.data.formats.lines import read_lines
from iada.data.formats.readers import (
    FORMATS,
    detect_format,
    file_format,
    iterate_documents,
    read_documents,
    read_parallel,
    read_split,
)
from iada.data.formats.text import Span, documents_of, split_documents
from iada.errors import ConfigError, DataError

Pairs = list[list[tuple[str, str]]]


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


def test_nul_is_refused_where_it_is(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a:2: contains a NUL character"):
        read_lines(write(tmp_path / "a", "a\nb\0\n"))


def test_line_ends_and_marks_of_other_systems_are_repaired_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert read_lines(write(tmp_path / "a", "\ufeffa\r\nb\r\n")) == ["a", "b"]
    assert [record.getMessage().split(":", 1)[1] for record in caplog.records] == [
        "1: begins with a byte order mark, which was removed. Save it without one. "
        "(byte_order_mark, 1)",
        "1: contains a carriage return; it was removed at the end of the line and became a space "
        "elsewhere. Lines end in a single line feed. (carriage_return, 2)",
    ]


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
def test_documents_are_separated_as_stated(
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
        (
            "a\nb\n\nc\n",
            "A\n\nC\n",
            r"t\.en:1: document t\.en:1 has 2 sentences in .*t\.en \(lines 1-2\) but 1 sentence in "
            r".*t\.de \(line 1\)\. Both sides must be aligned one to one",
        ),
        (
            "a\n\nb\n",
            "A\n\nB\nC\n",
            r"t\.en:3: document t\.en:2 has 1 sentence in .* but 2 sentences .*\(lines 3-4\)",
        ),
        ("a\nb\n\nc\n", "A\n\nB\nC\n", r"(?s)has 2 problems.*t\.en:1: .*\(count_mismatch, 2\)"),
        ("a\n\n\nb\n", "A\n\n\nB\n", r"(?s)has 2 problems.*t\.en:3: empty document.*, 2\)"),
        ("\na\n\n\n", "\nA\n\n\n", r"(?s)has 4 problems.*t\.en:1: empty document.*, 4\)"),
        ("a\0\n\nb\n", "A\n\nB\n", r"t\.en:1: contains a NUL character"),
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


def test_all_problems_are_refused_at_once(tmp_path: Path) -> None:
    write(tmp_path / "train.en", "a\0\n\nb\nc\n\n\nd\n")
    (tmp_path / "train.de").write_bytes(b"A\n\nB\n\nM\xfcll\n")
    with pytest.raises(DataError) as refused:
        read_split(DataConfig(folder=tmp_path), "train")
    head, *lines = str(refused.value).split("\n")
    assert head.startswith("The corpus has 4 problems.")
    assert [line.rsplit("(", 1)[1] for line in lines] == [
        "nul, 1)",
        "count_mismatch, 1)",
        "empty_document, 1)",
        "bad_utf8, 1)",
    ]


def test_what_is_right_is_kept_and_the_rest_counted(tmp_path: Path) -> None:
    write(tmp_path / "dev.en", "a\r\n\nb\nc\n\nd\n")
    write(tmp_path / "dev.de", "A\n\nB\n\nD\n")
    findings = Findings()
    documents = list(iterate_documents(DataConfig(folder=tmp_path), "dev", findings))
    assert [document.source.sentences for document in documents] == [("a",), ("d",)]
    assert findings.counts == {"carriage_return": 1, "count_mismatch": 1}
    assert findings.source == Tally(read=6, kept=2, dropped=2, boundaries=2)
    assert findings.target == Tally(read=5, kept=2, dropped=1, boundaries=2)


def test_reading_is_lazy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("iada.data.formats.lines._BLOCK_BYTES", 1)
    write(tmp_path / "train.en", "a\n\nb\n\nc\n")
    write(tmp_path / "train.de", "A\n\nB\n\nC\n")
    findings = Findings()
    documents = iterate_documents(DataConfig(folder=tmp_path), "train", findings)
    next(documents)
    assert findings.source.kept == 1


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("train.{language}", "text"),
        ("train.{language}.txt.gz", "text"),
        ("train.tsv", "tsv"),
        ("train.jsonl.gz", "jsonl"),
        ("newstest-{language}.sgm", "sgm"),
        ("wmt.xml", "sgm"),
        ("train.json", "dialogue"),
        ("train.tags.en-de.{language}", "tags"),
        ("sub/train.tags.en-de.{language}.gz", "tags"),
    ],
)
def test_the_name_tells_the_format(pattern: str, expected: str) -> None:
    assert file_format(DataConfig(train=pattern), "train") == expected


def test_sides_can_be_named_as_wmt_does() -> None:
    data = DataConfig(test="newstest-ende-{side}.{language}.sgm")
    names = [path.name for path in data.paths("test")]
    assert names == ["newstest-ende-src.en.sgm", "newstest-ende-ref.de.sgm"]


def test_a_reader_that_loses_count_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forgetful(files: CorpusFiles, findings: Findings) -> Iterator[ParallelDocument]:
        findings.source.read += 1
        return iter(())

    monkeypatch.setitem(FORMATS, "text", replace(FORMATS["text"], read=forgetful))  # type: ignore[arg-type]
    with pytest.raises(AssertionError, match="the source side does not add up"):
        read_split(DataConfig(folder=tmp_path), "train")


def test_every_format_of_the_configuration_is_in_the_table_and_the_reverse() -> None:
    assert sorted(get_args(FileFormat)) == sorted(FORMATS)
    assert detect_format("anything.txt") == "text"


def test_a_format_of_ones_own_is_one_entry_of_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pairs such as `a = A`; each file is one document."""

    def read_pairs(files: CorpusFiles, findings: Findings) -> Iterator[ParallelDocument]:
        lines = read_lines(files.source)
        sides = [[line.split(" = ")[side] for line in lines] for side in (0, 1)]
        for tally in (findings.source, findings.target):
            tally.read += len(lines)
        name = files.source.name
        source, target = (
            DocumentSide(files.source, name, side, range(1, len(lines) + 1)) for side in sides
        )
        document = assemble(source, target, [], findings)
        if document is not None:
            yield document

    own = Format(names=("*.pairs",), files="one", read=read_pairs)
    monkeypatch.setattr("iada.data.formats.readers.FORMATS", {"pairs": own, **FORMATS})
    write(tmp_path / "train.pairs", "a = A\nb = B\n")
    (document,) = read_split(DataConfig(folder=tmp_path, train="train.pairs"), "train")
    assert (document.source.sentences, document.target.sentences) == (("a", "b"), ("A", "B"))


def test_a_stated_format_wins_over_the_name() -> None:
    data = DataConfig(format="tsv", train="a.txt", dev="b.json", test="c")
    assert {file_format(data, split) for split in ("train", "dev", "test")} == {"tsv"}
    assert data.paths("dev") == (Path("corpus/b.json"), Path("corpus/b.json"))


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("train", r"`data\.train` must be a file name that contains `\{language\}` \(format text"),
        ("train.tags.en", r"must be a file name that contains `\{language\}` \(format tags"),
        ("train.{language}.tsv", r"must be a file name without `\{language\}` \(format tsv"),
        ("train.{language}.jsonl", r"must be a file name without `\{language\}` \(format jsonl"),
        ("train.{language}.json", r"must be a file name without `\{language\}` \(format dialogue"),
    ],
)
def test_a_name_that_does_not_fit_the_format_is_refused(pattern: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_split(DataConfig(train=pattern), "train")


def test_one_file_of_both_sides_needs_no_target(tmp_path: Path) -> None:
    table = write(tmp_path / "t.tsv", "document\tfr\tnl\nd\ta\tA\n")
    (document,) = read_documents(table, languages=("fr", "nl"))
    assert isinstance(document, ParallelDocument)
    assert document.target.sentences == ("A",)
    with pytest.raises(DataError, match="must name the columns"):
        read_documents(table)


def test_a_format_can_be_stated(tmp_path: Path) -> None:
    path = write(tmp_path / "t.tsv", "a\n\nb\n")
    assert [len(document) for document in read_documents(path, format="text")] == [1, 1]
    text = write(tmp_path / "t", '{"source": ["a"], "target": ["A"]}\n')
    assert len(read_documents(text, format="jsonl")) == 1


def pairs_of(documents: list[ParallelDocument]) -> Pairs:
    return [
        [*zip(document.source.sentences, document.target.sentences, strict=True)]
        for document in documents
    ]


def lines_of(parts: Iterable[str]) -> str:
    return "".join(f"{part}\n" for part in parts)


def write_text_form(folder: Path, documents: Pairs) -> DataConfig:
    for side, language in enumerate(("en", "de")):
        parts = (lines_of(["<d>", *(pair[side] for pair in document)]) for document in documents)
        write(folder / f"dev.{language}", "".join(parts))
    return DataConfig(folder=folder, boundaries="marker")


def write_tsv_form(folder: Path, documents: Pairs) -> DataConfig:
    rows = (f"{n}\t{s}\t{t}" for n, pairs in enumerate(documents) for s, t in pairs)
    write(folder / "dev.tsv", lines_of(["document\ten\tde", *rows]))
    return DataConfig(folder=folder, dev="dev.tsv")


def write_document_form(folder: Path, documents: Pairs) -> DataConfig:
    records = ({"source": [s for s, _ in d], "target": [t for _, t in d]} for d in documents)
    write(folder / "dev.jsonl", lines_of(map(json.dumps, records)))
    return DataConfig(folder=folder, dev="dev.jsonl")


def write_sentence_form(folder: Path, documents: Pairs) -> DataConfig:
    records = (
        {"document": n, "en": s, "de": t} for n, pairs in enumerate(documents) for s, t in pairs
    )
    lines = (json.dumps(record, ensure_ascii=False) for record in records)
    write(folder / "dev.jsonl", lines_of(lines))
    return DataConfig(folder=folder, dev="dev.jsonl")


def marked(sentences: Iterable[str]) -> str:
    segments = (f'<seg id="{n}">{html.escape(text)}</seg>' for n, text in enumerate(sentences))
    return lines_of(segments)


def write_sgm_form(folder: Path, documents: Pairs) -> DataConfig:
    for side, language in enumerate(("en", "de")):
        parts = (
            f'<doc docid="{n}">\n{marked(pair[side] for pair in pairs)}</doc>'
            for n, pairs in enumerate(documents)
        )
        write(folder / f"dev-{language}.sgm", lines_of(["<srcset>", *parts, "</srcset>"]))
    return DataConfig(folder=folder, dev="dev-{language}.sgm")


def write_xml_form(folder: Path, documents: Pairs) -> DataConfig:
    parts = (
        f'<doc id="{n}"><src>{marked(s for s, _ in pairs)}</src>\n'
        f'<ref translator="A">{marked(t for _, t in pairs)}</ref></doc>'
        for n, pairs in enumerate(documents)
    )
    write(folder / "dev.xml", lines_of(parts))
    return DataConfig(folder=folder, dev="dev.xml")


def write_tags_form(folder: Path, documents: Pairs) -> DataConfig:
    for side, language in enumerate(("en", "de")):
        parts = (
            lines_of([f"<talkid>{n}</talkid>", *(pair[side] for pair in pairs)])
            for n, pairs in enumerate(documents)
        )
        write(folder / f"train.tags.en-de.{language}", "".join(parts))
    return DataConfig(folder=folder, dev="train.tags.en-de.{language}")


def write_dialogue_form(folder: Path, documents: Pairs) -> DataConfig:
    dialogues = {
        f"{n}": [{"speaker": "agent", "source": s, "target": t} for s, t in pairs]
        for n, pairs in enumerate(documents)
    }
    write(folder / "dev.json", json.dumps(dialogues, indent=1))
    return DataConfig(folder=folder, dev="dev.json")


def pack(data: DataConfig) -> DataConfig:
    for path in set(data.paths("dev")):
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes(), 1))
        path.unlink()
    return replace(data, dev=f"{data.dev}.gz")


FORMS: list[Callable[[Path, Pairs], DataConfig]] = [
    write_text_form,
    write_tsv_form,
    write_document_form,
    write_sentence_form,
    write_sgm_form,
    write_xml_form,
    write_tags_form,
    write_dialogue_form,
]


@pytest.mark.parametrize("write_form", FORMS)
@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.lists(
            st.tuples(*[st.text("ab&<>\"';é中\xa0#lt \\", min_size=1).filter(str.strip)] * 2),
            min_size=1,
        ),
        min_size=1,
    )
)
def test_documents_are_the_same_in_every_format(
    tmp_path_factory: pytest.TempPathFactory,
    write_form: Callable[[Path, Pairs], DataConfig],
    documents: Pairs,
) -> None:
    # White space around a sentence is text in some formats and layout in others.
    documents = [[(s.strip(), t.strip()) for s, t in pairs] for pairs in documents]
    data = write_form(tmp_path_factory.mktemp("form"), documents)
    assert pairs_of(read_split(data, "dev")) == documents
    assert pairs_of(read_split(pack(data), "dev")) == documents


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
def test_real_corpora_have_the_sizes_of_the_benchmark_in_every_format(
    real_data: Path, tmp_path: Path, corpus: str, split: Split, sentences: int, documents: int
) -> None:
    found = pairs_of(read_split(DataConfig(folder=real_data / corpus), split))
    assert (sum(map(len, found)), len(found)) == (sentences, documents)
    for write_form in FORMS:
        data = write_form(tmp_path, found)
        assert pairs_of(read_split(data, "dev")) == found
        assert pairs_of(read_split(pack(data), "dev")) == found
