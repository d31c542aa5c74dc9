"""A newcomer's way: the documented lines, copied and pasted, from sentence pairs to a translation.

And the way out again: an exported model translates documents without this package.
"""

import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

from iada.cli.main import main
from iada.config.data import DataConfig
from iada.data.formats.readers import read_split

DOCS = Path(__file__).parents[2] / "docs"


def blocks(page: str, heading: str, language: str) -> list[str]:
    """The code blocks of a section of the documentation."""
    text = (DOCS / page).read_text(encoding="utf-8").partition(f"{heading}\n")[2]
    section = re.split(r"^#+ ", text, maxsplit=1, flags=re.MULTILINE)[0]
    return re.findall(rf"```{language}\n(.*?)```", section, flags=re.DOTALL)


def test_the_lines_of_a_first_run_end_in_a_translated_text(
    mini_corpus: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [
        f"{number}\t{source}\t{target}"
        for number, document in enumerate(read_split(DataConfig(folder=mini_corpus), "train"))
        for source, target in zip(document.source.sentences, document.target.sentences, strict=True)
    ]
    Path("letters.tsv").write_text("document\ten\tde\n" + "\n".join(rows[:200]), encoding="utf-8")
    letter = "Hello, Felix! My lamp broke. I liked it.\n\nWhere is it now?\n"
    Path("letter.txt").write_text(letter, encoding="utf-8")
    (commands,) = blocks("data-formats.md", "### A first run", "bash")
    # The time is the only thing that a test cannot spend.
    for line in commands.replace("--minutes 10", "--minutes 0.02").strip().splitlines():
        program, *arguments = shlex.split(line)
        assert program == "iada"
        assert main(arguments) == 0, line
    said = capsys.readouterr().out
    assert "200 sentence pairs -> corpus/train.de, corpus/train.en" in said
    assert "time (one process)" in said
    translated = Path("brief.txt").read_text(encoding="utf-8").split("\n")
    assert [bool(line.strip()) for line in translated][1::2] == [False, False]
    assert len(translated) == 4


def test_an_exported_model_translates_without_this_package(
    trained_run: Path, mini_corpus: Path, tmp_path: Path
) -> None:
    run = shutil.copytree(trained_run, tmp_path / "run")
    assert main(["export", str(run), "--windows", "5", "--allow"]) == 0
    output = tmp_path / "out.de"
    source = tmp_path / "in.en"
    sentences = read_split(DataConfig(folder=mini_corpus), "test")[0].source.sentences[:6]
    source.write_text("\n".join((*sentences[:3], "", *sentences[3:])) + "\n", encoding="utf-8")
    flags = ["--engine", "ctranslate2", "--beam", "1", "--boundaries", "none"]
    assert (
        main(["translate", str(run), "--input", str(source), "--output", str(output), *flags]) == 0
    )
    (snippet,) = blocks("decoding.md", "## Without this package", "python")
    names: dict[str, Any] = {}
    exec(snippet.replace("runs/news/exported", str(run / "exported")), names)
    lines = source.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    found = names["translate_document"](lines, beam=1)
    assert found == output.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    assert len(found) == 7
    assert found[3] == ""
