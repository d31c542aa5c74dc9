"""The documentation speaks of things that exist and computes what the code computes."""

import dataclasses
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_type_hints

import numpy as np
import pytest
import torch
import yaml

import iada
from iada.config.base import from_mapping
from iada.config.data import WindowConfig
from iada.config.method import METHOD_NAMES
from iada.config.run import RunConfig
from iada.data.mini import MiniConfig
from iada.data.prepared.store import Side, TokenStore
from iada.data.tokens.subwords import SPECIAL_TOKENS, SpecialIds
from iada.data.windows.batch import IGNORED, Role
from iada.data.windows.windows import Windows
from iada.runs.folder import MAY_CHANGE

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(
    path.relative_to(DOCS).as_posix() for path in (*DOCS.glob("*.md"), *DOCS.glob("commands/*.md"))
)
SECTIONS = {
    name: {field.name for field in dataclasses.fields(hint)}
    for name, hint in get_type_hints(RunConfig).items()
    if dataclasses.is_dataclass(hint)
}
# They look like keys.
FILE_NAMES = {"train.en", "train.de", "model.safetensors"}
# The lookbehinds leave out paths, modules and pages: `corpus/train.en`, `iada.data.documents`,
# `synthetic-data.md`. Flags such as `--data.folder` are keys.
KEY = re.compile(rf"(?<![\w./])(?<!\w-)({'|'.join(SECTIONS)})\.([a-z_][a-z_0-9]*)")


def read(page: str) -> str:
    return (DOCS / page).read_text(encoding="utf-8")


def section(page: str, heading: str) -> str:
    """The text below a heading, up to the next heading of any level."""
    _, _, rest = read(page).partition(f"# {heading}\n")
    assert rest, f"{page} has no heading {heading!r}"
    return re.split(r"^#+ ", rest, maxsplit=1, flags=re.MULTILINE)[0]


def tables(text: str) -> list[list[list[str]]]:
    """The cells of every table, heading and rule left out."""
    found = re.findall(r"(?:^\|.*\n)+", text, flags=re.MULTILINE)
    return [[_cells(line) for line in table.splitlines()[2:]] for table in found]


def _cells(line: str) -> list[str]:
    return [cell.strip().strip("`") for cell in line.strip("|").split("|")]


def resolve(path: str) -> object:
    """Import as much of a dotted path as is a module; the rest are attributes."""
    parts = path.split(".")
    for stop in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:stop]))
        except ModuleNotFoundError:
            continue
        for name in parts[stop:]:
            found = getattr(found, name)
        return found
    raise ModuleNotFoundError(path)


@pytest.mark.parametrize("page", PAGES)
def test_every_key_that_is_named_exists(page: str) -> None:
    named = {match.group(): match.groups() for match in KEY.finditer(read(page))}
    unknown = [
        text
        for text, (name, key) in named.items()
        if text not in FILE_NAMES and key not in SECTIONS[name]
    ]
    assert not unknown


def test_the_decisions_name_most_keys() -> None:
    named = {match.group() for match in KEY.finditer(read("decisions.md"))}
    # A misread pattern would find nothing and pass.
    assert len(named) > 30
    every = {f"augment.{key}" for key in SECTIONS["augment"]}
    assert every - named == {"augment.p_context", "augment.p_current", "augment.alpha"}


@pytest.mark.parametrize("page", PAGES)
def test_every_recipe_that_is_shown_is_valid(page: str) -> None:
    for block in re.findall(r"```yaml\n(.*?)```", read(page), flags=re.DOTALL):
        config = from_mapping(RunConfig, yaml.safe_load(block), where=page)
        assert config != RunConfig()


@pytest.mark.parametrize("page", ["architecture.md", "method.md", "scaling.md"])
def test_every_path_into_the_package_can_be_imported(page: str) -> None:
    paths = set(re.findall(r"`(iada\.[\w.]+)`", read(page)))
    assert paths
    missing = []
    for path in sorted(paths):
        try:
            resolve(path)
        except (AttributeError, ModuleNotFoundError):
            missing.append(path)
    assert not missing


def test_every_public_name_is_in_the_reference() -> None:
    shown = set(re.findall(r"^::: ([\w.]+)$", read("api.md"), flags=re.MULTILINE))
    public = {getattr(iada, name) for name in iada.__all__ if name != "__version__"}
    assert public <= {resolve(path) for path in shown}


def test_the_example_of_the_reference_runs() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", read("api.md"), flags=re.DOTALL)
    names: dict[str, torch.Tensor] = {}
    exec(code, names)
    assert names["perturbed"].shape == names["ids"].shape


def test_every_method_is_explained() -> None:
    text = section("index.md", "Methods")
    assert [name for name in METHOD_NAMES if f"`{name}`" not in text] == []


def test_every_equation_has_its_number() -> None:
    numbers = re.findall(r"^\((\d+)\)  ", read("method.md"), flags=re.MULTILINE)
    assert [int(number) for number in numbers] == list(range(1, 15))


def test_the_table_of_alpha_is_what_the_code_computes() -> None:
    ((*rows,),) = tables(section("method.md", "What to expect of α"))
    z = torch.tensor([[-3.0, -1.0, 0.0, 1.0, 3.0]])
    roles = torch.full(z.shape, Role.CURRENT)
    assert len(rows) == 3
    for name, *shown in rows:
        alpha = float(name.rpartition("= ")[2])
        p = iada.replacement_probability(alpha * z, roles, p_context=0.1, p_current=0.1)
        assert shown == [f"{value:.3f}" for value in p[0].tolist()]


def test_all_decisions_are_there_in_order() -> None:
    (rows,) = tables(section("decisions.md", "What the paper leaves open"))
    assert [int(row[0]) for row in rows] == list(range(1, 34))
    assert all(len(row) == 5 and all(row) for row in rows)


def test_what_a_resumed_run_may_change_is_listed() -> None:
    text = section("data-formats.md", "Run folder")
    assert [key for key in MAY_CHANGE if f"`{key.removesuffix('.')}`" not in text] == []


def test_the_sizes_of_the_mini_corpus_are_the_defaults() -> None:
    text = section("data-formats.md", "The mini corpus")
    config = MiniConfig()
    counts = config.counts()
    sizes = [counts[f"{split}_documents"] for split in ("train", "dev", "test")]
    assert "{}, {} and {} documents by default".format(*sizes) in text
    assert f"{config.contrastive_per_cell} for each of er, sie, es" in text


def test_the_ids_of_the_special_tokens_are_as_told() -> None:
    text = section("data-formats.md", "Subwords").replace("\n", " ")
    assert ", ".join(f"`{token}` {i}" for i, token in enumerate(SPECIAL_TOKENS)) in text


def test_the_worked_window_is_what_the_code_cuts() -> None:
    document, source, target = tables(section("data-formats.md", "A worked window"))
    pieces = {piece for _, *sides in document for side in sides for piece in side.split()}
    ids = {token: i for i, token in enumerate((*SPECIAL_TOKENS, *sorted(pieces)))}
    tokens = dict(map(reversed, ids.items()))
    special = SpecialIds(*(ids[token] for token in SPECIAL_TOKENS))
    sides = [
        Side.of([[ids[piece] for piece in row[column].split()] for row in document], special.sep)
        for column in (1, 2)
    ]
    store = TokenStore(
        source=sides[0],
        target=sides[1],
        document_starts=np.array([0, len(document)]),
        document_names=("worked",),
        special=special,
    )
    window = Windows(store, WindowConfig(context=3, loss_on="current"))[0, len(document) - 1]

    def names(values: "np.typing.NDArray[np.integer]") -> Iterator[str]:
        return (tokens[int(value)] for value in values)

    def roles(values: "np.typing.NDArray[np.integer]") -> Iterator[str]:
        return (Role(value).name.lower() for value in values)

    positions = map(str, range(len(window.source_ids)))
    columns = (positions, names(window.source_ids), roles(window.source_roles))
    assert source == [list(row) for row in zip(*columns, strict=True)]

    # The table shows the labels outside the loss too: they are the next decoder inputs.
    unmasked = [*window.target_ids[1:], special.eos]
    in_loss = window.labels != IGNORED
    assert window.labels[in_loss].tolist() == np.array(unmasked)[in_loss].tolist()
    columns = (
        map(str, range(len(window.target_ids))),
        names(window.target_ids),
        roles(window.target_roles),
        names(np.array(unmasked)),
        ("yes" if counts else "no" for counts in in_loss),
    )
    assert target == [list(row) for row in zip(*columns, strict=True)]
    assert in_loss.sum() == len(document[-1][2].split()) + 1


def test_every_ask_has_its_answer_and_every_test_it_names_exists() -> None:
    text = read("user-asks.md")
    rows = [row for table in tables(text) for row in table]
    assert [int(row[0]) for row in rows] == list(range(1, 41))
    named = set(re.findall(r"`(test_\w+)`", text))
    assert len(named) > 30
    root = DOCS.parent / "tests"
    written = "".join(path.read_text(encoding="utf-8") for path in root.rglob("test_*.py"))
    assert sorted(name for name in named if f"def {name}(" not in written) == []


def test_the_three_paths_and_every_page_are_in_the_navigation() -> None:
    navigation = (DOCS.parent / "mkdocs.yml").read_text(encoding="utf-8")
    assert [page for page in PAGES if f" {page}\n" not in navigation] == []
    for path in ("I have documents to translate", "I train models", "I reproduce the paper"):
        assert path in navigation
        assert section("quick-start.md", path)
