"""How much each token matters to the model: φ.

One non-negative score per token and stream, detached from every graph. Scores are compared only
within a row. Nothing here standardises, selects or edits tokens: see `selection` and
`perturbation`.

Importance and replacement probability of every token of given windows, dropout off.

What training draws from, for a look from outside: the same measures, statistics and rules, on
windows that are not trained on.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from iada.config.method import AugmentConfig, Measure
from iada.data.windows.batch import Batch, Collator, to_device
from iada.data.windows.sampler import TokenBatchSampler
from iada.data.windows.windows import Windows
from iada.method.selection import at_least_float32, configured_probability, spread, standardize
from iada.models.observation import Observation, Observer
from iada.seeding import generator as seeded_generator

NllGradient = Callable[[Tensor, Tensor, float], Tensor]
"""From (tokens, dim) hidden states, (tokens,) labels and the label smoothing to the gradient of
the summed NLL at the hidden states."""


def hidden_state_norm(states: Tensor) -> Tensor:
    """TNorm (eqs. 9 and 10): the L2 norm of each topmost state.

    Args:
        states: (batch, length, dim).

    Returns:
        (batch, length), float32 or better, detached.
    """
    norms: Tensor = torch.linalg.vector_norm(at_least_float32(states.detach()), dim=-1)
    return norms


def gradient_norm(
    loss: Tensor, embeddings: Sequence[Tensor], *, gradient: Tensor | None = None
) -> tuple[Tensor, ...]:
    """GNorm (eq. 11): the L2 norm of d loss / d embedding of each token.

    The embeddings are lookup *outputs*, one per position, not rows of the weight matrix: a type
    that occurs twice gets two scores, and the tied output projection does not leak in.

    Args:
        loss: scalar, summed over instances. Instances do not interact, so the gradient of the sum
            holds each instance's own gradient. Or any tensor on the way to the loss.
        embeddings: per stream (batch, length, dim), in the graph of `loss`, which survives.
        gradient: the gradient at `loss`, if that is not the loss itself.

    Returns:
        Per stream (batch, length), float32 or better, detached.
    """
    # `grad`, not `backward`: gradients of parameters are neither needed nor to be touched, since
    # those of the previous micro-batch are still accumulating.
    gradients = torch.autograd.grad(loss, list(embeddings), gradient, retain_graph=True)
    return tuple(hidden_state_norm(gradient) for gradient in gradients)


def measured(
    observation: Observation,
    batch: Batch,
    *,
    measure: Measure,
    smoothing: float = 0.0,
    nll_gradient: NllGradient | None = None,
) -> tuple[Tensor, ...]:
    """Read φ of every stream off a forward pass.

    GNorm's loss is the NLL of each instance, averaged over its loss tokens. The average cancels
    in z-scores; it only fixes the scale for the variants that are not normalised.

    Args:
        observation: the forward pass; GNorm needs its graph.
        batch: what it read.
        measure: TNorm or GNorm.
        smoothing: label smoothing of GNorm's loss.
        nll_gradient: starts GNorm at the hidden states, so that no logits are needed.
    """
    if measure == "tnorm":
        return tuple(hidden_state_norm(state) for state in observation.states)
    if measure != "gnorm":
        raise ValueError(f"`{measure}` is not measured on a model")
    labels = batch["labels"]
    targets = labels.reshape(-1)[observation.positions]
    if nll_gradient is None:
        loss = cross_entropy(
            at_least_float32(observation.logits),
            targets,
            reduction="sum",
            label_smoothing=smoothing,
        )
        norms = gradient_norm(loss, observation.embeddings)
    else:
        gradient = nll_gradient(observation.hidden.detach(), targets, smoothing)
        norms = gradient_norm(observation.hidden, observation.embeddings, gradient=gradient)
    tokens = (labels >= 0).sum(dim=1, keepdim=True).clamp(min=1)
    return tuple(norm / tokens for norm in norms)


def importance(model: torch.nn.Module, batch: Batch, measure: Measure) -> tuple[Tensor, Tensor]:
    """Measure φ of source and decoder-input tokens with dropout off, for a look from outside.

    Returns:
        Two tensors, (batch, source length) and (batch, target length); 0 on padding for GNorm.
    """
    observer = Observer(model)
    try:
        source, target = separate_importance(observer, batch, AugmentConfig(measure=measure))
    finally:
        observer.remove()
    return source, target


def separate_importance(
    observer: Observer,
    batch: Batch,
    config: AugmentConfig,
    *,
    nll_gradient: NllGradient | None = None,
) -> tuple[Tensor, ...]:
    """Measure φ in a forward pass of its own, with dropout off; see `measured`."""
    model = observer.model
    training = model.training
    model.eval()
    try:
        with torch.set_grad_enabled(config.measure == "gnorm"):
            needs_logits = config.measure == "gnorm" and nll_gradient is None
            return measured(
                observer.forward(batch, project=needs_logits),
                batch,
                measure=config.measure,
                smoothing=config.gnorm_smoothing,
                nll_gradient=nll_gradient,
            )
    finally:
        model.train(training)


def present_tokens(batch: Batch) -> tuple[Tensor, Tensor]:
    """(batch, length) per stream: positions that are not padding.

    A decoder row ends where its last label stands.
    """
    labelled = batch["labels"] >= 0
    seen = labelled.long().cumsum(dim=1)
    return batch["attention_mask"].bool(), labelled | (seen < seen[:, -1:])


@dataclass(frozen=True)
class MeasuredStream:
    """The tokens of one side of a batch; every tensor is (rows, length)."""

    ids: Tensor
    roles: Tensor
    importance: Tensor
    """φ, in the measure's own unit; 0 for the measures `uniform` and `random`."""
    z: Tensor
    """Standard deviations above the mean of the row; 0 on special tokens."""
    probability: Tensor
    """Probability that augmentation replaces the token; 0 on special tokens."""


@dataclass(frozen=True)
class MeasuredBatch:
    """Some windows, measured."""

    numbers: tuple[int, ...]
    """Which windows the rows are."""
    source: MeasuredStream
    target: MeasuredStream


def measure_windows(
    model: nn.Module,
    windows: Windows,
    config: AugmentConfig,
    *,
    max_tokens: int,
    seed: int,
) -> Iterator[MeasuredBatch]:
    """Measure all windows, in batches of like lengths.

    Args:
        model: the model to ask.
        windows: what to measure.
        config: measure, statistics, probabilities and directions.
        max_tokens: budget of a batch, padding included: rows times the longer side.
        seed: of the scores of the measure `random`.
    """
    sampler = TokenBatchSampler(windows.lengths(), max_tokens=max_tokens, seed=seed)
    collate = Collator(windows.store.special.pad)
    device = next(model.parameters()).device
    observer = Observer(model, state_point=config.tnorm_at)
    try:
        for keys in sampler:
            batch = to_device(collate(windows.__getitems__(keys)), device)
            source, target = measure_batch(observer, batch, config, seed=seed)
            yield MeasuredBatch(tuple(number for _, number in keys), source, target)
    finally:
        observer.remove()


def measure_batch(
    observer: Observer, batch: Batch, config: AugmentConfig, *, seed: int
) -> tuple[MeasuredStream, MeasuredStream]:
    """Measure source and decoder input of one batch; arguments as in `measure_windows`."""
    ids = (batch["input_ids"], batch["decoder_input_ids"])
    roles = (batch["source_roles"], batch["target_roles"])
    counted = present_tokens(batch) if config.statistics_specials else (None, None)
    scores: Sequence[Tensor]
    if config.measure in ("tnorm", "gnorm"):
        scores = separate_importance(observer, batch, replace(config, importance_pass="separate"))
        psi = tuple(
            spread(score, role, alpha=config.alpha, normalize=config.normalize, counted=counts)
            for score, role, counts in zip(scores, roles, counted, strict=True)
        )
    else:
        scores = tuple(torch.zeros(role.shape, device=role.device) for role in roles)
        psi = scores if config.measure == "uniform" else _random(batch, roles, config, seed)
    source, target = (
        MeasuredStream(
            ids=stream_ids,
            roles=stream_roles,
            importance=score,
            z=standardize(score, stream_roles, alpha=1.0, counted=counts),
            probability=configured_probability(stream_psi, stream_roles, config),
        )
        for stream_ids, stream_roles, score, stream_psi, counts in zip(
            ids, roles, scores, psi, counted, strict=True
        )
    )
    return source, target


def _random(
    batch: Batch, roles: tuple[Tensor, Tensor], config: AugmentConfig, seed: int
) -> tuple[Tensor, ...]:
    device = roles[0].device
    generator = seeded_generator(seed, "random_scores", *batch["noise_key"], device=device)
    return tuple(
        config.alpha * torch.randn(role.shape, generator=generator, device=device) for role in roles
    )
