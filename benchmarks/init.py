"""Does `iada init` keep its promise? Recipes for real corpora: estimated and true time, and chrF.

    python benchmarks/init.py [--corpora bible gnome_help] [--minutes 2] [--untuned]

For each corpus of `../shared/data` a recipe is written and trained as it is, in a process of its
own like a user's, and the estimate is compared with the clock. With `--untuned` the default model,
the paper's, gets the same time on the same data; both then translate the same few test sentences,
and chrF is compared. A run that did not come to its first checkpoint has no model and no chrF; the
updates that it made are counted all the same. Needs an idle machine, and for each corpus about
twice the minutes and one more.
"""

import json
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sacrebleu

from iada.cli.parsing import parse_dataclass
from iada.config.decode import DecodeConfig
from iada.config.run import load_run_config
from iada.data.documents import Document
from iada.data.formats.readers import read_split
from iada.decoding.translator import DocumentTranslator
from iada.errors import IadaError
from iada.runs.folder import RunFolder
from iada.storage import write_json

SHARED = Path(__file__).parents[1] / "../shared/data"
RESULTS = Path(__file__).parent / "results" / "init.json"


@dataclass(frozen=True, kw_only=True)
class Options:
    """What to measure."""

    corpora: tuple[str, ...] = ("bible", "gnome_help", "bcontrast", "dialogue")
    """Folders of `../shared/data`."""
    minutes: float = 2.0
    """Time of each recipe."""
    untuned: bool = False
    """Also train the default model for the time that the recipe took."""
    sentences: int = 60
    """Test sentences to translate with each model."""
    output: Path = RESULTS
    """File to write."""


def main() -> None:
    options = parse_dataclass(Options, sys.argv[1:], program="python benchmarks/init.py")
    found: dict[str, dict[str, Any]] = {}
    for name in options.corpora:
        with tempfile.TemporaryDirectory(prefix="iada-init-") as folder:
            found[name] = measure(SHARED / name, Path(folder), options)
        # What is known stays if the next corpus fails.
        write_json(options.output, {"minutes": options.minutes, "corpora": found})
        print(f"{name}: {json.dumps(found[name])}", file=sys.stderr, flush=True)
    print(table(found))


def table(found: dict[str, dict[str, Any]]) -> str:
    """Return the results as a Markdown table."""
    columns = {
        "estimate, s": "estimated_seconds",
        "true, s": "seconds",
        "ratio": "estimate_over_truth",
        "updates": "updates",
        "chrF": "chrf",
        "updates, default": "updates_untuned",
        "chrF, default": "chrf_untuned",
    }
    lines = [f"| corpus | {' | '.join(columns)} |", f"|---|{'---:|' * len(columns)}"]
    for name, result in found.items():
        values = (result.get(key) for key in columns.values())
        lines.append(f"| {name} | {' | '.join('-' if v is None else str(v) for v in values)} |")
    return "\n".join(lines)


def measure(corpus: Path, folder: Path, options: Options) -> dict[str, Any]:
    recipe, run = folder / "recipe.yaml", folder / "run"
    arguments = ["init", corpus, "--output", recipe, "--run", run, "--minutes", options.minutes]
    found = re.search(r"will take about .*? \((\d+) s\)", iada(*arguments))
    assert found is not None
    estimate = float(found[1])
    begun = time.perf_counter()
    # Early stopping may end a run before its estimate, which is that of the last update.
    iada("train", recipe, "--train.patience", 0)
    seconds = time.perf_counter() - begun
    result: dict[str, Any] = {
        "estimated_seconds": estimate,
        "seconds": round(seconds, 1),
        "estimate_over_truth": round(estimate / seconds, 3),
        "updates": load_run_config(recipe).train.max_updates,
    }
    if options.untuned:
        untuned = folder / "untuned"
        train_untuned(corpus, untuned, recipe, seconds)
        result["chrf"] = chrf(run, options.sentences)
        result["updates_untuned"] = updates_made(untuned)
        result["chrf_untuned"] = chrf(untuned, options.sentences)
    return result


def train_untuned(corpus: Path, run: Path, recipe: Path, seconds: float) -> None:
    """Train the defaults on the same data, and stop them when the time is over."""
    data = load_run_config(recipe).data
    flags = ["--data.folder", corpus, "--data.boundaries", data.boundaries, "--output", run]
    # After every update: few are made, and without a checkpoint there is nothing to compare with.
    flags += ["--windows.on_long", "leave_out", "--train.validate_every", 1]
    flags += ["--train.log_every", 1]
    command = [sys.executable, "-m", "iada", "train", *map(str, flags)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.terminate()
        process.wait()


def updates_made(run: Path) -> int:
    """Return the last update that a run has logged."""
    metrics = RunFolder(run).metrics_file
    lines = metrics.read_text(encoding="utf-8").splitlines() if metrics.is_file() else []
    return int(json.loads(lines[-1])["update"]) if lines else 0


def chrf(run: Path, sentences: int) -> float | None:
    """Translate the first test sentences of a run and score them; None without a model."""
    try:
        translator = DocumentTranslator.load(run, decode=DecodeConfig(beam=1))
    except IadaError:
        return None
    documents = read_split(RunFolder(run).config().data, "test")
    hypotheses: list[str] = []
    references: list[str] = []
    for document in documents:
        if len(references) >= sentences:
            break
        cut = Document(document.name, document.source.sentences[:20])
        hypotheses += translator.translate([cut])[0].sentences
        references += document.target.sentences[:20]
    return round(float(sacrebleu.corpus_chrf(hypotheses, [references]).score), 2)


def iada(*arguments: object) -> str:
    command = [sys.executable, "-m", "iada", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    main()
