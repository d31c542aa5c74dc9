"""Flags are YAML keys: they win over the recipe, which wins over the method."""

import contextlib
import importlib
import json
import os
import shlex
import subprocess
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
import tyro

import iada
from iada.cli.help_text import field_docs
from iada.cli.main import COMMANDS, main
from iada.cli.parsing import RunCommand, parse_dataclass, parse_run_command
from iada.config.decode import DecodeConfig
from iada.config.method import augmentation
from iada.config.run import RunConfig
from iada.errors import ConfigError, IadaError


@dataclass(frozen=True, kw_only=True)
class TranslateLike:
    """Translate documents."""

    model: tyro.conf.Positional[Path]
    """Run folder."""
    output: Path | None = None
    """Where to write."""
    dry_run: bool = False
    """Print the plan."""
    decode: DecodeConfig = field(default_factory=DecodeConfig)
    """Search."""


@dataclass(frozen=True, kw_only=True)
class TrainLike(RunCommand):
    """Train a model."""

    resume: bool = False
    """Continue."""
    dry_run: bool = False
    """Print the plan."""


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / "recipe.yaml"
    path.write_text(
        "method: iada_drop_tnorm\nseed: 5\naugment: {p_current: 0.4}\n"
        "model: {max_positions: 128}\nwindows: {max_length: 100}\n",
        encoding="utf-8",
    )
    return path


def train(*arguments: str | Path) -> TrainLike:
    return parse_run_command(TrainLike, [str(one) for one in arguments], program="iada train")


@pytest.mark.parametrize("flag", ["--dry_run", "--dry-run"])
def test_positionals_nested_flags_and_switches(flag: str) -> None:
    arguments = ["runs/a", "--decode.max_length_ratio", "2", flag]
    parsed = parse_dataclass(TranslateLike, arguments, program="iada translate")
    decode = DecodeConfig(max_length_ratio=2.0)
    assert parsed == TranslateLike(model=Path("runs/a"), dry_run=True, decode=decode)


def test_given_defaults_are_kept() -> None:
    default = TranslateLike(model=Path("runs/a"), output=Path("out.txt"))
    parsed = parse_dataclass(TranslateLike, [], program="iada translate", default=default)
    assert parsed == default


def test_a_value_that_breaks_a_rule_is_our_error() -> None:
    with pytest.raises(ConfigError, match=r"`decode\.beam` must be at least 1, but is 0"):
        parse_dataclass(TranslateLike, ["runs/a", "--decode.beam", "0"], program="iada translate")


def test_an_endless_argument_is_refused_before_anything_similar_is_looked_for() -> None:
    with pytest.raises(ConfigError, match=r"`--outputt{32}\.\.\.` has 1,000,007 characters, but"):
        parse_dataclass(TranslateLike, ["--outpu" + "t" * 1_000_000], program="iada")


def test_a_missing_positional_ends_with_exit_code_2() -> None:
    with pytest.raises(SystemExit) as stop:
        parse_dataclass(TranslateLike, [], program="iada translate")
    assert stop.value.code == 2


def test_no_arguments_give_the_default_run() -> None:
    assert train() == TrainLike(config=RunConfig())


def test_flags_win_over_the_recipe_and_the_recipe_over_the_method(recipe: Path) -> None:
    command = train(recipe, "--augment.alpha", "0.3", "--augment.p_context=0.2", "--seed", "6")
    assert command.recipe == recipe
    assert command.config.seed == 6
    assert command.config.augment == replace(
        augmentation("iada_drop_tnorm"), alpha=0.3, p_context=0.2, p_current=0.4
    )
    assert not command.resume


@pytest.mark.parametrize("method", [["--method", "word_replace"], ["--method=word_replace"]])
def test_a_method_flag_changes_the_defaults_beneath_the_recipe(
    recipe: Path, method: list[str]
) -> None:
    command = train(recipe, "--augment.alpha", "0.3", *method, "--resume", "--dry_run")
    assert (command.resume, command.dry_run) == (True, True)
    assert command.config.method == "word_replace"
    assert command.config.augment == replace(augmentation("word_replace"), p_current=0.4, alpha=0.3)


@pytest.mark.parametrize(
    "before",
    [
        ["--resume"],
        ["--no-resume"],
        ["--seed", "3"],
        ["--seed=3"],
        ["--train.compile"],
        ["--train.no_compile", "--dry-run"],
        ["--augment.weight-original", "0.5"],
    ],
)
def test_the_recipe_may_stand_anywhere(recipe: Path, before: list[str]) -> None:
    command = train(*before, recipe)
    assert command.recipe == recipe
    assert command.config.model.max_positions == 128


def test_rules_hold_for_recipe_and_flags_together(recipe: Path) -> None:
    # 128 positions come from the recipe, so a flag alone cannot ask for longer windows.
    with pytest.raises(ConfigError, match=r"`windows\.max_length` must be at most"):
        train(recipe, "--windows.max_length", "200")
    both = train(recipe, "--windows.max_length", "200", "--model.max_positions", "200")
    assert both.config.windows.max_length == 200


def test_a_missing_recipe_is_named() -> None:
    with pytest.raises(ConfigError, match=r"none\.yaml: there is no such configuration file"):
        train("none.yaml")


def test_an_unknown_method_is_refused() -> None:
    with pytest.raises(ConfigError, match="Did you mean `word_drop`"):
        train("--method", "worddrop")


def test_a_recipe_is_never_ignored(recipe: Path) -> None:
    # To the parser `--` ends the flags; looked at one by one, it could be a flag with a value.
    with pytest.raises(ConfigError, match="Give the recipe first: `iada train "):
        train("--", recipe)


def test_an_unknown_flag_is_answered_with_the_nearest_one(
    recipe: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        train(recipe, "--augment.alpa", "0.3")
    assert stop.value.code == 2
    shown = capsys.readouterr()
    assert "--augment.alpha" in shown.err
    assert shown.out == ""


def test_the_long_help_shows_the_values_of_the_recipe(
    recipe: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        train(recipe, "--help_all")
    assert stop.value.code == 0
    shown = capsys.readouterr().out
    assert "usage: iada train" in shown
    assert "--augment.p_context" in shown
    assert "(default: 5)" in shown
    assert "--config" not in shown


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_every_command_is_short_and_has_examples(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, "--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"usage: iada {command}")
    assert len(lines) <= 60
    assert max(map(len, lines)) <= 100
    assert f"  iada {command}" in "\n".join(lines) or command == "env"
    assert any(line.startswith("  --help_all") for line in lines)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_example_of_the_help_can_be_parsed(command: str) -> None:
    module = importlib.import_module(COMMANDS[command][0])
    for example in getattr(module, "EXAMPLES", ()):
        # A run or a recipe of an example does not exist, which is said later than a wrong flag.
        words = shlex.split(example.partition("|")[2] or example)
        program, name, *arguments = words[: words.index(">")] if ">" in words else words
        assert (program, name) == ("iada", command)
        with contextlib.suppress(IadaError):
            module.parse(arguments)


def test_flags_are_explained_by_the_docstrings_under_fields() -> None:
    @dataclass
    class Base:
        one: int = 1
        """First."""

    @dataclass
    class Derived(Base):
        two: int = 2
        """Second
        of two."""
        three: int = 3

    assert field_docs(Derived) == {"one": "First.", "two": "Second of two."}


def test_wrong_paths_are_refused_before_anything_slow_is_imported(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "recipe.yaml").write_text("data: {folder: none}\n", encoding="utf-8")
    prepare = ["prepare", "recipe.yaml", "--data.prepared", "p"]
    commands = [
        ["train", "recipe.yaml"],
        ["train", "none.yaml"],
        prepare,
        *([name, "run"] for name in ("translate", "evaluate", "inspect", "export")),
        ["contrast", "run", "set.json"],
        ["augment", "run", "--output", "o"],
        ["evaluate", "--hypothesis", "a", "--reference", "b"],
        ["init", "none"],
        ["convert", "none.tsv", "out.jsonl"],
    ]
    script = (
        "import sys, json\nfrom iada.cli.main import main\n"
        "codes = [main(one) for one in json.loads(sys.argv[1])]\n"
        "print(codes, sorted({'torch', 'transformers', 'matplotlib'} & {*sys.modules}))"
    )
    found = subprocess.run(
        [sys.executable, "-c", script, json.dumps(commands)],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(Path(iada.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout == f"{[2] * len(commands)} []\n", found.stderr
    assert found.stderr.count("error: ") == len(commands)


def test_a_list_takes_all_values_up_to_the_next_flag(tmp_path: Path) -> None:
    command = train("--method", "cipher", "--augment.cipher_keys", "1", "3", "5")
    assert command.recipe is None
    assert command.config.augment.cipher_keys == (1, 3, 5)
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text("method: cipher\naugment: {cipher_keys: [1, 2, 3]}\n", encoding="utf-8")
    assert train(recipe).config.augment.cipher_keys == (1, 2, 3)
    command = train(recipe, "--augment.cipher_keys", "4", "--seed", "7")
    assert command.recipe == recipe
    assert command.config.augment.cipher_keys == (4,)
    assert command.config.seed == 7
