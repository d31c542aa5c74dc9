"""What importance costs in fine-tuning, and what reading a prompt once saves in translation.

    python benchmarks/fine_tuning.py [--shapes marian llama] [--rounds 5] [--output FOLDER]

One thread, float32, random weights. A step is forward, backward and AdamW; plain steps (the
original view alone) and those of IADA (GNorm, Replace, three losses) take turns on one model, and
the ratio is the median over rounds, by processor time. The loss is on the current sentence, a
quarter of the window, as in the default recipe. Decoding searches for sentences whose prompts hold
three pairs of context, with beam 5 and the prompt read once for all beams or once for each; every
translation is forced to the same length, since random weights never end one.
"""

import itertools
import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

# One thread, for the libraries that read it when they are imported.
os.environ["OMP_NUM_THREADS"] = "1"

import torch
from measuring import RESULTS, save, table
from transformers import MarianConfig, MarianMTModel

from iada.cli.parsing import parse_dataclass
from iada.config.data import WindowConfig
from iada.config.decode import DecodeConfig
from iada.config.method import AugmentConfig, augmentation
from iada.config.model import ModelConfig
from iada.data.tokens.subwords import Subwords, train_subwords
from iada.data.windows.batch import Batch, Role
from iada.decoding.engines.causal import CausalEngine
from iada.decoding.engines.interface import EngineSetup, Request
from iada.method.objective import AugmentedObjective
from iada.method.perturbation import Replace
from iada.models.build import build_causal


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A model and a batch."""

    layers: int
    dim: int
    feed_forward: int
    heads: int
    vocabulary: int
    windows: int
    length: int
    """Tokens of a window on each side, or of both sides of a decoder-only model together."""


SHAPES = {
    # OPUS-MT, four windows of four sentences.
    "marian": Shape(
        layers=6, dim=512, feed_forward=2048, heads=8, vocabulary=58_101, windows=4, length=100
    ),
    # A small Llama on the same windows, with room for a template.
    "llama": Shape(
        layers=12, dim=512, feed_forward=1376, heads=8, vocabulary=32_000, windows=4, length=240
    ),
    "small llama": Shape(
        layers=4, dim=256, feed_forward=688, heads=4, vocabulary=8_000, windows=4, length=240
    ),
    "tiny marian": Shape(
        layers=1, dim=32, feed_forward=64, heads=2, vocabulary=400, windows=2, length=16
    ),
    "tiny llama": Shape(
        layers=1, dim=32, feed_forward=64, heads=2, vocabulary=400, windows=2, length=32
    ),
}
"""The last two only show that everything runs."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """What to measure."""

    shapes: tuple[str, ...] = ("marian", "llama")
    """Names of shapes."""
    rounds: int = 5
    """Steps of each kind, and searches of each kind."""
    beam: int = 5
    """Beam size of the search."""
    output: Path = RESULTS
    """Folder of the numbers."""


def main(options: Options) -> None:
    torch.set_num_threads(1)
    steps: dict[str, Any] = {}
    searches: dict[str, Any] = {}
    for name in options.shapes:
        torch.manual_seed(0)
        shape = SHAPES[name]
        model = _model(name, shape)
        plain, ours = _steps(model, shape)
        steps[name] = _compare(plain, ours, options.rounds)
        print(f"{name}: IADA {steps[name]['ratio']:.2f} times a plain step", file=sys.stderr)
        if "llama" in name:
            once, again = _searches(model, shape, options.beam)
            searches[name] = _compare(once, again, options.rounds)
            print(
                f"{name}: one reading per beam {searches[name]['ratio']:.2f} times", file=sys.stderr
            )
    report = {
        "shapes": {name: asdict(SHAPES[name]) for name in options.shapes},
        "beam": options.beam,
        "steps": steps,
        "searches": searches,
    }
    print(save("fine_tuning", report, options.output))
    rows = [["", "first s", "second s", "ratio"]]
    for title, found in (("plain, IADA", steps), ("prompt once, per beam", searches)):
        for name, row in found.items():
            numbers = (row["first"], row["second"], row["ratio"])
            rows.append([f"{name}: {title}", *(f"{value:.2f}" for value in numbers)])
    print(table(rows))


def _compare(first: Callable[[], None], second: Callable[[], None], rounds: int) -> dict[str, Any]:
    """Let two things take turns; processor seconds and the median ratio of second to first."""
    first()
    second()
    pairs = [(_seconds(first), _seconds(second)) for _ in range(rounds)]
    return {
        "first": statistics.median(one for one, _ in pairs),
        "second": statistics.median(other for _, other in pairs),
        "ratio": statistics.median(other / one for one, other in pairs),
        "rounds": rounds,
    }


def _seconds(action: Callable[[], None]) -> float:
    start = time.process_time()
    action()
    return time.process_time() - start


def _model(name: str, shape: Shape) -> Any:
    if "llama" in name:
        config = ModelConfig(
            architecture="causal",
            dim=shape.dim,
            feed_forward=shape.feed_forward,
            heads=shape.heads,
            decoder_layers=shape.layers,
            dropout=0.0,
        )
        special = _encoding().special
        return build_causal(config, vocabulary_size=shape.vocabulary, special=special).train()
    settings: dict[str, Any] = dict(vocab_size=shape.vocabulary, d_model=shape.dim, dropout=0.1)
    for side in ("encoder", "decoder"):
        settings[f"{side}_layers"] = shape.layers
        settings[f"{side}_ffn_dim"] = shape.feed_forward
        settings[f"{side}_attention_heads"] = shape.heads
    settings |= dict(pad_token_id=0, eos_token_id=2, decoder_start_token_id=0)
    return MarianMTModel(MarianConfig(**settings, forced_eos_token_id=None)).train()


def _encoding() -> Subwords:
    return train_subwords(["a word and another"] * 3, vocabulary_size=300, merges=2)


def _steps(model: Any, shape: Shape) -> tuple[Callable[[], None], Callable[[], None]]:
    """Return a plain step and one of IADA."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
    drawn = Replace(shape.vocabulary, range(6))
    objectives = [
        AugmentedObjective(model, config, replacement=drawn)
        for config in (augmentation("doc2doc"), AugmentConfig(measure="gnorm"))
    ]
    updates = itertools.count()

    def step(objective: AugmentedObjective) -> None:
        losses = objective(_batch(model, shape, next(updates)))
        (losses.total / losses.count).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()

    return lambda: step(objectives[0]), lambda: step(objectives[1])


def _batch(model: Any, shape: Shape, update: int) -> Batch:
    """Make a batch of four sentences a window, pair after pair where both sides are one."""
    size = (shape.windows, shape.length)
    quarter = shape.length // 4
    ids = torch.randint(6, shape.vocabulary, size)
    roles = torch.full(size, Role.CONTEXT, dtype=torch.int8)
    roles[:, -quarter:] = Role.CURRENT
    source, target = roles, roles
    labels = torch.randint(6, shape.vocabulary, size)
    learned = quarter
    if not model.config.is_encoder_decoder:
        in_source = torch.arange(shape.length) % quarter < quarter // 2
        source, target = roles * in_source, roles * ~in_source
        learned = quarter // 2
    labels[:, :-learned] = -100
    return {
        "input_ids": ids,
        "attention_mask": torch.ones_like(ids),
        "decoder_input_ids": ids,
        "labels": labels,
        "source_roles": source.to(torch.int8),
        "target_roles": target.to(torch.int8),
        "noise_key": (0, update),
        # As the collator counts: the last decoder layer leaves out the other positions.
        "loss_width": learned,
    }


def _searches(model: Any, shape: Shape, beam: int) -> tuple[Callable[[], None], Callable[[], None]]:
    """Return searches that read the prompt once, and once for each beam."""
    said = shape.length // 8
    setup = EngineSetup(model, _encoding(), WindowConfig(), DecodeConfig(beam=beam))
    prompts = torch.randint(6, shape.vocabulary, (shape.windows, shape.length - said)).tolist()
    requests = [
        Request(source=(), prefix=tuple(prompt), max_new=said, min_new=said) for prompt in prompts
    ]
    once, again = CausalEngine(setup), CausalEngine(setup)
    again.reads_once = False

    def search(engine: CausalEngine) -> None:
        engine.search(requests)

    return lambda: search(once), lambda: search(again)


if __name__ == "__main__":
    main(parse_dataclass(Options, sys.argv[1:], program="fine_tuning.py"))
