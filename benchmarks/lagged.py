"""How well importance from the draw before agrees with GNorm measured now.

    python benchmarks/lagged.py [--epochs 8] [--every 4]

Trains on the mini corpus with `augment.importance_pass: lagged`. In every few batches GNorm is also
measured in the same forward pass, as `reuse` would, and compared with other scores of the same
tokens, window by window: what the memory holds, the newest draw alone and moving averages; TNorm;
and GNorm measured once more with other dropout, which no memory can be expected to beat. Given for
each epoch are the rank correlation, averaged over windows and both sides, and the share of the
tokens perturbed under GNorm that the other scores would have perturbed with the same random
numbers, at two values of α and a matched budget. The last column compares the gradient that
training leaves in the memory, that of the whole loss, with that of the NLL alone at the same
weights and dropout.
"""

import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from measuring import RESULTS, draw_lines, save, table
from torch import Tensor

from iada.cli.parsing import parse_dataclass
from iada.config.method import AugmentConfig
from iada.config.run import RunConfig, mini_run
from iada.data.mini import MiniConfig, write_mini_corpus
from iada.data.windows.batch import Batch, Role
from iada.method.importance import MEASURES, Evidence, measure_tokens
from iada.method.lagged import ScoreMemory
from iada.method.objective import AugmentedObjective
from iada.method.selection import Scores, group_probabilities
from iada.models.build import build_model
from iada.models.observation import Changes, Observation
from iada.runs.corpus import Corpus, load_corpus
from iada.runs.folder import RunFolder
from iada.seeding import generator
from iada.training.train import make_trainer

ALPHAS = (0.1, 1.0)


@dataclass(frozen=True, kw_only=True)
class Options:
    """What to measure."""

    epochs: int = 8
    """Epochs to train."""
    every: int = 4
    """Batches between two comparisons."""
    decays: tuple[float, ...] = (0.5, 0.8)
    """Moving averages beside the newest draw alone."""
    seed: int = 1
    """Seed of the run."""
    output: Path = RESULTS
    """Folder of the numbers and the plot."""


class Comparison(AugmentedObjective):
    """The objective, with eyes for other scores of the same tokens."""

    def prepare(self, options: Options, lengths: Any) -> None:
        """Add memories with other decays; the run follows its own."""
        self.others = {decay: ScoreMemory(lengths, decay=decay) for decay in options.decays}
        self.every = options.every
        self.calls = 0
        self.found: dict[int, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))

    def _changes(
        self, config: AugmentConfig, batch: Batch, original: Observation | None
    ) -> Changes:
        assert original is not None
        changes = super()._changes(config, batch, original)
        self.calls += 1
        if self.calls % self.every == 0:
            self._compare(config, batch, original)
        for memory in self.others.values():
            memory.watch(batch, self.observer.streams, original.embeddings, config.measure)
        return changes

    def _measured(
        self, config: AugmentConfig, batch: Batch, seen: Observation
    ) -> tuple[Scores, ...]:
        fresh = replace(config, importance_pass="reuse")
        projection = self.projection
        return measure_tokens(self.observer, batch, fresh, original=seen, projection=projection)

    def _compare(self, config: AugmentConfig, batch: Batch, original: Observation) -> None:
        epoch = batch["noise_key"][0]
        notes = self.found[epoch]
        gnorm = self._measured(config, batch, original)
        again = self._measured(config, batch, self.observer.forward(batch))
        evidence = Evidence(batch=batch, streams=self.observer.streams, observation=original)
        columns: dict[str, tuple[Scores, ...]] = {
            "GNorm, other dropout": again,
            "TNorm": MEASURES["tnorm"].scores(evidence),
            "uniform": MEASURES["uniform"].scores(evidence),
        }
        assert self.memory is not None
        memories = {0.0: self.memory, **self.others}
        if bool(self.memory.known[batch["numbers"]].all()):
            for decay, memory in memories.items():
                name = f"lagged, decay {decay:g}" if decay else "lagged"
                columns[name] = self._kept(memory, batch)
        for name, scores in columns.items():
            if name != "uniform":
                notes[f"{name}: rank"] += rank_correlations(gnorm, scores, batch)
            for alpha in ALPHAS:
                notes[f"{name}: shared at {alpha:g}"] += list(
                    self._shared(gnorm, scores, batch, replace(config, alpha=alpha))
                )
        self._compare_losses(batch, gnorm, original, notes)

    def _kept(self, memory: ScoreMemory, batch: Batch) -> tuple[Scores, ...]:
        widths = (batch["input_ids"].shape[1], batch["decoder_input_ids"].shape[1])
        return tuple(Scores(memory.recall(batch, n, width)[0]) for n, width in enumerate(widths))

    def _shared(
        self,
        gnorm: tuple[Scores, ...],
        other: tuple[Scores, ...],
        batch: Batch,
        config: AugmentConfig,
    ) -> Iterator[float]:
        """Yield the share of the tokens perturbed under GNorm that other scores perturb too."""
        config = replace(config, budget="matched")
        random = generator(self.seed, "lagged benchmark", *batch["noise_key"])
        both = chosen = 0
        for stream, one, two in zip(self.observer.streams, gnorm, other, strict=True):
            (p,) = group_probabilities(one, stream, batch, config)
            (q,) = group_probabilities(two, stream, batch, config)
            draw = torch.rand(p.shape, generator=random)
            both += int(((draw < p) & (draw < q)).sum())
            chosen += int((draw < p).sum())
        if chosen:
            yield both / chosen

    def _compare_losses(
        self, batch: Batch, gnorm: tuple[Scores, ...], original: Observation, notes: Any
    ) -> None:
        """Once the backward pass has come by, compare its gradient with that of the NLL."""
        for number, (one, embedding) in enumerate(zip(gnorm, original.embeddings, strict=True)):

            def note(gradient: Tensor, number: int = number, one: Scores = one) -> None:
                whole = Scores(torch.linalg.vector_norm(gradient, dim=-1))
                pair = [one], [whole]
                name = "whole loss, same weights: rank"
                notes[name] += rank_correlations(*pair, batch, first=number)

            embedding.register_hook(note)  # type: ignore[no-untyped-call]


def rank_correlations(one: Any, two: Any, batch: Batch, *, first: int = 0) -> list[float]:
    """Return Spearman's correlation of each window on each side, over its ordinary tokens."""
    found = []
    sides = (batch["source_roles"], batch["target_roles"])[first:]
    for a, b, roles in zip(one, two, sides, strict=False):
        for row in range(len(roles)):
            chosen = roles[row] != Role.SPECIAL
            if int(chosen.sum()) > 2:
                ranks = [_ranks(scores.values[row, chosen]) for scores in (a, b)]
                found.append(float(torch.corrcoef(torch.stack(ranks))[0, 1]))
    return found


def _ranks(values: Tensor) -> Tensor:
    return values.argsort().argsort().float()


def main(options: Options) -> None:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        config, corpus = run_of(options, folder)
        found = trained(options, config, corpus, folder)
    epochs = {
        epoch: {name: statistics.fmean(values) for name, values in notes.items()}
        for epoch, notes in sorted(found.items())
    }
    settings = {"epochs": options.epochs, "decays": options.decays, "seed": options.seed}
    save("lagged", {"corpus": "mini, scarce", **settings, "results": epochs}, options.output)
    draw(epochs, options.output / "lagged.svg")
    names = sorted({name for notes in epochs.values() for name in notes})
    rows = [
        (name, *(f"{notes[name]:.2f}" if name in notes else "" for notes in epochs.values()))
        for name in names
    ]
    print(table([("epoch", *(str(epoch + 1) for epoch in epochs)), *rows]))


def run_of(options: Options, folder: Path) -> tuple[RunConfig, Corpus]:
    """Return the run and its data: the mini corpus in its scarce setting."""
    write_mini_corpus(folder / "corpus", MiniConfig())
    config = mini_run(
        "iada_replace_gnorm", corpus=folder / "corpus", output=folder / "run", seed=options.seed
    )
    config = replace(config, augment=replace(config.augment, importance_pass="lagged"))
    corpus = load_corpus(config)
    return config, corpus


def trained(options: Options, config: RunConfig, corpus: Corpus, folder: Path) -> Any:
    """Train for some epochs and return what was seen on the way, by epoch."""
    torch.manual_seed(options.seed)
    special = corpus.subwords.special
    model = build_model(config.model, vocabulary_size=len(corpus.subwords), special=special)
    trainer = make_trainer(config, corpus, model, RunFolder(folder / "run"))
    old = trainer.augmented_objective
    old.observer.remove()
    objective = Comparison(
        model,
        config.augment,
        replacement=old.replacements["source"],
        label_smoothing=config.train.label_smoothing,
        seed=config.seed,
        memory=trainer.score_memory,
    )
    objective.prepare(options, corpus.train.lengths())
    trainer.augmented_objective = objective
    assert trainer.train_sampler is not None
    updates = options.epochs * len(trainer.train_sampler)
    trainer.args.max_steps = updates
    # One more than there are: nothing is validated or saved.
    trainer.args.eval_steps = trainer.args.save_steps = updates + 1
    trainer.args.load_best_model_at_end = False
    trainer.train()
    return objective.found


def draw(epochs: dict[int, dict[str, float]], path: Path) -> None:
    """Draw the rank correlations by epoch."""
    lines: dict[str, dict[int, float]] = defaultdict(dict)
    for epoch, notes in epochs.items():
        for name, value in notes.items():
            if name.endswith(": rank"):
                lines[name.removesuffix(": rank")][epoch + 1] = value
    draw_lines({"epoch": lines}, path, unit="rank correlation with GNorm")


if __name__ == "__main__":
    main(parse_dataclass(Options, sys.argv[1:], program="benchmarks/lagged.py"))
