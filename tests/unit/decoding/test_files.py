"""Files line for line: as many lines out as in, and what parts documents stays as it is."""

import json
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

from iada.config.data import Boundaries, DataConfig, WindowConfig
from iada.config.decode import DecodeConfig
from iada.data.documents import Document
from iada.decoding.engines.interface import Hypothesis, Request
from iada.decoding.files import (
    count_lines,
    details_file,
    n_best_file,
    split_pieces,
    translate_file,
    translate_split,
)
from iada.decoding.requests import Alternative
from iada.decoding.shards import SINGLE
from iada.decoding.translator import DocumentTranslator
from iada.decoding.wavefront import DocumentTranslation, TranslationInput
from iada.errors import DataError
from iada.storage import sha256


class Shouting:
    """Translate to upper case, and remember the documents."""

    engine = SimpleNamespace(name="shouting")
    models = (nn.Linear(1, 1),)
    windows = WindowConfig()
    processes = SINGLE

    def __init__(self, decode: DecodeConfig | None = None) -> None:
        self.decode = decode or DecodeConfig(beam=2)
        self.seen: list[tuple[str, ...]] = []
        self.references: list[Document | None] = []

    def check(self, inputs: Iterable[TranslationInput]) -> int:
        return sum(len(one.document) for one in inputs)

    def stream(
        self, inputs: Iterable[TranslationInput], engine: object, total: int
    ) -> Iterator[DocumentTranslation]:
        for one in inputs:
            sentences = one.document.sentences
            self.seen.append(sentences)
            self.references.append(one.reference)
            loud = tuple(sentence.upper() for sentence in sentences)
            found = tuple((Alternative(text, -1.0), Alternative(f"{text}!", -2.0)) for text in loud)
            yield DocumentTranslation(Document(one.document.name, loud), found)


@pytest.fixture
def translator() -> Any:
    return Shouting()


@pytest.mark.parametrize(
    ("boundaries", "text", "translated", "documents"),
    [
        ("blank_line", "a\nb\n\nc\n", "A\nB\n\nC\n", [("a", "b"), ("c",)]),
        ("blank_line", "a\n\n \n\nb", "A\n\n \n\nB\n", [("a",), ("b",)]),
        ("blank_line", "\n\na\n\n\n", "\n\nA\n\n\n", [("a",)]),
        ("marker", "<d>\na\n\nb\n<d>\nc\n", "<d>\nA\n\nB\n<d>\nC\n", [("a", "", "b"), ("c",)]),
        ("marker", " <d> \na\n", " <d> \nA\n", [("a",)]),
        ("none", "a\n\n<d>\nb\n", "A\n\n<D>\nB\n", [("a", "", "<d>", "b")]),
    ],
)
def test_lines_correspond_one_to_one(
    translator: Any,
    tmp_path: Path,
    boundaries: Boundaries,
    text: str,
    translated: str,
    documents: list[tuple[str, ...]],
) -> None:
    source, output = tmp_path / "in", tmp_path / "new" / "out"
    source.write_text(text, encoding="utf-8")
    translate_file(translator, source, output, boundaries=boundaries)
    assert output.read_bytes().decode() == translated
    assert translator.seen == documents


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(lines=st.lists(st.sampled_from(["a", "", "<d>", "x\u2028y", " "]), min_size=1))
@pytest.mark.parametrize("boundaries", ["blank_line", "marker", "none"])
def test_any_file_keeps_its_number_of_lines(
    tmp_path: Path, lines: list[str], boundaries: Boundaries
) -> None:
    boundary = {"blank_line": "", "marker": "<d>", "none": None}[boundaries]
    if not any(line.strip() and line != boundary for line in lines):
        return
    source, output = tmp_path / "in", tmp_path / "out"
    source.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    translate_file(Shouting(), source, output, boundaries=boundaries)  # type: ignore[arg-type]
    after = output.read_bytes().decode().split("\n")[:-1]
    assert [line.lower() for line in after] == lines


def test_the_details_lie_beside_the_translation(translator: Any, tmp_path: Path) -> None:
    source, output = tmp_path / "in", tmp_path / "out.de"
    source.write_text("a\nb\n\nc\n", encoding="utf-8")
    details = translate_file(translator, source, output, boundaries="blank_line")
    assert details_file(output) == tmp_path / "out.de.json"
    assert json.loads(details_file(output).read_text(encoding="utf-8")) == details
    assert details["seconds"] >= 0  # type: ignore[operator]
    assert details["inputs"] == [sha256(source)]
    assert {key: value for key, value in details.items() if key not in ("seconds", "inputs")} == {
        "engine": "shouting",
        "models": 1,
        "precision": "float32",
        "beam": 2,
        "length_penalty": 1.0,
        "documents": 2,
        "sentences": 3,
        "kept": 0,
        "resumed": False,
    }
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out.de", "out.de.json"]


def test_a_translation_is_flushed_before_it_gets_its_name(
    tmp_path: Path, disk_log: list[str]
) -> None:
    (tmp_path / "in").write_text("a\n", encoding="utf-8")
    translator: Any = Shouting(DecodeConfig(beam=2, n_best=2))
    translate_file(translator, tmp_path / "in", tmp_path / "out", boundaries="none")
    named = [
        step
        for name in ("out.nbest.jsonl", "out")
        for step in (
            f"sync {name}.partial",
            f"rename {name}.partial {name}",
            f"sync {tmp_path.name}",
        )
    ]
    # What follows says how it was made; before that, the journal could still make it again.
    assert disk_log[: len(named)] == named
    assert disk_log[-2].endswith("out.json")


@pytest.mark.parametrize("name", ["in", "../folder/in", "link"])
def test_the_input_is_never_overwritten(translator: Any, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    source = folder / "in"
    source.write_text("a\n", encoding="utf-8")
    (folder / "link").symlink_to(source)
    with pytest.raises(DataError, match="is the input itself"):
        translate_file(translator, source, folder / name, boundaries="none")
    assert source.read_text(encoding="utf-8") == "a\n"
    assert translator.seen == []


@pytest.mark.parametrize("text", ["", "\n\n", " \n"])
def test_a_file_without_a_sentence_is_refused(translator: Any, tmp_path: Path, text: str) -> None:
    source = tmp_path / "in"
    source.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match="in holds no sentence"):
        translate_file(translator, source, tmp_path / "out", boundaries="blank_line")
    assert not (tmp_path / "out").exists()


def test_a_folder_is_not_a_file_to_write(translator: Any, tmp_path: Path) -> None:
    source, output = tmp_path / "in", tmp_path / "out"
    source.write_text("a\n", encoding="utf-8")
    output.mkdir()
    with pytest.raises(DataError, match=r"out is a folder\. Choose a file as `--output`"):
        translate_file(translator, source, output, boundaries="none")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out"]


def test_an_earlier_translation_is_replaced(translator: Any, tmp_path: Path) -> None:
    source, output = tmp_path / "in", tmp_path / "out"
    source.write_text("a\n", encoding="utf-8")
    output.write_text("something longer\nthan that\n", encoding="utf-8")
    translate_file(translator, source, output, boundaries="none")
    assert output.read_text(encoding="utf-8") == "A\n"


def test_every_form_is_written_as_it_was_read(translator: Any, tmp_path: Path) -> None:
    table, records = tmp_path / "in.tsv", tmp_path / "in.jsonl"
    table.write_text("document\tfr\n1\ta\n1\tb\n2\tc\n", encoding="utf-8")
    records.write_text('{"fr": ["a", "b"]}\n', encoding="utf-8")
    for source in (table, records):
        output = tmp_path / f"out{source.suffix}"
        translate_file(translator, source, output, boundaries="blank_line", languages=("fr", "it"))
    assert (tmp_path / "out.tsv").read_text(encoding="utf-8") == (
        "document\tfr\tit\n1\ta\tA\n1\tb\tB\n2\tc\tC\n"
    )
    assert (tmp_path / "out.jsonl").read_text(encoding="utf-8") == (
        '{"fr": ["a", "b"], "it": ["A", "B"]}\n'
    )
    assert translator.seen == [("a", "b"), ("c",), ("a", "b")]


def test_a_table_of_columns_is_written_whole(translator: Any, tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    source, output = tmp_path / "in.parquet", tmp_path / "out.parquet"
    rows = [{"document": d, "en": s, "score": 0.5} for d, s in (("x", "a"), ("x", "b"), ("y", ""))]
    pq.write_table(pa.Table.from_pylist(rows), source)
    translate_file(translator, source, output, boundaries="blank_line")
    assert pq.read_table(output).to_pylist() == [row | {"de": row["en"].upper()} for row in rows]
    assert translator.seen == [("a", "b"), ("",)]
    names = ["in.parquet", "out.parquet", "out.parquet.json"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names


def test_a_format_that_cannot_be_written_is_refused(translator: Any, tmp_path: Path) -> None:
    source = tmp_path / "in.sgm"
    source.write_text("<doc>\n", encoding="utf-8")
    with pytest.raises(DataError, match="has the format `sgm`, in which no translation"):
        translate_file(translator, source, tmp_path / "out", boundaries="none")


def test_a_split_of_any_form_is_translated(tmp_path: Path) -> None:
    translator: Any = Shouting(DecodeConfig(target_context="gold"))
    utterances = [
        {"source": "a", "target": "x", "speaker": "agent", "utteranceID": 0},
        {"source": "b", "target": "y", "speaker": "agent", "utteranceID": 1},
    ]
    corpus = {"d1": utterances, "d2": utterances[:1]}
    (tmp_path / "test.json").write_text(json.dumps(corpus), encoding="utf-8")
    data = DataConfig(folder=tmp_path, test="test.json")
    assert count_lines(split_pieces(data, "test", with_references=False)) == (4, 2)
    translate_split(translator, data, "test", tmp_path / "out")
    assert (tmp_path / "out").read_text(encoding="utf-8") == "A\nB\n\nA\n"
    assert [r.sentences for r in translator.references if r] == [("x", "y"), ("x",)]


def test_references_are_read_beside_the_text(tmp_path: Path) -> None:
    translator: Any = Shouting(DecodeConfig(target_context="gold"))
    for name, text in (("test.en", "a\nb\n\nc\n"), ("test.de", "x\ny\n\nz\n")):
        (tmp_path / name).write_text(text, encoding="utf-8")
    translate_split(translator, DataConfig(folder=tmp_path), "test", tmp_path / "out")
    assert [r.sentences for r in translator.references if r] == [("x", "y"), ("z",)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x\ny\nz\nz\n", r"in:3 and .*ref:3 differ: only one of them separates documents"),
        ("x\ny\n", r"ref ends before line 3"),
        ("x\ny\n\nz\nz\n", "ref has more lines than"),
    ],
)
def test_references_must_have_the_lines_of_the_source(
    translator: Any, tmp_path: Path, text: str, message: str
) -> None:
    source, references = tmp_path / "in", tmp_path / "ref"
    source.write_text("a\nb\n\nc\n", encoding="utf-8")
    references.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=message):
        translate_file(
            translator,
            source,
            tmp_path / "out",
            boundaries="blank_line",
            references=references,
        )
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a\nb\xff\n", r"in:2: byte 3 is not valid UTF-8"),
        (b"a\x00\n", r"in:1: contains a NUL character"),
    ],
)
def test_invisible_trouble_is_refused_with_its_line(
    translator: Any, tmp_path: Path, content: bytes, message: str
) -> None:
    (tmp_path / "in").write_bytes(content)
    with pytest.raises(DataError, match=message):
        translate_file(translator, tmp_path / "in", tmp_path / "out", boundaries="none")
    assert translator.seen == []


def test_line_ends_and_marks_of_other_systems_are_repaired_and_counted_once(
    translator: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "in").write_bytes(b"\xef\xbb\xbfa\r\nb\r\n")
    translate_file(translator, tmp_path / "in", tmp_path / "out", boundaries="none")
    assert (tmp_path / "out").read_bytes() == b"A\nB\n"
    found = [record.getMessage() for record in caplog.records if "(" in record.getMessage()]
    assert len(found) == 2
    assert found[0].endswith("(byte_order_mark, 1)")
    assert found[1].endswith("(carriage_return, 2)")


def test_all_translations_are_written_with_their_scores(tmp_path: Path) -> None:
    translator: Any = Shouting(DecodeConfig(n_best=2))
    source, output = tmp_path / "in", tmp_path / "out"
    source.write_text("a\nb\n\nc\n", encoding="utf-8")
    translate_file(translator, source, output, boundaries="blank_line")
    assert n_best_file(output) == tmp_path / "out.nbest.jsonl"
    lines = n_best_file(output).read_text(encoding="utf-8").splitlines()
    entries = [json.loads(line) for line in lines]
    assert [(e["document"], e["sentence"]) for e in entries] == [
        ("in:1", 1),
        ("in:1", 2),
        ("in:2", 1),
    ]
    assert entries[0]["hypotheses"] == [
        {"text": "A", "score": -1.0},
        {"text": "A!", "score": -2.0},
    ]


class Killed(Exception):
    """What the engine raises in place of a kill."""


class Mortal:
    """An engine that dies at a given call."""

    name = "prefill"

    def __init__(self, engine: Any, calls: int) -> None:
        self.engine = engine
        self.calls = calls

    def search(self, requests: Sequence[Request]) -> list[list[Hypothesis]]:
        if self.calls == 0:
            raise Killed
        self.calls -= 1
        found: list[list[Hypothesis]] = self.engine.search(requests)
        return found


def test_a_broken_run_is_continued_to_the_same_bytes(
    trained_run: Path, mini_corpus: Path, tmp_path: Path
) -> None:
    decode = DecodeConfig(beam=2, open_documents=2, n_best=2)
    translator = DocumentTranslator.load(trained_run, decode=decode)
    source = tmp_path / "in"
    shutil.copy(mini_corpus / "test.en", source)
    translate_file(translator, source, tmp_path / "whole", boundaries="blank_line")
    alive = translator.engine
    output = tmp_path / "out"
    for calls in (0, 3, 5, 1, 25):
        translator.engine = Mortal(alive, calls)
        with pytest.raises(Killed):
            translate_file(translator, source, output, boundaries="blank_line")
        assert not output.exists()
    # Documents that are done can be read already, in their order.
    partial = (tmp_path / "out.partial").read_text(encoding="utf-8")
    assert partial
    assert (tmp_path / "whole").read_text(encoding="utf-8").startswith(partial)
    translator.engine = alive
    details = translate_file(translator, source, output, boundaries="blank_line")
    assert details["resumed"] is True
    for suffix in ("", ".nbest.jsonl"):
        expected = (tmp_path / f"whole{suffix}").read_bytes()
        assert (tmp_path / f"out{suffix}").read_bytes() == expected
    assert not [path for path in tmp_path.iterdir() if path.suffix in (".partial", ".journal")]


def test_a_journal_of_another_input_is_not_used(
    trained_run: Path, mini_corpus: Path, tmp_path: Path
) -> None:
    translator = DocumentTranslator.load(trained_run, decode=DecodeConfig(beam=1))
    source, output = tmp_path / "in", tmp_path / "out"
    shutil.copy(mini_corpus / "test.en", source)
    alive = translator.engine
    translator.engine = Mortal(alive, 2)
    with pytest.raises(Killed):
        translate_file(translator, source, output, boundaries="blank_line")
    shutil.copy(mini_corpus / "dev.en", source)
    translator.engine = alive
    details = translate_file(translator, source, output, boundaries="blank_line")
    assert details["resumed"] is False
    translate_file(translator, source, tmp_path / "whole", boundaries="blank_line")
    assert output.read_bytes() == (tmp_path / "whole").read_bytes()
