"""The training loss: original NLL, perturbed NLL and their agreement (eq. 12).

One call runs the whole algorithm on a micro-batch: original forward, importance, replacement
probabilities, perturbation, perturbed forward, losses. It returns sums and a count; the trainer
divides by the number of tokens of the update.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from iada.config.method import AugmentConfig
from iada.data.windows.batch import Batch
from iada.errors import DataError
from iada.method.fused import fused_losses
from iada.method.importance import MEASURES, measure_tokens
from iada.method.kept_logits import KeptLogits
from iada.method.lagged import ScoreMemory, lagged_scores
from iada.method.losses import AgreementTerm, Sums, Terms, plain_losses
from iada.method.perturbation import (
    Keep,
    Replacement,
    Vocabulary,
    Zero,
    make_replacement,
    perturb,
    word_start_table,
)
from iada.method.selection import (
    Scores,
    group_probabilities,
    scores_of_units,
    settings_at,
    stream_heads,
)
from iada.models.observation import (
    Changes,
    Observation,
    Observer,
    batch_positions,
    linear_projection,
    tensors,
)
from iada.seeding import generator as seeded_generator

Computation = Literal["fused", "plain"]


@dataclass(frozen=True)
class Losses:
    """Loss of a micro-batch, summed over its loss tokens."""

    total: Tensor
    """The weighted sum of the terms, with its graph."""
    count: Tensor
    """Number of labels in the loss."""
    original: Tensor | None = None
    """NLL of the original view, detached; None where it was not needed."""
    perturbed: Tensor | None = None
    """NLL of the perturbed view, detached."""
    agreement: Tensor | None = None
    """Divergence of the two views, detached."""


class AugmentedObjective:
    """Importance-aware augmentation of one model; call it on a batch."""

    def __init__(
        self,
        model: nn.Module,
        config: AugmentConfig,
        *,
        replacement: Replacement | None = None,
        vocabulary: Vocabulary | None = None,
        label_smoothing: float = 0.1,
        rich_weight: float = 0.0,
        seed: int = 1,
        computation: Computation = "fused",
        memory: ScoreMemory | None = None,
    ) -> None:
        """Prepare the objective.

        Args:
            model: a Hugging Face encoder-decoder or causal language model.
            config: measure, replacement, probabilities and weights.
            replacement: what replaces a token, in every stream; by default made from `vocabulary`.
            vocabulary: what is known of the tokens, best from the tokenizer; by default what the
                model's configuration says.
            label_smoothing: smoothing of both NLL terms in training.
            rich_weight: all terms of windows that a batch marks as context-rich count 1 plus this
                many times; what is reported of them does not change.
            seed: seed of the perturbation noise.
            computation: losses chunk by chunk together with the output projection, or from whole
                matrices of logits. The result is the same. A model whose logits are no plain
                linear map of its states always gets the second: see `linear_projection`.
            memory: importance of windows from the draw before, for `importance_pass: lagged`.
        """
        self.model = model
        self.config = config
        self.label_smoothing = label_smoothing
        self.rich_weight = rich_weight
        self.seed = seed
        self.memory = memory if config.importance_pass == "lagged" else None
        if config.importance_pass == "lagged" and memory is None:
            raise ValueError("`importance_pass: lagged` needs a `ScoreMemory` of the windows")
        self.observer = Observer(model, state_point=config.tnorm_at)
        self.replacements = self._make_replacements(replacement, vocabulary)
        """What replaces a token, by the name of the stream."""
        self.word_starts: Tensor | None = None
        """(vocabulary,) bool, for the unit `word`."""
        if config.perturbs:
            known = vocabulary or Vocabulary.of_model(model)
            self.word_starts = word_start_table(config, known)
        self.projection = linear_projection(model) if computation == "fused" else None
        self._logits = KeptLogits()

    def __call__(self, batch: Batch, *, update: int = 0, module: nn.Module | None = None) -> Losses:
        """Compute the loss; without perturbation and smoothing when the model is in eval mode.

        Args:
            batch: a batch with roles.
            update: number of the update, for what depends on it; see `settings_at`.
            module: the wrapper (DDP, compiled) to call in place of the model itself.
        """
        self._check_keys(batch)
        with self._gathering(self.model if module is None else module):
            return self._losses(batch, update, module)

    def _gathering(self, called: nn.Module) -> AbstractContextManager[None]:
        """Gather the gradients of a tied weight, if the losses are fused with the projection."""
        tied = self.observer.tied_weight
        return nullcontext() if tied is None or self.projection is None else tied.carried(called)

    def _losses(self, batch: Batch, update: int, module: nn.Module | None) -> Losses:
        config = settings_at(self.config, update)
        positions = batch_positions(batch)
        if not self.model.training or not config.perturbs or update < config.start_update:
            view = self._forward(batch, positions, module=module)
            self._remember(batch, view)
            smoothing = self.label_smoothing if self.model.training else 0.0
            sums = self._sums([view], batch, Terms(nll_weights=(1.0,), smoothing=smoothing))
            return Losses(sums.total, _count(positions), original=sums.nlls[0])
        original = self._original_view(config, batch, positions, module)
        changes = self._changes(config, batch, original)
        # Only now: what this draw leaves must not be what it is perturbed by.
        self._remember(batch, original)
        perturbed = self._forward(batch, positions, changes, module=module)
        return self._combined(config, original, perturbed, batch)

    def _remember(self, batch: Batch, original: Observation | None) -> None:
        """Let the backward pass leave the scores of a view that is learned from in the memory."""
        learned = self.model.training and torch.is_grad_enabled()
        if self.memory is not None and original is not None and learned:
            embeddings, measure = original.embeddings, self.config.measure
            self.memory.watch(batch, self.observer.streams, embeddings, measure)

    def _check_keys(self, batch: Batch) -> None:
        """Refuse a batch that was collated for another trainer."""
        needed = ["labels", "noise_key"]
        for stream in self.observer.streams:
            needed += [stream.ids, *(group.roles for group in stream.groups)]
            needed += [] if stream.mask is None else [stream.mask]
        if missing := [key for key in dict.fromkeys(needed) if key not in batch]:
            raise DataError(
                f"The batch lacks {', '.join(f'`{key}`' for key in missing)}; it has "
                f"{', '.join(f'`{key}`' for key in batch)}. Importance needs to know which tokens "
                "are context: cut windows with `iada.DocumentWindows`, pass its `collator` as "
                "`data_collator`, and set `remove_unused_columns=False`."
            )

    def _make_replacements(
        self, given: Replacement | None, vocabulary: Vocabulary | None
    ) -> dict[str, Replacement]:
        if given is None and not self.config.perturbs:
            # Nothing is asked of models that only learn from the original view.
            given = Keep()
        if given is not None:
            return {stream.name: given for stream in self.observer.streams}
        known = vocabulary or Vocabulary.of_model(self.model)
        return {
            stream.name: make_replacement(self.config, known.limited_to(stream.vocabulary_size))
            for stream in self.observer.streams
        }

    def _forward(
        self,
        batch: Batch,
        positions: Tensor,
        changes: Changes | None = None,
        *,
        module: nn.Module | None = None,
        project: bool = True,
        needs_states: bool = False,
    ) -> Observation:
        return self.observer.forward(
            batch,
            changes,
            module=module,
            positions=positions,
            project=project and self.projection is None,
            needs_states=needs_states,
        )

    def _sums(self, views: Sequence[Observation], batch: Batch, terms: Terms) -> Sums:
        positions = views[0].positions
        labels = batch["labels"].reshape(-1)[positions]
        rows = [view.logits if self.projection is None else view.hidden for view in views]
        if not self.rich_weight or "is_rich" not in batch:
            return self._summed(rows, labels, terms)
        # Every term is a sum over labels, so that the two kinds of windows can be added up apart.
        is_rich = batch["is_rich"][positions // batch["labels"].shape[1]]
        others, rich = (
            self._summed([view[part] for view in rows], labels[part], terms)
            for part in (~is_rich, is_rich)
        )
        return others.plus(rich, weight=1 + self.rich_weight)

    def _summed(self, rows: Sequence[Tensor], labels: Tensor, terms: Terms) -> Sums:
        """Add up the terms, given logits or, if the losses are fused, hidden states."""
        if self.projection is None:
            return plain_losses(rows, labels, terms)
        tied = self.observer.tied_weight
        weight = None if tied is None else tied.in_use
        return fused_losses(self.projection, rows, labels, terms, kept=self._logits, weight=weight)

    def _original_view(
        self, config: AugmentConfig, batch: Batch, positions: Tensor, module: nn.Module | None
    ) -> Observation | None:
        """Run the original forward if a loss or the importance needs it."""
        in_the_loss = config.weight_original > 0 or config.weight_agreement > 0
        measure = MEASURES[config.measure]
        reused = measure.is_read_off_training and config.importance_pass == "reuse"
        if not (in_the_loss or reused):
            return None
        differentiated = reused and measure.needs == "gradients"
        # Only a view that is learned from goes through the wrapper: DDP must see each of its
        # forwards take part in the backward pass.
        with torch.set_grad_enabled(config.learns_from_original or differentiated):
            return self._forward(
                batch,
                positions,
                module=module if config.learns_from_original else None,
                project=in_the_loss or measure.needs_logits,
                needs_states=self._reads_states(config, batch),
            )

    def _reads_states(self, config: AugmentConfig, batch: Batch) -> bool:
        """Whether importance is read off the topmost states of the original view."""
        if self.memory is not None:
            return config.lagged_start == "tnorm" and not self.memory.knows(batch)
        return config.importance_pass == "reuse" and MEASURES[config.measure].needs == "states"

    def probabilities(
        self, batch: Batch, original: Observation | None, config: AugmentConfig | None = None
    ) -> tuple[Tensor, ...]:
        """Return the replacement probability of every token of every stream.

        Args:
            batch: a batch with roles.
            original: its original view, if importance is read off it.
            config: the settings of an update, if they are others than the objective's own.
        """
        groups = self._group_probabilities(batch, original, config or self.config)
        return tuple(_add(list(stream.values())) for stream in groups)

    @torch.no_grad()
    def _group_probabilities(
        self, batch: Batch, original: Observation | None, config: AugmentConfig
    ) -> list[dict[str, Tensor]]:
        """Return for every stream the probabilities of its role groups by name."""
        scores = self._scores(batch, original, config)
        return [
            {
                group.name: probability
                for group, probability in zip(
                    stream.groups,
                    group_probabilities(found, stream, batch, config),
                    strict=True,
                )
            }
            for stream, found in zip(self.observer.streams, scores, strict=True)
        ]

    def _scores(
        self, batch: Batch, original: Observation | None, config: AugmentConfig
    ) -> tuple[Scores, ...]:
        """Return the importance of every token of every stream."""
        streams, word_starts = self.observer.streams, self._word_starts(batch)
        if self.memory is not None:
            assert original is not None
            found = lagged_scores(self.memory, batch, streams, original, config.lagged_start)
            return scores_of_units(found, streams, batch, word_starts)
        return measure_tokens(
            self.observer,
            batch,
            config,
            original=original if config.importance_pass == "reuse" else None,
            projection=self.projection,
            word_starts=word_starts,
            seed=self.seed,
            keep=self._logits,
        )

    def _changes(
        self, config: AugmentConfig, batch: Batch, original: Observation | None
    ) -> Changes:
        """Return what the perturbed view reads in place of the batch's own inputs."""
        if config.reads_ciphers:
            return _enciphered(batch)
        inputs: dict[str, Tensor] = {}
        zeroed: dict[str, Tensor] = {}
        groups = self._group_probabilities(batch, original, config)
        # One generator draws for all streams in order; those left out draw nothing.
        generator = self._generator(batch, "perturb")
        for stream, by_group in zip(self.observer.streams, groups, strict=True):
            chosen = [p for name, p in by_group.items() if config.sides in ("both", name)]
            if not chosen:
                continue
            replacement = self.replacements[stream.name]
            ids = tensors(batch)[stream.ids]
            starts = self._word_starts(batch)
            inputs[stream.ids], selected = perturb(
                ids,
                _add(chosen),
                replacement,
                generator=generator,
                heads=None if starts is None else stream_heads(stream, batch, starts),
            )
            if isinstance(replacement, Zero):
                zeroed[stream.name] = selected
        return Changes(inputs=inputs, zeroed=zeroed)

    def _word_starts(self, batch: Batch) -> Tensor | None:
        """Return the table of word starts on the device of a batch."""
        device = batch["input_ids"].device
        if self.word_starts is not None and self.word_starts.device != device:
            self.word_starts = self.word_starts.to(device)
        return self.word_starts

    def _generator(self, batch: Batch, purpose: str) -> torch.Generator:
        """Open the generator of a batch for a purpose."""
        device = batch["input_ids"].device
        return seeded_generator(self.seed, purpose, *batch["noise_key"], device=device)

    def _combined(
        self,
        config: AugmentConfig,
        original: Observation | None,
        perturbed: Observation,
        batch: Batch,
    ) -> Losses:
        smoothing = self.label_smoothing
        count = _count(perturbed.positions)
        agreement = None
        if config.weight_agreement > 0:
            agreement = AgreementTerm(
                config.weight_agreement,
                config.agreement,
                stop_first=config.agreement_stop == "original",
            )
        if original is None or (config.weight_original == 0 and agreement is None):
            terms = Terms(nll_weights=(config.weight_perturbed,), smoothing=smoothing)
            sums = self._sums([perturbed], batch, terms)
            return Losses(sums.total, count, perturbed=sums.nlls[0])
        weights = (config.weight_original, config.weight_perturbed)
        terms = Terms(nll_weights=weights, smoothing=smoothing, agreement=agreement)
        sums = self._sums([original, perturbed], batch, terms)
        return Losses(
            sums.total,
            count,
            original=sums.nlls[0],
            perturbed=sums.nlls[1],
            agreement=sums.agreement,
        )


def _count(positions: Tensor) -> Tensor:
    # Filled on the device: a copy from the host would wait for it.
    return torch.full((), len(positions), device=positions.device)


def _add(probabilities: Sequence[Tensor]) -> Tensor:
    """Add up the probabilities of role groups, which share no token."""
    first, *others = probabilities
    for other in others:
        first = first + other
    return first


def _enciphered(batch: Batch) -> Changes:
    """Return the enciphered source of a batch."""
    if "cipher_input_ids" not in batch:
        raise ValueError("the batch has no enciphered source: cut it with `CipheredWindows`")
    return Changes(
        inputs={
            "input_ids": batch["cipher_input_ids"],
            "attention_mask": batch["cipher_attention_mask"],
        }
    )
