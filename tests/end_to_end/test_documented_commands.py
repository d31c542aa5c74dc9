"""Every example of the page of commands runs as it is written."""

import re
import shlex
import shutil
from pathlib import Path

import pytest
import yaml

from iada.cli.main import COMMANDS, main

PAGE = Path(__file__).parents[2] / "docs" / "commands.md"


def examples() -> list[str]:
    blocks = re.findall(r"```bash\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    return [line for block in blocks for line in block.splitlines()]


def test_every_command_has_a_heading_and_an_example() -> None:
    headings = re.findall(r"^### iada (\w+)$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert sorted(headings) == sorted(COMMANDS)
    assert {line.split()[1] for line in examples()} == set(COMMANDS)


def test_the_examples_run_in_the_order_of_the_page(
    trained_run: Path,
    mini_corpus: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(mini_corpus, tmp_path / "corpus")
    run = shutil.copytree(trained_run, tmp_path / "runs" / "first")
    config = yaml.safe_load((run / "config.yaml").read_text(encoding="utf-8"))
    config["data"]["folder"] = "corpus"
    config["evaluate"]["resamples"] = 100
    (run / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    config |= {"output": "runs/second", "seed": 2}
    config["train"] |= {"max_updates": 2, "validate_every": 2}
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    letters = "The lamp was new.\nIt was green.\n\nThe clock was old.\n"
    (tmp_path / "letters.en").write_text(letters, encoding="utf-8")
    for line in examples():
        program, *arguments = shlex.split(line, comments=True)
        assert program == "iada"
        assert main(arguments) == 0, f"{line}\n{capsys.readouterr().err}"
    translated = (tmp_path / "letters.de").read_text(encoding="utf-8").split("\n")
    assert [bool(sentence) for sentence in translated] == [True, True, False, True, False]
    assert (tmp_path / "report.html").is_file()
    assert (tmp_path / "runs" / "second" / "model").is_dir()
