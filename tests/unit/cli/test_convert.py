"""`iada convert`: from any readable format to any writable one, whole or not at all."""

from itertools import pairwise
from pathlib import Path

import pytest

from iada.cli.main import main
from iada.config.data import DataConfig
from iada.data.formats.readers import FORMATS, read_split

NAMES = {
    "text": "corpus.{language}",
    "tsv": "corpus.tsv",
    "csv": "corpus.csv",
    "bars": "corpus.bars",
    "jsonl": "corpus.jsonl.gz",
    "parquet": "corpus.parquet",
    "tmx": "corpus.tmx",
    "xliff": "corpus.xlf",
}
PAIRS = [[("Hello, “Anna” & co!", "Hallo, „Anna“ & Co!"), ("a", "A")], [("b", "B")]]


def test_every_writable_format_has_a_name_here() -> None:
    assert set(NAMES) == {name for name, form in FORMATS.items() if form.write is not None}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with a corpus of two documents in plain text."""
    monkeypatch.chdir(tmp_path)
    for side, code in enumerate(("en", "de")):
        text = "\n".join("".join(f"{pair[side]}\n" for pair in document) for document in PAIRS)
        Path(f"start.{code}").write_text(text, encoding="utf-8")
    return tmp_path


def documents(name: str) -> list[list[tuple[str, str]]]:
    return [
        [*zip(d.source.sentences, d.target.sentences, strict=True)]
        for d in read_split(DataConfig(folder=Path(), train=name), "train")
    ]


# Each once as output and as input.
@pytest.mark.parametrize(("first", "second"), [*pairwise([*NAMES, "text"])])
def test_documents_survive_a_chain_of_formats(folder: Path, first: str, second: str) -> None:
    one, two = NAMES[first], NAMES[second].replace("corpus", "second")
    assert main(["convert", "start.{language}", one]) == 0
    assert main(["convert", one, two]) == 0
    assert documents(two) == PAIRS


def test_what_cannot_be_used_is_counted_or_refused(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("bad.tsv").write_text("document\ten\tde\n1\ta\tA\n1\tb\n2\tc\tC\n", encoding="utf-8")
    assert main(["convert", "bad.tsv", "strict.jsonl", "--strict"]) == 2
    assert "has 2 cells but the header has 3" in capsys.readouterr().err
    assert not Path("strict.jsonl").exists()
    assert main(["convert", "bad.tsv", "good.jsonl"]) == 0
    captured = capsys.readouterr()
    assert captured.out == "1 documents, 1 sentence pairs -> good.jsonl\n"
    assert "malformed_row" in captured.err
    assert {path.name for path in folder.iterdir()} == {
        "bad.tsv",
        "good.jsonl",
        "start.en",
        "start.de",
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["start.{language}", "start.{language}"], "is the input itself"),
        (["start.{language}", "taken.tsv"], "already exists. Give `--overwrite`"),
        (["start.{language}", "out.sgm"], "`sgm` is only read. Choose one of"),
        (["none.tsv", "out.tsv"], "none.tsv does not exist"),
        (["start.en", "out.tsv"], "has one file per side"),
    ],
)
def test_wrong_files_are_refused(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    Path("taken.tsv").write_text("mine\n", encoding="utf-8")
    assert main(["convert", *arguments]) == 2
    assert message in capsys.readouterr().err
    assert Path("taken.tsv").read_text(encoding="utf-8") == "mine\n"
    assert len([*folder.iterdir()]) == 3


def test_an_output_is_replaced_on_demand(folder: Path) -> None:
    Path("out.tsv").write_text("mine\n", encoding="utf-8")
    assert main(["convert", "start.{language}", "out.tsv", "--overwrite"]) == 0
    assert documents("out.tsv") == PAIRS
