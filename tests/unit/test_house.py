"""The house keeps its size: the table in the documentation is what the package measures."""

import re
import statistics
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import iada
from iada.config.run import load_run_config
from iada.data.documents import Document
from iada.decoding.translator import DocumentTranslator
from iada.models.build import build_model
from iada.runs.corpus import load_corpus
from iada.runs.folder import RunFolder
from iada.training.train import make_trainer

PACKAGE = Path(iada.__file__).parent
PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"
MODULES = sorted(PACKAGE.rglob("*.py"))


def documented() -> dict[str, int]:
    """The numbers of the table "Size"."""
    text = PAGE.read_text(encoding="utf-8").partition("## Size\n")[2].partition("\n## ")[0]
    return {name: int(value) for name, value in re.findall(r"^\| (.+?) \| (\d+) \|$", text, re.M)}


@contextmanager
def files_passed() -> Iterator[set[str]]:
    """Collect the files of the package in which a function is called."""
    found: set[str] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        path = frame.f_code.co_filename
        if event == "call" and path.startswith(str(PACKAGE)):
            found.add(path)

    sys.setprofile(note)
    try:
        yield found
    finally:
        sys.setprofile(None)


def test_modules_are_as_many_and_as_long_as_the_page_says() -> None:
    page = documented()
    lines = [len(path.read_text(encoding="utf-8").splitlines()) for path in MODULES]
    assert len(MODULES) == page["modules"]
    # The page need not follow every edited line.
    assert abs(statistics.median(lines) - page["median lines of a module"]) <= 10
    assert abs(max(lines) - page["largest module, lines"]) <= 20
    assert max(lines) <= 450


def test_rooms_are_as_wide_as_the_page_says() -> None:
    rooms = {path.parent for path in MODULES} - {PACKAGE, PACKAGE / "cli"}
    widths = [len([e for e in room.iterdir() if not e.name.startswith("__")]) for room in rooms]
    assert max(widths) == documented()["widest room, entries"] <= 14


def test_a_batch_passes_few_files(
    write_toy_recipe: Callable[[int, int], Path], tmp_path: Path
) -> None:
    config = load_run_config(write_toy_recipe(1, 1), method="iada_replace_gnorm")
    corpus = load_corpus(config)
    special = corpus.subwords.special
    model = build_model(config.model, vocabulary_size=len(corpus.subwords), special=special)
    trainer = make_trainer(config, corpus, model, RunFolder(tmp_path / "run"))
    with files_passed() as files:
        trainer.train()
    name = "files that one batch passes, from the windows to the update"
    assert len(files) == documented()[name] <= 30


def test_a_document_passes_few_files(trained_run: Path) -> None:
    with files_passed() as files:
        translator = DocumentTranslator.load(trained_run)
        translator.translate([Document("letter", ("The lamp is new.", "It is bright."))])
    name = "files that one document passes, from text to translation"
    assert len(files) == documented()[name] <= 30
