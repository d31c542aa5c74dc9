"""The examples of the page on extending run as they stand, and leave the tables as they were."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from iada.config.model import ARCHITECTURES
from iada.data.formats.readers import FORMATS
from iada.data.tokens.subwords import Subwords
from iada.data.windows.batch import Batch
from iada.decoding.engines import ENGINES
from iada.evaluation.metrics import METRICS
from iada.experiments.definitions import EXPERIMENTS
from iada.method.importance import MEASURES
from iada.method.perturbation import REPLACEMENTS
from iada.models.build import MODELS

PAGE = Path(__file__).parents[2] / "docs" / "extending.md"
TABLES: dict[str, Any] = {
    "MEASURES": MEASURES,
    "REPLACEMENTS": REPLACEMENTS,
    "METRICS": METRICS,
    "FORMATS": FORMATS,
    "ENGINES": ENGINES,
    "EXPERIMENTS": EXPERIMENTS,
    "MODELS": MODELS,
    "ARCHITECTURES": ARCHITECTURES,
}


@pytest.fixture
def tables() -> Iterator[dict[str, Any]]:
    """All tables; what an example adds is taken out again."""
    before = {name: dict(table) for name, table in TABLES.items()}
    yield TABLES
    for name, table in TABLES.items():
        table.clear()
        table.update(before[name])


def test_every_example_adds_its_thing_by_one_line_in_one_table(
    tables: dict[str, Any],
    tiny_model: Callable[..., Any],
    batch: Batch,
    subwords: Subwords,
    trained_run: Path,
    tmp_path: Path,
) -> None:
    sizes = {name: len(table) for name, table in tables.items()}
    text = PAGE.read_text(encoding="utf-8")
    given = {"model": tiny_model(), "batch": batch, "special": subwords.special}
    scope: dict[str, Any] = {"folder": tmp_path, "run": trained_run, **given}
    for example in re.finditer(r"```python\n(.*?)```", text, re.DOTALL):
        # Blank lines before it, so that a traceback shows the line of the page.
        line = text.count("\n", 0, example.start(1))
        exec(compile("\n" * line + example[1], str(PAGE), "exec"), scope)
    grown = {name: len(table) - sizes[name] for name, table in tables.items()}
    assert grown == dict.fromkeys(tables, 1)
