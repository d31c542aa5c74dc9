"""Every command has a page; its examples run as they are written, and its flags exist."""

import re
import shlex
import shutil
from pathlib import Path

import pytest
import yaml

from iada.cli.main import COMMANDS, main

DOCS = Path(__file__).parents[2] / "docs"


def pages() -> dict[str, str]:
    """The text of the page of each command, in the order of the overview."""
    overview = (DOCS / "commands.md").read_text(encoding="utf-8")
    names = re.findall(r"^\| \[`iada (\w+)`\]\(commands/\1\.md\)", overview, flags=re.MULTILINE)
    return {name: (DOCS / f"commands/{name}.md").read_text(encoding="utf-8") for name in names}


def examples(page: str) -> list[str]:
    blocks = re.findall(r"```bash\n(.*?)```", page, flags=re.DOTALL)
    return [line for block in blocks for line in block.splitlines()]


def test_every_command_has_a_page_with_an_example_of_its_own() -> None:
    found = pages()
    assert sorted(found) == sorted(COMMANDS)
    assert sorted(path.stem for path in (DOCS / "commands").iterdir()) == sorted(COMMANDS)
    navigation = (DOCS.parent / "mkdocs.yml").read_text(encoding="utf-8")
    for name, page in found.items():
        assert page.startswith(f"# iada {name}\n")
        assert {line.split()[1] for line in examples(page)} == {name}
        assert f"- {name}: commands/{name}.md\n" in navigation


@pytest.mark.parametrize("name", COMMANDS)
def test_every_flag_of_a_page_is_one_of_its_command(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    table = pages()[name].partition("## Main flags")[2].partition("\n## ")[0]
    flags = re.findall(r"(--[a-z_.]+)", "\n".join(re.findall(r"^\| `(.*?)` \|", table, flags=re.M)))
    assert flags
    assert main([name, "--help_all"]) == 0
    known = set(re.findall(r"--[a-z_.]+", capsys.readouterr().out))
    assert set(flags) <= known


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
    (tmp_path / "terms.tsv").write_text("lamp\tLampe\n", encoding="utf-8")
    for line in (line for page in pages().values() for line in examples(page)):
        program, *arguments = shlex.split(line, comments=True)
        assert program == "iada"
        assert main(arguments) == 0, f"{line}\n{capsys.readouterr().err}"
    translated = (tmp_path / "letters.de").read_text(encoding="utf-8").split("\n")
    assert [bool(sentence) for sentence in translated] == [True, True, False, True, False]
    assert (tmp_path / "ensemble.de").read_text(encoding="utf-8").count("\n") == 4
    assert (tmp_path / "report.html").is_file()
    assert (tmp_path / "runs" / "second" / "model").is_dir()
