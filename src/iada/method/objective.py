"""The training loss: original NLL, perturbed NLL and their agreement (eq. 12).

One call runs the whole algorithm on a micro-batch: original forward, importance, replacement
probabilities, perturbation, perturbed forward, losses. It returns sums and a count; dividing by
the number of tokens of the update is the trainer's affair.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from iada.config.method import AugmentConfig
from iada.data.windows.batch import Batch
from iada.errors import ModelError
from iada.method.fused import fused_losses, nll_gradient
from iada.method.importance import measured, present_tokens, separate_importance
from iada.method.losses import Agreement, Sums, Terms, plain_losses
from iada.method.perturbation import Drop, Replace, Replacement, Zero, perturb
from iada.method.selection import configured_probability, settings_at, spread
from iada.models.observation import Changes, Observation, Observer, loss_positions
from iada.models.projection import linear_projection
from iada.seeding import generator as seeded_generator

Computation = Literal["fused", "plain"]
SIDES = ("source", "target")


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
        computation: Computation = "fused",
    ) -> None:
        """Prepare the objective.

        Args:
            model: a Hugging Face encoder-decoder.
            config: measure, replacement, probabilities and weights.
            replacement: what replaces a token; by default made from the model's own configuration.
            label_smoothing: smoothing of both NLL terms in training.
            seed: seed of the perturbation noise.
            computation: losses chunk by chunk together with the output projection, or from whole
                matrices of logits. The result is the same. A model whose logits are no plain
                linear map of its states always gets the second: see `linear_projection`.
        """
        self.model = model
        self.config = config
        self.replacement = replacement or default_replacement(model, config)
        self.label_smoothing = label_smoothing
        self.seed = seed
        self.observer = Observer(model, state_point=config.tnorm_at)
        self.projection = linear_projection(model) if computation == "fused" else None

    def __call__(self, batch: Batch, *, update: int = 0, module: nn.Module | None = None) -> Losses:
        """Compute the loss; without perturbation and smoothing when the model is in eval mode.

        Args:
            batch: a batch with roles.
            update: number of the update, for what depends on it; see `settings_at`.
            module: the wrapper (DDP, compiled) to call in place of the model itself.
        """
        config = settings_at(self.config, update)
        # Found once: on a GPU the host waits for the number of positions.
        positions = loss_positions(batch["labels"])
        if not self.model.training or not config.perturbs or update < config.start_update:
            view = self._forward(batch, positions, module=module)
            smoothing = self.label_smoothing if self.model.training else 0.0
            sums = self._sums([view], batch, Terms(nll_weights=(1.0,), smoothing=smoothing))
            return Losses(sums.total, _count(positions), original=sums.nlls[0])
        original = self._original_view(config, batch, positions, module)
        changes = self._changes(config, batch, original)
        perturbed = self._forward(batch, positions, changes, module=module)
        return self._combined(config, original, perturbed, batch)

    def _forward(
        self,
        batch: Batch,
        positions: Tensor,
        changes: Changes | None = None,
        *,
        module: nn.Module | None = None,
        project: bool = True,
    ) -> Observation:
        return self.observer.forward(
            batch,
            changes,
            module=module,
            positions=positions,
            project=project and self.projection is None,
        )

    def _sums(self, views: Sequence[Observation], batch: Batch, terms: Terms) -> Sums:
        labels = batch["labels"].reshape(-1)[views[0].positions]
        if self.projection is None:
            return plain_losses([view.logits for view in views], labels, terms)
        return fused_losses(self.projection, [view.hidden for view in views], labels, terms)

    def _nll_gradient(self, states: Tensor, labels: Tensor, smoothing: float) -> Tensor:
        assert self.projection is not None
        return nll_gradient(self.projection, states, labels, smoothing=smoothing)

    def _original_view(
        self, config: AugmentConfig, batch: Batch, positions: Tensor, module: nn.Module | None
    ) -> Observation | None:
        """Run the original forward if a loss or the importance needs it."""
        in_the_loss = config.weight_original > 0 or config.weight_agreement > 0
        reused = config.measure in ("tnorm", "gnorm") and config.importance_pass == "reuse"
        if not (in_the_loss or reused):
            return None
        differentiated = reused and config.measure == "gnorm"
        # Only a view that is learned from goes through the wrapper: DDP must see each of its
        # forwards take part in the backward pass.
        with torch.set_grad_enabled(config.learns_from_original or differentiated):
            return self._forward(
                batch,
                positions,
                module=module if config.learns_from_original else None,
                project=in_the_loss or differentiated,
            )

    @torch.no_grad()
    def probabilities(
        self, batch: Batch, original: Observation | None, config: AugmentConfig | None = None
    ) -> tuple[Tensor, ...]:
        """Return the replacement probability of every token of every stream.

        Args:
            batch: a batch with roles.
            original: its original view, if importance is read off it.
            config: the settings of an update, if they are others than the objective's own.
        """
        config = config or self.config
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
        start = None if self.projection is None else self._nll_gradient
        with torch.enable_grad():
            if original is None or config.importance_pass == "separate":
                scores = separate_importance(self.observer, batch, config, nll_gradient=start)
            else:
                scores = measured(
                    original,
                    batch,
                    measure=config.measure,
                    smoothing=config.gnorm_smoothing,
                    nll_gradient=start,
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

    def _changes(
        self, config: AugmentConfig, batch: Batch, original: Observation | None
    ) -> Changes:
        """Return what the perturbed view reads in place of the batch's own inputs."""
        if config.reads_ciphers:
            return _enciphered(batch)
        streams = (batch["input_ids"], batch["decoder_input_ids"])
        probabilities = self.probabilities(batch, original, config)
        generator = self._generator(batch, "perturb")
        (source, source_selected), (target, target_selected) = (
            perturb(ids, probability, self.replacement, generator=generator)
            if config.sides in ("both", side)
            else (ids, None)
            for side, ids, probability in zip(SIDES, streams, probabilities, strict=True)
        )
        zeroed = (source_selected, target_selected) if isinstance(self.replacement, Zero) else None
        return Changes(input_ids=source, decoder_input_ids=target, zeroed=zeroed)

    def _generator(self, batch: Batch, purpose: str) -> torch.Generator:
        """Open the batch's own stream of random numbers for a purpose."""
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
            agreement = Agreement(
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


def _enciphered(batch: Batch) -> Changes:
    """Return the enciphered source of a batch."""
    if "cipher_input_ids" not in batch:
        raise ValueError("the batch has no enciphered source: cut it with `CipheredWindows`")
    return Changes(
        input_ids=batch["cipher_input_ids"], attention_mask=batch["cipher_attention_mask"]
    )


def default_replacement(model: nn.Module, config: AugmentConfig) -> Replacement:
    """Make Ω from what a model's configuration says of its vocabulary."""
    settings: Any = model.config
    names = ("pad", "bos", "eos", "unk", "decoder_start", "sep", "mask")
    ids = {name: getattr(settings, f"{name}_token_id", None) for name in names}
    if config.replacement == "replace":
        return Replace(settings.vocab_size, [i for i in ids.values() if i is not None])
    if config.drop == "zero":
        return Zero()
    if ids["mask"] is None:
        if not config.perturbs:
            return Drop(ids["pad"] or 0)
        raise ModelError(
            f"{type(model).__name__} names no mask token. Pass `replacement=Drop(mask_id)`."
        )
    return Drop(ids["mask"])
