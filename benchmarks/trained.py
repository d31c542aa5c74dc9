"""What must hold for a trained model: engines, batches and precisions against each other.

    python benchmarks/trained.py RUN [--corpus ../shared/data/ted] [--parts batches engines]

- `batches`: every engine translates the test documents side by side and one document at a time;
  the strings must be the same.
- `engines`: greedy translations of every engine beside those of Hugging Face. Every sentence has
  the reference as target context, so that a difference stays in its sentence. Where two
  translations part, the difference of the log-probabilities of the two tokens tells whether the
  model cared.
- `precision`: s-BLEU of the run's own test split in float32 and int8.
- `contrast`: all items of a contrastive set, with the number per second.

Parts may be run one by one, and `batches` engine by engine; what others wrote stays in the output.
"""

import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
import tyro

from iada.cli import export
from iada.cli.export import ExportCommand
from iada.cli.parsing import parse_dataclass
from iada.config.data import DataConfig
from iada.config.decode import DecodeConfig
from iada.data.documents import Document, ParallelDocument
from iada.data.formats.contrapro import read_contrastive
from iada.data.formats.readers import read_split
from iada.data.prepared.store import TokenStore
from iada.data.windows.windows import Windows
from iada.decoding.loading import default_export
from iada.decoding.translator import DocumentTranslator, token_log_probabilities
from iada.evaluation.contrastive import contrastive_accuracy
from iada.evaluation.metrics import sentence_bleu, sentences_of
from iada.models.observation import Observer
from iada.runs.folder import RunFolder

Part = Literal["batches", "engines", "precision", "contrast"]
Precision = Literal["float32", "int8"]
EngineName = Literal["prefill", "ctranslate2", "huggingface"]
ENGINES: tuple[tuple[EngineName, Precision], ...] = (
    ("prefill", "float32"),
    ("prefill", "int8"),
    ("ctranslate2", "float32"),
    ("ctranslate2", "int8"),
    ("huggingface", "float32"),
)


@dataclass(frozen=True, kw_only=True)
class Options:
    """What to check."""

    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Run folder of the model."""
    corpus: Path = Path("../shared/data/ted")
    """Folder of the test documents for `batches` and `engines`, parted by blank lines."""
    contrastive: Path = Path("../shared/data/contrapro/contrapro.jsonl")
    """The contrastive set."""
    parts: tuple[Part, ...] = ("batches", "engines", "precision", "contrast")
    """What to check."""
    engines: tuple[EngineName, ...] = ("prefill", "ctranslate2", "huggingface")
    """Engines of `batches`."""
    beam: int = 5
    """Beam size of `batches` and `precision`."""
    output: Path = Path("benchmarks/results/trained.json")
    """Where the findings go."""


def main(options: Options) -> None:
    torch.set_num_threads(1)
    report: dict[str, Any] = {}
    if options.output.is_file():
        report = json.loads(options.output.read_text(encoding="utf-8"))
    export_both(options.run)
    for part in options.parts:
        found = {
            "batches": check_batches,
            "engines": check_engines,
            "precision": check_precision,
            "contrast": check_contrast,
        }[part](options)
        if part == "batches":
            found["engines"] = report.get(part, {}).get("engines", {}) | found["engines"]
        report[part] = found
        report["model"] = describe(options.run)
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
        print(json.dumps({part: report[part]}, indent=2), flush=True)


def export_both(run: Path) -> None:
    """Convert the model for CTranslate2, if that was not done."""
    precisions: tuple[Precision, ...] = ("float32", "int8")
    for precision in precisions:
        if not default_export(RunFolder(run), precision).is_dir():
            export.run(ExportCommand(run=run, quantization=precision, allow=precision == "int8"))


def describe(run: Path) -> dict[str, Any]:
    translator = DocumentTranslator.load(run, "huggingface")
    config = RunFolder(run).config()
    return {
        "corpus": config.data.folder.name,
        "method": config.method,
        "parameters": sum(p.numel() for p in translator.model.parameters()),
        "vocabulary": len(translator.subwords),
    }


def load(
    run: Path, engine: EngineName, precision: Precision, decode: DecodeConfig
) -> DocumentTranslator:
    return DocumentTranslator.load(
        run, decode=replace(decode, engine=engine, precision=precision, exported=None)
    )


def check_batches(options: Options) -> dict[str, Any]:
    sources = [pair.source for pair in documents(options.corpus)]
    total = sum(map(len, sources))
    found = {}
    for engine, precision in ENGINES:
        if engine not in options.engines:
            continue
        outputs, rates = [], []
        for count in (64, 1):
            decode = DecodeConfig(beam=options.beam, open_documents=count)
            translator = load(options.run, engine, precision, decode)
            started = time.perf_counter()
            outputs.append(sentences_of(translator.translate(sources)))
            rates.append(total / (time.perf_counter() - started))
        different = sum(a != b for a, b in zip(*outputs, strict=True))
        found[f"{engine} {precision}"] = {
            "different": different,
            "sentences": total,
            "sentences_per_second": {"batched": round(rates[0], 2), "one": round(rates[1], 2)},
        }
        print(engine, precision, found[f"{engine} {precision}"], flush=True)
    return {"corpus": options.corpus.name, "beam": options.beam, "engines": found}


def check_engines(options: Options) -> dict[str, Any]:
    pairs = documents(options.corpus)
    decode = DecodeConfig(beam=1, target_context="gold")
    greedy = {}
    for engine, precision in ENGINES:
        translator = load(options.run, engine, precision, decode)
        greedy[f"{engine} {precision}"] = sentences_of(
            translator.translate([p.source for p in pairs], [p.target for p in pairs])
        )
    reference = greedy.pop("huggingface float32")
    found: dict[str, dict[str, Any]] = {}
    for name, outputs in greedy.items():
        different = [i for i, (a, b) in enumerate(zip(outputs, reference, strict=True)) if a != b]
        found[name] = {
            "equal": len(reference) - len(different),
            "sentences": len(reference),
            "share": round(1 - len(different) / len(reference), 5),
        }
        if name.endswith("float32"):
            gaps = [token_gap(options.run, pairs, i, outputs[i], reference[i]) for i in different]
            found[name]["gaps"] = [round(gap, 7) for gap in sorted(gaps)]
    return {"corpus": options.corpus.name, "engines": found}


def token_gap(
    run: Path, pairs: Sequence[ParallelDocument], number: int, left: str, right: str
) -> float:
    """Difference in log-probability of the first tokens in which two translations differ."""
    translator = DocumentTranslator.load(run, "huggingface")
    pair, place = locate(pairs, number)
    scores, ids = [], []
    for text in (left, right):
        source = Document(pair.name, pair.source.sentences[: place + 1])
        target = Document(pair.name, (*pair.target.sentences[:place], text))
        store = TokenStore.build([ParallelDocument(source, target)], translator.subwords)
        one = replace(translator.windows, stride=1, loss_on="current", strategy="sliding")
        windows = Windows(store, one)
        observer = Observer(translator.model)
        try:
            scores += token_log_probabilities(
                observer,
                windows,
                [len(windows) - 1],
                pad_id=translator.subwords.special.pad,
                max_tokens=4096,
            )
        finally:
            observer.remove()
        ids.append([*translator.subwords.encode([text], "target")[0], -1])
    first = next(i for i, (a, b) in enumerate(zip(*ids, strict=False)) if a != b)
    return abs(float(scores[0][first] - scores[1][first]))


def locate(pairs: Sequence[ParallelDocument], number: int) -> tuple[ParallelDocument, int]:
    for pair in pairs:
        if number < len(pair):
            return pair, number
        number -= len(pair)
    raise IndexError(number)


def check_precision(options: Options) -> dict[str, Any]:
    config = RunFolder(options.run).config()
    pairs = read_split(config.data, "test")
    references = [pair.target for pair in pairs]
    total = sum(map(len, references))
    found = {}
    for engine, precision in ENGINES[:4]:
        translator = load(options.run, engine, precision, DecodeConfig(beam=options.beam))
        started = time.perf_counter()
        outputs = translator.translate([pair.source for pair in pairs])
        seconds = time.perf_counter() - started
        found[f"{engine} {precision}"] = {
            "s_bleu": round(sentence_bleu(outputs, references).score, 3),
            "sentences_per_second": round(total / seconds, 2),
        }
    return {"corpus": config.data.folder.name, "sentences": total, "engines": found}


def check_contrast(options: Options) -> dict[str, Any]:
    items = read_contrastive(options.contrastive)
    translator = DocumentTranslator.load(options.run)
    context = translator.windows.context
    started = time.perf_counter()
    result = contrastive_accuracy(items, translator.score, context=context)
    seconds = time.perf_counter() - started
    candidates = sum(len(item.candidates(context)) for item in items)
    return {
        "set": options.contrastive.name,
        "seconds": round(seconds, 1),
        "items_per_second": round(len(items) / seconds, 2),
        "candidates": candidates,
        "candidates_per_second": round(candidates / seconds, 2),
        "result": result,
    }


def documents(corpus: Path) -> list[ParallelDocument]:
    return read_split(DataConfig(folder=corpus), "test")


if __name__ == "__main__":
    import sys

    main(parse_dataclass(Options, sys.argv[1:], program="benchmarks/trained.py"))
