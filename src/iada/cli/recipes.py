"""`iada recipes`: list the recipes that come with the package, or write one to edit.

A recipe is the YAML file of a run. The repository keeps them in `recipes/`; the wheel carries the
same files inside the package.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from iada.cli.parsing import parse_dataclass
from iada.errors import ConfigError, RunError, did_you_mean
from iada.storage import write_text

_PACKAGE = Path(__file__).parents[1]

EXAMPLES = (
    "iada recipes",
    "iada recipes ted/cpu --output recipe.yaml",
)


@dataclass(frozen=True, kw_only=True)
class RecipesCommand:
    """List the recipes that come with the package, print one, or write it to a file."""

    name: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="NAME")] = None
    """Recipe to print, such as `ted/cpu`; without it all of them are listed."""
    output: Path | None = None
    """File to write the recipe to instead of printing it."""


def parse(arguments: Sequence[str]) -> RecipesCommand:
    """Parse the arguments of `iada recipes`."""
    return parse_dataclass(RecipesCommand, arguments, program="iada recipes", examples=EXAMPLES)


def run(command: RecipesCommand) -> Path | None:
    """List or show recipes; return the file that was written, if any."""
    recipes = find_recipes()
    if command.name is None:
        if command.output is not None:
            raise ConfigError("`--output` needs a recipe: `iada recipes NAME --output FILE`.")
        width = max(map(len, recipes))
        for name, path in recipes.items():
            print(f"{name:{width}}  {_first_comment(path)}".rstrip())
        return None
    if command.name not in recipes:
        raise ConfigError(
            f"There is no recipe `{command.name}`. {did_you_mean(command.name, recipes)}"
        )
    text = recipes[command.name].read_text(encoding="utf-8")
    if command.output is None:
        print(text, end="")
        return None
    if command.output.exists():
        raise RunError(f"{command.output} already exists. Choose another `--output`.")
    command.output.parent.mkdir(parents=True, exist_ok=True)
    write_text(command.output, text)
    print(f"{command.output}: edit the paths, then run `iada train {command.output}`.")
    return command.output


def find_recipes() -> dict[str, Path]:
    """Return the recipes by name: the folder of the corpus and the file, without `.yaml`."""
    # The first place is that of an installed wheel, the second that of a checkout.
    for folder in (_PACKAGE / "recipes", _PACKAGE.parents[1] / "recipes"):
        if folder.is_dir():
            return {
                path.relative_to(folder).with_suffix("").as_posix(): path
                for path in sorted(folder.rglob("*.yaml"))
            }
    raise RunError("This installation carries no recipes. Install iada from its wheel.")


def _first_comment(path: Path) -> str:
    first = path.read_text(encoding="utf-8").partition("\n")[0]
    return first.removeprefix("# ") if first.startswith("# ") else ""
