"""Files line for line: as many lines out as in, and what parts documents stays as it is."""

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from iada.config.data import Boundaries
from iada.config.decode import DecodeConfig
from iada.data.documents import Document
from iada.decoding.files import details_file, translate_file
from iada.errors import DataError


class Shouting:
    """Translate to upper case, and remember the documents."""

    engine = SimpleNamespace(name="shouting")
    decode = DecodeConfig(beam=2)

    def __init__(self) -> None:
        self.seen: list[tuple[str, ...]] = []

    def translate(self, documents: Sequence[Document]) -> list[Document]:
        self.seen += [document.sentences for document in documents]
        return [Document(d.name, tuple(s.upper() for s in d.sentences)) for d in documents]


@pytest.fixture
def translator() -> Any:
    return Shouting()


@pytest.mark.parametrize(
    ("boundaries", "text", "translated", "documents"),
    [
        ("blank_line", "a\nb\n\nc\n", "A\nB\n\nC\n", [("a", "b"), ("c",)]),
        ("blank_line", "a\n\n \n\nb", "A\n\n \n\nB\n", [("a",), (), (), ("b",)]),
        ("blank_line", "\n\na\n\n\n", "\n\nA\n\n\n", [(), (), ("a",), ()]),
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
    if not any(line.strip() for line in lines):
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
    assert {key: value for key, value in details.items() if key != "seconds"} == {
        "engine": "shouting",
        "beam": 2,
        "length_penalty": 1.0,
        "documents": 2,
        "sentences": 3,
    }
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out.de", "out.de.json"]


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
