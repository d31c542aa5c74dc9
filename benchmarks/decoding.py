"""Sentences per second of every engine in document-level translation, beam 5, one thread.

    python benchmarks/decoding.py [--corpus ../shared/data/ted] [--model RUN] [--counts 1 4 16]

The test talks are cut into documents of a few sentences. The first three of each are context
only, so that every measured sentence has full context, as nearly all sentences of a talk have. All
engines get the very same requests: source window, target prefix (the reference, so that no engine's
own output changes the work of the next step) and limits. `naive` is the loop that most document
systems come with: one document, one sentence, `generate`.

Without `--model`, a randomly initialised Transformer (base) is used. Random weights do not end
sentences, so all sentences of a wave are forced to the mean length of their references, and their
prefixes are cut or repeated to the mean length of the prefixes; sources keep their own lengths.
With `--model`, nothing is forced and the model ends its sentences itself.

Engines take turns, and the best of the repetitions counts: other work on the machine only adds.
"""

import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Literal

# One thread, for the libraries that read it when they are imported.
os.environ["OMP_NUM_THREADS"] = "1"

import ctranslate2
import torch
import transformers

from iada.cli.parsing import parse_dataclass
from iada.config.data import WindowConfig
from iada.config.decode import DecodeConfig
from iada.config.model import ModelConfig
from iada.data.formats.readers import read_parallel
from iada.data.tokens.subwords import Subwords, train_subwords
from iada.decoding.engines.ctranslate2 import CTranslate2Engine
from iada.decoding.engines.huggingface import HuggingFaceEngine
from iada.decoding.engines.interface import Engine, Request, batches
from iada.decoding.engines.prefill.engine import PrefillEngine
from iada.decoding.export import export_model
from iada.decoding.loading import load_model
from iada.decoding.requests import DocumentState, RequestRules
from iada.decoding.translator import max_positions
from iada.models.build import build_model
from iada.runs.environment import keep_freed_memory
from iada.runs.folder import RunFolder

CONTEXT = 3
Precision = Literal["float32", "int8"]


@dataclass(frozen=True, kw_only=True)
class Options:
    """What to measure."""

    corpus: Path = Path("../shared/data/ted")
    """Folder with train and test files, documents parted by blank lines."""
    model: Path | None = None
    """Run folder of a trained model; by default random weights."""
    counts: tuple[int, ...] = (1, 4, 16, 64, 256)
    """Numbers of documents that are translated side by side."""
    main_count: int = 16
    """Number of documents of the table of ratios."""
    waves: int = 2
    """Sentences of each document to translate; a single one from 64 documents on."""
    naive_sentences: int = 12
    """Sentences of the naive loop."""
    repetitions: int = 2
    """Times that everything is measured."""
    beam: int = 5
    """Beam size."""
    max_tokens: int = 8192
    """Budget of a batch."""
    work: Path = Path(".cache/decoding")
    """Where the encoding and the converted models are kept."""
    output: Path = Path("benchmarks/results/decoding.json")
    """Where the numbers go; the figure lies beside it."""


@dataclass(frozen=True)
class Subject:
    """The model under test."""

    model: Any
    subwords: Subwords
    windows: WindowConfig
    is_random: bool


Side = tuple[int, Callable[[], None]]
"""Number of sentences, and the work of translating them."""


def main(options: Options) -> None:
    if not (options.corpus / "test.en").is_file():
        print(f"{options.corpus} holds no test.en: nothing to measure.")
        return
    torch.set_num_threads(1)
    # As the commands do; the naive loop has it too.
    keep_freed_memory()
    subject = load_subject(options)
    engines = build_engines(subject, options)
    rates: dict[int, dict[str, float]] = {}
    naive = 0.0
    for count in sorted({*options.counts, options.main_count}):
        waves = list(requests(subject, options, count))
        sides = {name: engine_side(engine, waves, options) for name, engine in engines.items()}
        if count == options.main_count:
            sides["naive"] = naive_side(subject, waves, options)
        rates[count] = measure(sides, options.repetitions)
        print(row(count, rates[count]), flush=True)
        naive = rates[count].pop("naive", naive)
    report: dict[str, Any] = {
        "corpus": options.corpus.name,
        "model": "random weights" if subject.is_random else str(options.model),
        "forced_lengths": subject.is_random,
        "parameters": sum(p.numel() for p in subject.model.parameters()),
        "vocabulary": len(subject.subwords),
        "beam": options.beam,
        "threads": 1,
        "repetitions": options.repetitions,
        "tokens": mean_lengths(list(requests(subject, options, options.main_count))),
        "machine": {
            "processor": platform.machine(),
            "python": platform.python_version(),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "ctranslate2": ctranslate2.__version__,
        },
        "sentences_per_second": {"naive": naive} | {str(count): r for count, r in rates.items()},
        "ratios": ratios(rates[options.main_count], naive),
    }
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    plot(rates, naive, options.output.with_suffix(".svg"))
    for name, value in report["ratios"].items():
        print(f"{name}: {value:.2f}")


def load_subject(options: Options) -> Subject:
    if options.model is not None:
        folder = RunFolder(options.model)
        trained = folder.trained_model()
        windows = replace(folder.config().windows, context=CONTEXT)
        return Subject(load_model(trained), Subwords.load(trained), windows, is_random=False)
    encoding = options.work / "encoding"
    if not (encoding / "tokenizer.json").is_file():
        # Talks alone are too few for 32,000 pieces.
        folders = (options.corpus, options.corpus.parent / "europarl")
        names = [folder / f"train.{language}" for folder in folders for language in ("en", "de")]
        texts = (line for name in names if name.is_file() for line in head(name))
        encoding.mkdir(parents=True, exist_ok=True)
        train_subwords(texts, vocabulary_size=32000).save(encoding)
    subwords = Subwords.load(encoding)
    torch.manual_seed(1)
    model = build_model(ModelConfig(), vocabulary_size=len(subwords), special=subwords.special)
    return Subject(model.train(False), subwords, WindowConfig(context=CONTEXT), is_random=True)


def head(path: Path) -> Iterator[str]:
    with path.open(encoding="utf-8") as file:
        yield from (line.rstrip("\n") for line in islice(file, 200_000))


def build_engines(subject: Subject, options: Options) -> dict[str, Engine]:
    special = subject.subwords.special
    # Only CTranslate2 in int8 knows inexact batches: here it is to be as fast as it can be.
    configs: dict[Precision, DecodeConfig] = {
        precision: DecodeConfig(beam=options.beam, precision=precision, exact_batches=False)
        for precision in ("float32", "int8")
    }
    engines: dict[str, Engine] = {
        "huggingface float32": HuggingFaceEngine(subject.model, special, configs["float32"])
    }
    for precision, config in configs.items():
        folder = export_model(
            subject.model,
            subject.subwords,
            options.work / f"exported-{precision}",
            quantization=precision,
            fingerprint="benchmark",
        )
        engines[f"ctranslate2 {precision}"] = CTranslate2Engine(folder, subject.subwords, config)
        engines[f"prefill {precision}"] = PrefillEngine(subject.model, special, config)
    return engines


def requests(subject: Subject, options: Options, count: int) -> Iterator[list[Request]]:
    """Yield the requests of each wave: one sentence of each document."""
    waves = 1 if count >= 64 else options.waves
    rules = RequestRules(
        subject.windows,
        DecodeConfig(target_context="gold"),
        subject.subwords.special,
        max_positions(subject.model),
    )
    talks = read_parallel(options.corpus / "test.en", options.corpus / "test.de")
    length = CONTEXT + options.waves
    # Round by round, so that few documents are the beginnings of different talks.
    pieces = [
        (talk, start)
        for start in range(0, max(map(len, talks)) - length, length)
        for talk in talks
        if start + length <= len(talk)
    ]
    opened = []
    for talk, start in pieces[:count]:
        part = slice(start, start + length)
        source = subject.subwords.encode(talk.source.sentences[part], "source")
        target = subject.subwords.encode(talk.target.sentences[part], "target")
        opened.append(DocumentState(0, talk.source, source, reference=target))
    if len(opened) < count:
        raise SystemExit(
            f"{options.corpus} has only {len(opened)} documents of {length} sentences."
        )
    for place in range(CONTEXT + waves):
        wave = [document.next_request(rules) for document in opened]
        if place >= CONTEXT:
            lengths = [len((document.reference or [])[place]) for document in opened]
            yield levelled(wave, lengths) if subject.is_random else wave
        for document in opened:
            document.append("", [], [])


def levelled(wave: list[Request], references: list[int]) -> list[Request]:
    """Give all requests of a wave the mean length of prefix and translation."""
    new = max(1, round(sum(references) / len(references)))
    prefix = round(sum(len(request.prefix) for request in wave) / len(wave))

    def cut(tokens: tuple[int, ...]) -> tuple[int, ...]:
        begin, *said = tokens
        return begin, *(said * (prefix // len(said) + 1))[: prefix - 1]

    return [replace(r, prefix=cut(r.prefix), max_new=new, min_new=new) for r in wave]


def measure(sides: dict[str, Side], repetitions: int) -> dict[str, float]:
    """Return sentences per second of each side; they take turns."""
    best = dict.fromkeys(sides, float("inf"))
    for _ in range(repetitions):
        for name, (_, work) in sides.items():
            started = time.perf_counter()
            work()
            best[name] = min(best[name], time.perf_counter() - started)
    return {name: sentences / best[name] for name, (sentences, _) in sides.items()}


def engine_side(engine: Engine, waves: list[list[Request]], options: Options) -> Side:
    """Return the translation of all waves."""

    def work() -> None:
        for wave in waves:
            for batch in batches(wave, options.max_tokens):
                engine.search([wave[i] for i in batch])

    return sum(map(len, waves)), work


def naive_side(subject: Subject, waves: list[list[Request]], options: Options) -> Side:
    """Return the translation of some of the same sentences, one at a time."""
    config = DecodeConfig(beam=options.beam)
    engine = HuggingFaceEngine(subject.model, subject.subwords.special, config)
    asked = [request for wave in waves for request in wave]
    chosen = asked[:: max(1, len(asked) // options.naive_sentences)][: options.naive_sentences]

    def work() -> None:
        for request in chosen:
            engine.search([request])

    return len(chosen), work


def ratios(rates: dict[str, float], naive: float) -> dict[str, float]:
    found = {}
    for precision in ("float32", "int8"):
        ours = rates[f"prefill {precision}"]
        found[f"prefill / ctranslate2, {precision}"] = ours / rates[f"ctranslate2 {precision}"]
        found[f"prefill {precision} / naive"] = ours / naive
    found["prefill float32 / huggingface"] = rates["prefill float32"] / rates["huggingface float32"]
    return found


def mean_lengths(waves: list[list[Request]]) -> dict[str, float]:
    asked = [request for wave in waves for request in wave]
    sums = {
        "source": sum(len(request.source) for request in asked),
        "prefix": sum(len(request.prefix) for request in asked),
        "limit": sum(request.max_new for request in asked),
    }
    return {name: round(total / len(asked), 1) for name, total in sums.items()}


def row(count: int, rates: dict[str, float]) -> str:
    return f"{count:>4} docs  " + "  ".join(f"{name} {rate:.2f}" for name, rate in rates.items())


def plot(rates: dict[int, dict[str, float]], naive: float, path: Path) -> None:
    """Draw sentences per second against the number of documents."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    axes = figure.subplots()
    counts = sorted(rates)
    for name in rates[counts[0]]:
        style = "--" if name.endswith("int8") else "-"
        axes.plot(counts, [rates[c][name] for c in counts], style, marker="o", label=name)
    axes.axhline(naive, color="0.5", linewidth=1, label="naive loop, float32")
    axes.set_xscale("log", base=2)
    axes.set_xticks(counts, [str(count) for count in counts])
    axes.set_ylim(bottom=0)
    axes.set_xlabel("documents side by side")
    axes.set_ylabel("sentences per second, one thread")
    axes.legend(frameon=False, fontsize="small")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    main(parse_dataclass(Options, sys.argv[1:], program="benchmarks/decoding.py"))
