"""The pictures of the documentation: real runs on the embedded corpus, seen in Chromium.

    python benchmarks/pictures.py --runs runs/pictures --images docs/images

trains two systems on the plentiful corpus (some minutes; finished runs are not repeated), looks for
test sentences whose translation the context puts right, opens `iada serve` and the report, and
takes the screenshots. Needs `iada[serve,browser,thresholds]` and Chromium on the PATH.
"""

import argparse
import io
import os
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from PIL import Image
from playwright.sync_api import Page, sync_playwright

from iada.cli import report
from iada.config.method import Method
from iada.config.run import mini_run
from iada.data.documents import ParallelDocument
from iada.data.mini import MiniConfig, write_mini_corpus
from iada.evaluation.score_runs import score_run
from iada.runs.corpus import read_split
from iada.runs.folder import RunFolder
from iada.serving.server import Limits, build_app, open_socket
from iada.serving.workbench import Workbench, load_workbench
from iada.training.train import train

CORPUS = MiniConfig(version=1, size="plentiful")
SYSTEMS: tuple[tuple[str, Method, int], ...] = (
    ("doc2doc", "doc2doc", 3),
    ("sentence", "doc2doc", 0),
)
SENTENCES = 5
"""Sentences of the document that the pictures show."""


def prepare_runs(folder: Path) -> list[Path]:
    """Train and score the systems, unless that was done."""
    corpus = write_mini_corpus(folder / "corpus", CORPUS)
    paths = []
    for name, method, context in SYSTEMS:
        config = mini_run(
            method,
            corpus=corpus,
            output=folder / name,
            version=CORPUS.version,
            size=CORPUS.size,
            context=context,
        )
        if not RunFolder(config.output).has_model():
            train(config)
        score_run(config.output)
        paths.append(config.output)
    return paths


def fixed_sentence(
    workbench: Workbench, documents: list[ParallelDocument]
) -> tuple[list[str], int]:
    """Find sentences of which context puts one right: right with it, wrong without."""
    run = next(iter(workbench.runs.values()))
    for document in documents:
        sources, references = document.source.sentences, document.target.sentences
        for start in range(len(sources) - SENTENCES + 1):
            inside = slice(start, start + SENTENCES)
            seen = list(run.translator.follow(sources[inside]))
            if tuple(seen) != references[inside]:
                continue
            alone = list(run.translator.follow(sources[inside], with_context=False))
            differs = [n for n in range(SENTENCES) if seen[n] != alone[n]]
            pronouns = [n for n in differs if " it" in f" {sources[inside][n].lower()}"]
            if pronouns and len(differs) <= 3:
                return list(sources[inside]), pronouns[-1]
    raise SystemExit("No such sentence: is the model trained?")


@contextmanager
def served(workbench: Workbench) -> Iterator[str]:
    """Serve a workbench from a thread."""
    with open_socket("127.0.0.1", 0) as bound:
        app = build_app(workbench, Limits(512 * 1024))
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        yield f"http://127.0.0.1:{bound.getsockname()[1]}/"
        server.should_exit = True
        thread.join(10)


def save(shot: bytes, path: Path) -> None:
    """Write a screenshot with few colours, which is a third of the size."""
    picture = Image.open(io.BytesIO(shot)).convert("RGB")
    picture.quantize(96).save(path, optimize=True)
    print(f"{path}: {path.stat().st_size // 1024} kB")


def translate(page: Page, address: str, lines: list[str], explained: int) -> None:
    """Translate a document, and open the context of one sentence."""
    page.goto(address)
    page.wait_for_selector("#run option", state="attached")
    page.fill("#text", "\n".join(lines))
    page.click("#go")
    page.wait_for_selector("#stop:disabled")
    page.locator(".inside summary").nth(explained).click()
    page.wait_for_selector(".explanation .chip.token")


def main() -> None:
    """Make every picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=Path, default=Path("runs/pictures"))
    parser.add_argument("--images", type=Path, default=Path("docs/images"))
    given = parser.parse_args()
    runs = prepare_runs(given.runs)
    workbench = load_workbench(runs)
    documents = read_split(RunFolder(runs[0]).config(), "test")
    lines, explained = fixed_sentence(workbench, documents)
    page_file = report.run(
        report.ReportCommand(
            folders=tuple(runs),
            output=given.runs / "report.html",
            title="Runs on the mini corpus",
            windows=1,
        )
    )
    assert page_file is not None
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with served(workbench) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=flags)
        for name, width, scheme in (
            ("serve", 1280, "light"),
            ("serve-dark", 1280, "dark"),
            ("serve-phone", 390, "light"),
        ):
            size: Any = {"width": width, "height": 900}
            colours: Any = scheme
            page = browser.new_page(viewport=size, color_scheme=colours)
            translate(page, address, lines, explained)
            save(page.screenshot(full_page=True), given.images / f"{name}.png")
            if name == "serve":
                page.locator("#edit-hint").evaluate("(one) => one.remove()")
                save(page.locator("#result").screenshot(), given.images / "context.png")
            page.close()
        page = browser.new_page(viewport={"width": 1280, "height": 1400})
        page.goto(page_file.resolve().as_uri())
        save(page.screenshot(), given.images / "report.png")
        browser.close()


if __name__ == "__main__":
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    main()
