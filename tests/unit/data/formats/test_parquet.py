"""Parquet and Arrow files, as Hugging Face datasets are stored."""

import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from iada.config.data import DataConfig
from iada.data.formats.file_format import CorpusFiles
from iada.data.formats.parquet import assemble_parquet
from iada.data.formats.readers import file_pieces, read_split
from iada.decoding.files import translations_name
from iada.errors import DataError

PAIRS = [{"translation": {"en": "a", "de": "A"}}, {"translation": {"en": "b", "de": "B"}}]
Write = Callable[[list[dict[str, Any]]], DataConfig]


@pytest.fixture(params=["parquet", "arrow"])
def write(request: pytest.FixtureRequest, tmp_path: Path) -> Write:
    def to_file(rows: list[dict[str, Any]]) -> DataConfig:
        path = tmp_path / f"train.{request.param}"
        table = pa.Table.from_pylist(rows)
        if request.param == "parquet":
            pq.write_table(table, path)
        else:
            with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as out:
                out.write_table(table)
        return DataConfig(folder=tmp_path, train=path.name, boundaries="none")

    return to_file


def sentences(data: DataConfig) -> list[list[tuple[str, str]]]:
    return [
        [*zip(d.source.sentences, d.target.sentences, strict=True)]
        for d in read_split(data, "train")
    ]


def test_translation_objects_are_sentence_pairs(write: Write) -> None:
    assert sentences(write(PAIRS)) == [[("a", "A"), ("b", "B")]]


def test_a_column_tells_documents_apart(write: Write) -> None:
    rows = [
        {"document": d, "en": s, "de": s.upper()} for d, s in (("x", "a"), ("x", "b"), ("y", "c"))
    ]
    assert sentences(write(rows)) == [[("a", "A"), ("b", "B")], [("c", "C")]]


def test_columns_have_any_names(write: Write) -> None:
    # Those of ParaDocs.
    rows = [{"src": "a", "tgt": "A", "src_docid": "1"}, {"src": "b", "tgt": "B", "src_docid": "2"}]
    names = {"source_column": "src", "target_column": "tgt", "document_column": "src_docid"}
    data = write(rows)
    data = DataConfig(folder=data.folder, train=data.train, **names)
    assert sentences(data) == [[("a", "A")], [("b", "B")]]


def test_documents_of_lists_are_whole(write: Write) -> None:
    assert sentences(write([{"en": ["a", "b"], "de": ["A", "B"]}])) == [[("a", "A"), ("b", "B")]]


def test_a_side_that_is_missing_is_refused(write: Write) -> None:
    with pytest.raises(DataError, match="a sentence is not text"):
        sentences(write([*PAIRS, {"translation": {"en": "c", "de": None}}]))


def test_what_is_no_table_is_refused(tmp_path: Path) -> None:
    data = DataConfig(folder=tmp_path, train="train.parquet")
    with pytest.raises(DataError, match="does not exist"):
        sentences(data)
    (tmp_path / "train.parquet").write_bytes(b"no table at all")
    with pytest.raises(DataError, match=r"train\.parquet cannot be read as Parquet or Arrow"):
        sentences(data)


def test_a_missing_library_is_named(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    data = write(PAIRS)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(DataError, match=r"pip install 'iada\[formats\]'"):
        sentences(data)


def translate(path: Path, **settings: Any) -> list[dict[str, Any]]:
    """Fill a file with upper-case "translations" and read it back."""
    files = CorpusFiles(path, **settings)
    lines = path.with_name("lines")
    with lines.open("w", encoding="utf-8") as text:
        for piece in file_pieces("parquet", files)():
            assert piece.document is not None
            loud = [sentence.upper() for sentence in piece.document.sentences]
            text.writelines(f"{line}\n" for line in piece.render(loud))
    output = path.with_name(f"out{path.suffix}")
    assemble_parquet(files, lines, output)
    if path.suffix == ".parquet":
        return pq.read_table(output).to_pylist()
    with pa.ipc.open_stream(output) as stream:
        return stream.read_all().to_pylist()


@pytest.mark.parametrize(
    ("row", "filled"),
    [
        ({"en": "a"}, {"de": "A"}),
        ({"en": "a", "de": "old"}, {"de": "A"}),
        (
            {"translation": {"en": "a", "note": 1}},
            {"translation": {"en": "a", "note": 1, "de": "A"}},
        ),
        ({"translation": {"en": "a", "de": "x"}}, {"translation": {"en": "a", "de": "A"}}),
        ({"en": ["a", "b"]}, {"de": ["A", "B"]}),
    ],
)
def test_a_translated_file_has_its_rows_and_one_column_more(
    write: Write, row: dict[str, Any], filled: dict[str, Any]
) -> None:
    now = datetime(2026, 1, 2)
    rows = [{"document": "x", "time": now, "raw": b"\xff", **row} for _ in range(2500)]
    data = write(rows)
    found = translate(data.folder / data.train)
    assert found == [one | filled for one in rows]


def test_a_test_split_is_translated_into_text(write: Write) -> None:
    data = write(PAIRS)
    assert translations_name(replace(data, test=data.train)) == "train.de"
