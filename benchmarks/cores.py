"""Translation and scoring on one core and on several: threads inside, or processes beside.

    python benchmarks/cores.py [--cores 2] [--documents 32] [--windows 400]
    python benchmarks/cores.py --parts "contrastive set" --run RUN

A Transformer (base) with random weights, the requests of `benchmarks/decoding.py` (TED's test
talks, beam 5, three context sentences, forced lengths), the engine `prefill` in float32 and int8,
and the scorer of contrastive sets and CXMI on windows of the same talks. Each is timed by the clock
with one thread, with a thread for each core, and with a process of one thread for each core, as
`iada translate` starts them; loading and starting are not counted. The three take turns, and the
best of the repetitions counts. Needs as many free cores: other work on the machine counts against
several.

`contrastive set` takes a trained model and does what `iada contrast` does with all items of a set:
encoding, windows, scores and verdicts. Parts of an earlier call that this one does not measure are
kept.
"""

import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import torch
from decoding import CONTEXT, Subject, load_subject, requests
from decoding import Options as Decoding
from measuring import RESULTS, save, table

from iada.cli.parsing import parse_dataclass
from iada.config.decode import DecodeConfig
from iada.data.formats.contrapro import read_contrastive
from iada.data.formats.readers import read_parallel
from iada.data.prepared.store import TokenStore
from iada.data.windows.windows import Windows
from iada.decoding.engines.interface import batches
from iada.decoding.engines.prefill.engine import PrefillEngine
from iada.decoding.shards import Processes, helped
from iada.decoding.translator import DocumentTranslator, token_log_probabilities
from iada.evaluation.contrastive import contrastive_accuracy
from iada.models.observation import Observer

Work = Literal["prefill float32", "prefill int8", "scoring", "contrastive set"]
WORK: tuple[Work, ...] = ("prefill float32", "prefill int8", "scoring")


@dataclass(frozen=True, kw_only=True)
class Options:
    """What to measure."""

    corpus: Path = Path("../shared/data/ted")
    """Folder with train and test files, documents parted by blank lines."""
    cores: int = 2
    """Cores to use."""
    documents: int = 32
    """Documents that are translated side by side, two sentences of each."""
    windows: int = 400
    """Windows to score."""
    repetitions: int = 2
    """Times that everything is measured."""
    parts: tuple[Work, ...] = WORK
    """What to measure."""
    run: Path | None = None
    """Run folder of the model for a contrastive set."""
    set: Path = Path("../shared/data/contrapro/contrapro.jsonl")
    """Contrastive set."""
    output: Path = RESULTS
    """Folder of the numbers."""


def main(options: Options) -> None:
    if not (options.corpus / "test.en").is_file():
        print(f"{options.corpus} holds no test.en: nothing to measure.")
        return
    if "contrastive set" in options.parts and options.run is None:
        raise SystemExit("A contrastive set needs a trained model: give `--run RUN`.")
    found: dict[str, dict[str, float]] = {}
    for part in options.parts:
        ways: dict[str, Callable[[], float]] = {
            "one thread": partial(alone, options, part, 1),
            "threads": partial(alone, options, part, options.cores),
            "processes": partial(together, options, part),
        }
        best = dict.fromkeys(ways, float("inf"))
        for _ in range(options.repetitions):
            for name, way in ways.items():
                best[name] = min(best[name], way())
        items = count_items(options, part)
        found[part] = {name: items / seconds for name, seconds in best.items()}
        print(part, {name: round(rate, 2) for name, rate in found[part].items()}, flush=True)
    report = {"cores": options.cores, "documents": options.documents, "windows": options.windows}
    save("cores", {**report, "items_per_second": earlier(options) | found}, options.output)
    rows = [
        (
            part,
            *(f"{rate:.2f}" for rate in rates.values()),
            *(f"{rates[name] / rates['one thread']:.2f}" for name in ("threads", "processes")),
        )
        for part, rates in found.items()
    ]
    print(table([("", "one thread", "threads", "processes", "times", "times"), *rows]))


def earlier(options: Options) -> dict[str, dict[str, float]]:
    """Return what earlier calls measured."""
    path = options.output / "cores.json"
    if not path.is_file():
        return {}
    found: dict[str, dict[str, float]] = json.loads(path.read_text(encoding="utf-8"))[
        "items_per_second"
    ]
    return found


def count_items(options: Options, part: Work) -> int:
    """Return how many windows, items or sentences are worked on."""
    if part == "contrastive set":
        return len(read_contrastive(options.set))
    return options.windows if part == "scoring" else 2 * options.documents


def alone(options: Options, part: Work, threads: int) -> float:
    """Return the seconds of one process."""
    torch.set_num_threads(threads)
    return timed(options, part, Processes())


def together(options: Options, part: Work) -> float:
    """Return the seconds of one process for each core."""
    torch.set_num_threads(options.cores)
    with helped(options.cores, timed, options, part) as processes:
        return timed(options, part, processes)


def timed(options: Options, part: Work, processes: Processes) -> float:
    """Prepare, wait for the others, and return how long all of them take together."""
    work = prepare(options, part, processes)
    processes.gather(None)
    begun = time.perf_counter()
    work()
    processes.gather(None)
    return time.perf_counter() - begun


def prepare(options: Options, part: Work, processes: Processes) -> Callable[[], object]:
    """Return the share of a process as a function without arguments."""
    if part == "contrastive set":
        return judging(options, processes)
    settings = Decoding(corpus=options.corpus, waves=2)
    subject = load_subject(settings)
    if part == "scoring":
        return scoring(subject, options, processes)
    config = DecodeConfig(beam=settings.beam, precision="int8" if "int8" in part else "float32")
    engine = PrefillEngine(subject.model, subject.subwords.special, config)
    waves = [
        wave[processes.rank :: processes.count]
        for wave in requests(subject, settings, options.documents)
    ]

    def search() -> None:
        for wave in waves:
            for batch in batches(wave, settings.max_tokens):
                engine.search([wave[i] for i in batch])

    return search


def judging(options: Options, processes: Processes) -> Callable[[], object]:
    """Return the scoring of a contrastive set."""
    assert options.run is not None
    translator = DocumentTranslator.load(options.run, processes=processes)
    items = read_contrastive(options.set)
    context = translator.windows.context
    return lambda: contrastive_accuracy(items, translator.score, context=context)


def scoring(subject: Subject, options: Options, processes: Processes) -> Callable[[], object]:
    """Return the scoring of windows with full context."""
    talks = read_parallel(options.corpus / "test.en", options.corpus / "test.de")
    windows = Windows(TokenStore.build(talks, subject.subwords), subject.windows)
    full = [
        n
        for n in range(len(windows))
        if windows.spans.current[n] - windows.spans.first[n] == CONTEXT
    ]
    observer = Observer(subject.model)
    return lambda: token_log_probabilities(
        observer,
        windows,
        full[: options.windows],
        pad_id=subject.subwords.special.pad,
        max_tokens=2048,
        processes=processes,
    )


if __name__ == "__main__":
    main(parse_dataclass(Options, sys.argv[1:], program="benchmarks/cores.py"))
