"""The training loss: original NLL, perturbed NLL and their agreement (eq. 12).

One call runs the whole algorithm on a micro-batch: original forward, importance, replacement
probabilities, perturbation, perturbed forward, losses. It returns sums and a count; dividing by
the number of tokens of the update is the trainer's affair.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from iada.augment.importance import measured, present_tokens, separate_importance
from iada.augment.perturbation import Drop, Replace, Replacement, perturb
from iada.augment.selection import configured_probability, spread
from iada.config.augment import AugmentConfig
from iada.data.collate import Batch
from iada.errors import ModelError
from iada.models.observation import Observation, Observer
from iada.objective.agreement import jensen_shannon, symmetric_kl
from iada.objective.nll import nll_sum
from iada.seeding import generator as seeded_generator


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
        label_smoothing: float = 0.1,
        seed: int = 1,
    ) -> None:
        """Prepare the objective.

        Args:
            model: a Hugging Face encoder-decoder.
            config: measure, replacement, probabilities and weights.
            replacement: what replaces a token; by default made from the model's own configuration.
            label_smoothing: smoothing of both NLL terms in training.
            seed: seed of the perturbation noise.
        """
        self.model = model
        self.config = config
        self.replacement = replacement or default_replacement(model, config)
        self.label_smoothing = label_smoothing
        self.seed = seed
        self.observer = Observer(model, state_point=config.tnorm_at)

    def __call__(self, batch: Batch, *, update: int = 0, module: nn.Module | None = None) -> Losses:
        """Compute the loss; without perturbation and smoothing when the model is in eval mode.

        Args:
            batch: a batch with roles.
            update: number of the update, for `augment.start_update`.
            module: the wrapper (DDP, compiled) to call in place of the model itself.
        """
        config = self.config
        labels = batch["labels"]
        labels = labels[labels >= 0]
        count = torch.tensor(len(labels), device=labels.device)
        if not self.model.training:
            nll = nll_sum(self.observer.forward(batch, module=module).logits, labels)
            return Losses(nll, count, original=nll.detach())
        if not config.perturbs or update < config.start_update:
            logits = self.observer.forward(batch, module=module).logits
            nll = nll_sum(logits, labels, smoothing=self.label_smoothing)
            return Losses(nll, count, original=nll.detach())
        original = self._original_view(batch, module)
        ids, decoder_ids = self._perturbed_ids(batch, original)
        perturbed = self.observer.forward(
            batch, input_ids=ids, decoder_input_ids=decoder_ids, module=module
        )
        return self._combined(original, perturbed, labels, count)

    def _original_view(self, batch: Batch, module: nn.Module | None) -> Observation | None:
        """Run the original forward if a loss or the importance needs it."""
        config = self.config
        reused = config.measure in ("tnorm", "gnorm") and config.importance_pass == "reuse"
        if not (config.weight_original > 0 or config.weight_agreement > 0 or reused):
            return None
        needs_graph = config.learns_from_original or (reused and config.measure == "gnorm")
        # Only a view that is learned from goes through the wrapper: DDP must see each of its
        # forwards take part in the backward pass.
        with torch.set_grad_enabled(needs_graph):
            return self.observer.forward(
                batch, module=module if config.learns_from_original else None
            )

    @torch.no_grad()
    def probabilities(self, batch: Batch, original: Observation | None) -> tuple[Tensor, ...]:
        """Return the replacement probability of every token of every stream."""
        config = self.config
        roles = (batch["source_roles"], batch["target_roles"])
        if config.measure == "uniform":
            psi = tuple(torch.zeros(r.shape, device=r.device) for r in roles)
        elif config.measure == "random":
            generator = self._generator(batch, "random_scores")
            psi = tuple(
                config.alpha * torch.randn(r.shape, generator=generator, device=r.device)
                for r in roles
            )
        else:
            psi = self._spread_importance(batch, original, roles)
        return tuple(
            configured_probability(stream_psi, stream_roles, config)
            for stream_psi, stream_roles in zip(psi, roles, strict=True)
        )

    def _spread_importance(
        self, batch: Batch, original: Observation | None, roles: tuple[Tensor, ...]
    ) -> tuple[Tensor, ...]:
        config = self.config
        with torch.enable_grad():
            if original is None or config.importance_pass == "separate":
                scores = separate_importance(self.observer, batch, config)
            else:
                scores = measured(
                    original, batch, measure=config.measure, smoothing=config.gnorm_smoothing
                )
        counted: tuple[Tensor | None, ...] = (None,) * len(roles)
        if config.statistics_specials:
            counted = present_tokens(batch)
        return tuple(
            spread(
                stream_scores,
                stream_roles,
                alpha=config.alpha,
                normalize=config.normalize,
                counted=stream_counted,
            )
            for stream_scores, stream_roles, stream_counted in zip(
                scores, roles, counted, strict=True
            )
        )

    def _perturbed_ids(self, batch: Batch, original: Observation | None) -> tuple[Tensor, ...]:
        streams = (batch["input_ids"], batch["decoder_input_ids"])
        probabilities = self.probabilities(batch, original)
        generator = self._generator(batch, "perturb")
        sides = ("source", "target")
        return tuple(
            perturb(ids, probability, self.replacement, generator=generator)[0]
            if self.config.sides in ("both", side)
            else ids
            for side, ids, probability in zip(sides, streams, probabilities, strict=True)
        )

    def _generator(self, batch: Batch, purpose: str) -> torch.Generator:
        """Open the batch's own stream of random numbers for a purpose."""
        device = batch["input_ids"].device
        return seeded_generator(self.seed, purpose, *batch["noise_key"], device=device)

    def _combined(
        self, original: Observation | None, perturbed: Observation, labels: Tensor, count: Tensor
    ) -> Losses:
        config, smoothing = self.config, self.label_smoothing
        terms: dict[str, Tensor] = {}
        total = torch.zeros((), device=labels.device)
        if config.weight_perturbed > 0:
            terms["perturbed"] = nll_sum(perturbed.logits, labels, smoothing=smoothing)
            total = total + config.weight_perturbed * terms["perturbed"]
        if original is not None and config.weight_original > 0:
            terms["original"] = nll_sum(original.logits, labels, smoothing=smoothing)
            total = total + config.weight_original * terms["original"]
        if original is not None and config.weight_agreement > 0:
            anchor = original.logits
            if config.agreement_stop == "original":
                anchor = anchor.detach()
            divergence = symmetric_kl if config.agreement == "symmetric_kl" else jensen_shannon
            terms["agreement"] = divergence(anchor, perturbed.logits)
            total = total + config.weight_agreement * terms["agreement"]
        detached = {name: term.detach() for name, term in terms.items()}
        return Losses(
            total,
            count,
            original=detached.get("original"),
            perturbed=detached.get("perturbed"),
            agreement=detached.get("agreement"),
        )


def default_replacement(model: nn.Module, config: AugmentConfig) -> Replacement:
    """Make Ω from what a model's configuration says of its vocabulary."""
    settings: Any = model.config
    names = ("pad", "bos", "eos", "unk", "decoder_start", "sep", "mask")
    ids = {name: getattr(settings, f"{name}_token_id", None) for name in names}
    if config.replacement == "replace":
        return Replace(settings.vocab_size, [i for i in ids.values() if i is not None])
    if ids["mask"] is None:
        if not config.perturbs:
            return Drop(ids["pad"] or 0)
        raise ModelError(
            f"{type(model).__name__} names no mask token. Pass `replacement=Drop(mask_id)`."
        )
    return Drop(ids["mask"])
