"""How much each token matters to the model: φ.

One score per token and stream, detached from every graph. Scores are compared only within a row and
a role group. `selection` turns them into probabilities, `perturbation` edits
tokens.

A measure says what it needs of the forward pass and computes the scores from it. `MEASURES` lists
them all; a further one is a function, a line in that table and its name in `AugmentConfig`.
`iada.method.measuring` applies them outside training.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from iada.config.method import AugmentConfig, Measure
from iada.data.windows.batch import Batch, Role, without_context
from iada.errors import ModelError
from iada.method.fused import nll_gradient, token_nll
from iada.method.kept_logits import KeptLogits
from iada.method.selection import (
    Scores,
    at_least_float32,
    scores_of_units,
)
from iada.models.observation import LinearProjection, Observation, Observer, Stream, tensors
from iada.seeding import generator as seeded_generator


def hidden_state_norm(states: Tensor) -> Tensor:
    """TNorm (eqs. 9 and 10): the L2 norm of each topmost state.

    Args:
        states: (batch, length, dim).

    Returns:
        (batch, length), float32 or better, detached.
    """
    norms: Tensor = torch.linalg.vector_norm(at_least_float32(states.detach()), dim=-1)
    return norms


def embedding_gradients(
    loss: Tensor, embeddings: Sequence[Tensor], *, gradient: Tensor | None = None
) -> tuple[Tensor, ...]:
    """Return d loss / d embedding of each token.

    The embeddings are lookup *outputs*, one per position, not rows of the weight matrix: a type
    that occurs twice gets two scores, and the tied output projection does not leak in.

    Args:
        loss: scalar, summed over instances. Instances do not interact, so the gradient of the sum
            holds each instance's own gradient. Or any tensor on the way to the loss.
        embeddings: per stream (batch, length, dim), in the graph of `loss`, which survives.
        gradient: the gradient at `loss`, if that is not the loss itself.

    Returns:
        Per stream (batch, length, dim), detached.
    """
    # `grad`, not `backward`: gradients of parameters are neither needed nor to be touched, since
    # those of the previous micro-batch are still accumulating.
    return torch.autograd.grad(loss, list(embeddings), gradient, retain_graph=True)


def gradient_norm(
    loss: Tensor, embeddings: Sequence[Tensor], *, gradient: Tensor | None = None
) -> tuple[Tensor, ...]:
    """GNorm (eq. 11): the L2 norm of d loss / d embedding of each token.

    Arguments as in `embedding_gradients`.

    Returns:
        Per stream (batch, length), float32 or better, detached.
    """
    gradients = embedding_gradients(loss, embeddings, gradient=gradient)
    return tuple(hidden_state_norm(gradient) for gradient in gradients)


def input_share(gradient: Tensor, embedding: Tensor) -> Tensor:
    """Return |e · ∂L/∂e|, (batch, length), of gradients and embeddings (batch, length, dim)."""
    product = at_least_float32(gradient) * at_least_float32(embedding.detach())
    return product.sum(dim=-1).abs()


Needs = Literal["nothing", "states", "predictions", "gradients", "contrast"]
"""What a measure needs: no model at all; a forward pass, of which it reads embeddings and topmost
states; the predictions at the loss positions too; a forward pass with its graph, to take gradients
of the loss at the embeddings; or predictions with and without context, both with dropout off."""


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What a measure may read."""

    batch: Batch
    streams: tuple[Stream, ...]
    observation: Observation | None
    """The forward pass; None for measures that need nothing."""
    alone: tuple[Batch, Observation, Tensor] | None = None
    """The batch without context, the forward pass on it, and where tokens went; for a contrast."""
    projection: LinearProjection | None = None
    """The last step of the model, if the losses are fused with it and no logits exist."""
    smoothing: float = 0.0
    """Label smoothing of the loss whose gradient is taken."""
    keep: KeptLogits | None = None
    """Memory for logits that the losses will need again."""
    seed: int = 0
    """Seed of random scores."""

    @property
    def seen(self) -> Observation:
        """The forward pass, for measures that need one."""
        assert self.observation is not None
        return self.observation

    def ids(self) -> list[Tensor]:
        """(rows, length) per stream: the tokens."""
        return [tensors(self.batch)[stream.ids] for stream in self.streams]


@dataclass(frozen=True)
class ImportanceMeasure:
    """A way to say how important tokens are."""

    needs: Needs
    scores: Callable[[Evidence], tuple[Scores, ...]]
    """Scores of every stream, in order."""

    @property
    def needs_logits(self) -> bool:
        """Whether the scores depend on what the model predicts."""
        return self.needs in ("predictions", "gradients", "contrast")

    @property
    def is_read_off_training(self) -> bool:
        """Whether the forward pass of the original view can serve."""
        return self.needs not in ("nothing", "contrast")

    @property
    def is_measured(self) -> bool:
        """Whether the scores say anything about the model."""
        return self.needs != "nothing"


def _tnorm(evidence: Evidence) -> tuple[Scores, ...]:
    return tuple(Scores(hidden_state_norm(state)) for state in evidence.seen.states)


def _loss_gradients(
    evidence: Evidence, chosen: Tensor | None = None
) -> tuple[tuple[Tensor, ...], Tensor]:
    """Return the gradient at the embeddings of each stream, and the loss tokens of each row.

    The loss is the NLL of each instance, averaged over its loss tokens. The average cancels in
    z-scores; it only fixes the scale for the variants without them.

    Args:
        evidence: the forward pass, with its graph.
        chosen: (rows, label positions) bool, loss tokens to count; all of them by default.
    """
    labels, observation = evidence.batch["labels"], evidence.seen
    targets = labels.reshape(-1)[observation.positions]
    in_loss = labels >= 0
    weights = None
    if chosen is not None:
        in_loss = in_loss & chosen
        weights = in_loss.reshape(-1)[observation.positions]
    if evidence.projection is None:
        loss = cross_entropy(
            at_least_float32(observation.logits),
            targets,
            reduction="sum" if weights is None else "none",
            label_smoothing=evidence.smoothing,
        )
        if weights is not None:
            loss = (loss * weights).sum()
        gradients = embedding_gradients(loss, observation.embeddings)
    else:
        # Starts at the hidden states, so that no logits are needed.
        gradient = nll_gradient(
            evidence.projection,
            observation.hidden.detach(),
            targets,
            smoothing=evidence.smoothing,
            keep=evidence.keep,
        )
        if weights is not None:
            gradient = gradient * weights[:, None]
        gradients = embedding_gradients(
            observation.hidden, observation.embeddings, gradient=gradient
        )
    return gradients, in_loss.sum(dim=1, keepdim=True).clamp(min=1)


def _gnorm(evidence: Evidence) -> tuple[Scores, ...]:
    gradients, tokens = _loss_gradients(evidence)
    return tuple(Scores(hidden_state_norm(gradient) / tokens) for gradient in gradients)


def _grad_input(evidence: Evidence) -> tuple[Scores, ...]:
    """Score by |e · ∂L/∂e|: what the loss would change, to first order, without the embedding."""
    gradients, tokens = _loss_gradients(evidence)
    return tuple(
        Scores(input_share(gradient, embedding) / tokens)
        for gradient, embedding in zip(gradients, evidence.seen.embeddings, strict=True)
    )


def _context_gradient(evidence: Evidence) -> tuple[Scores, ...]:
    """Score context tokens by the gradient norm of the current sentence's loss alone."""
    values = tensors(evidence.batch)
    current = values["target_roles"] == Role.CURRENT
    # The labels of a sentence stand at its tokens and at the one before; the last is its end.
    of_current = current.clone()
    of_current[:, :-1] |= current[:, 1:]
    gradients, tokens = _loss_gradients(evidence, of_current)
    scores = []
    for stream, gradient in zip(evidence.streams, gradients, strict=True):
        roles = torch.stack([values[group.roles] for group in stream.groups])
        in_context = roles.eq(Role.CONTEXT).any(dim=0)
        scores.append(Scores(hidden_state_norm(gradient) / tokens, known=in_context))
    return tuple(scores)


def _embedding_norm(evidence: Evidence) -> tuple[Scores, ...]:
    return tuple(Scores(hidden_state_norm(vectors)) for vectors in evidence.seen.embeddings)


def _surprisal(evidence: Evidence) -> tuple[Scores, ...]:
    """Score target tokens by their NLL; those outside the loss, and the source, have no score."""
    return _target_scores(evidence, *_target_nll(evidence, evidence.batch, evidence.seen))


def _target_nll(
    evidence: Evidence, batch: Batch, observation: Observation
) -> tuple[Tensor, Tensor]:
    """(rows, target length): NLL of the decoder input tokens, and which of them have one.

    The NLL of a token is found where the token before it is the input.
    """
    labels = batch["labels"]
    targets = labels.reshape(-1)[observation.positions]
    if evidence.projection is None:
        nll = cross_entropy(at_least_float32(observation.logits), targets, reduction="none")
    else:
        nll = token_nll(evidence.projection, observation.hidden, targets)
    values = nll.new_zeros(labels.numel()).index_copy(0, observation.positions, nll.detach())
    known = (labels >= 0).roll(1, dims=1)
    known[:, 0] = False
    return values.view(labels.shape).roll(1, dims=1), known


def _target_scores(evidence: Evidence, values: Tensor, known: Tensor) -> tuple[Scores, ...]:
    """Return scores of the last stream alone."""
    nowhere = [torch.zeros_like(ids, dtype=torch.bool) for ids in evidence.ids()[:-1]]
    return (
        *(Scores(none.to(values.dtype), known=none) for none in nowhere),
        Scores(values.masked_fill(~known, 0.0), known=known),
    )


def _p_cxmi(evidence: Evidence) -> tuple[Scores, ...]:
    """Score tokens of the current target sentence by log p(y | x, C) − log p(y | x)."""
    assert evidence.alone is not None
    batch, observation, places = evidence.alone
    seen, known = _target_nll(evidence, evidence.batch, evidence.seen)
    unseen, _ = _target_nll(evidence, batch, observation)
    gained = unseen.gather(1, places.clamp(0, unseen.shape[1] - 1)) - seen
    return _target_scores(
        evidence, gained, known & (evidence.batch["target_roles"] == Role.CURRENT)
    )


def _random(evidence: Evidence) -> tuple[Scores, ...]:
    streams = evidence.ids()
    device = streams[0].device
    key = evidence.batch["noise_key"]
    generator = seeded_generator(evidence.seed, "random_scores", *key, device=device)
    return tuple(
        Scores(torch.randn(ids.shape, generator=generator, device=device), is_standard=True)
        for ids in streams
    )


def _uniform(evidence: Evidence) -> tuple[Scores, ...]:
    return tuple(
        Scores(torch.zeros(ids.shape, device=ids.device), is_standard=True)
        for ids in evidence.ids()
    )


MEASURES: dict[str, ImportanceMeasure] = {
    "tnorm": ImportanceMeasure("states", _tnorm),
    "gnorm": ImportanceMeasure("gradients", _gnorm),
    "grad_input": ImportanceMeasure("gradients", _grad_input),
    "context_gradient": ImportanceMeasure("gradients", _context_gradient),
    "surprisal": ImportanceMeasure("predictions", _surprisal),
    "p_cxmi": ImportanceMeasure("contrast", _p_cxmi),
    "embedding_norm": ImportanceMeasure("states", _embedding_norm),
    "random": ImportanceMeasure("nothing", _random),
    "uniform": ImportanceMeasure("nothing", _uniform),
}
"""All measures, by the names that `augment.measure` accepts."""


def measure_tokens(
    observer: Observer,
    batch: Batch,
    config: AugmentConfig,
    *,
    original: Observation | None = None,
    projection: LinearProjection | None = None,
    word_starts: Tensor | None = None,
    seed: int = 0,
    keep: KeptLogits | None = None,
) -> tuple[Scores, ...]:
    """Score every token of every stream.

    Args:
        observer: of the model to ask.
        batch: what to score.
        config: which measure, and its settings.
        original: a forward pass on the batch to read the scores off, with its graph if the measure
            needs gradients. Without it the model runs once more, with dropout off.
        projection: see `Evidence`.
        word_starts: (vocabulary,) bool, whether a word begins with a piece; for the unit `word`.
        seed: of random scores.
        keep: memory for logits of `original` that the losses will need again.
    """
    measure = MEASURES[config.measure]
    if config.unit == "piece":
        word_starts = None
    else:
        assert word_starts is not None
    model, needs_graph = observer.model, measure.needs == "gradients"
    projects = measure.needs_logits and projection is None

    def score(observation: Observation | None) -> tuple[Scores, ...]:
        evidence = Evidence(
            batch=batch,
            streams=observer.streams,
            observation=observation,
            alone=_alone(observer, batch, config, projects)
            if measure.needs == "contrast"
            else None,
            projection=projection,
            smoothing=config.gnorm_smoothing,
            seed=seed,
            keep=keep,
        )
        scores = measure.scores(evidence)
        return scores_of_units(scores, observer.streams, batch, word_starts)

    with torch.set_grad_enabled(needs_graph):
        if not measure.is_measured or (original is not None and measure.is_read_off_training):
            return score(original)
        training = model.training
        model.eval()
        try:
            return score(
                observer.forward(batch, project=projects, needs_states=measure.needs == "states")
            )
        finally:
            model.train(training)


def _alone(
    observer: Observer, batch: Batch, config: AugmentConfig, projects: bool
) -> tuple[Batch, Observation, Tensor]:
    """Run the model on the current parts without their context."""
    if len(observer.streams) != 2:
        raise ModelError(
            f"`augment.measure: {config.measure}` takes context away, which is known only for "
            "encoder-decoders. Choose another measure for a causal language model."
        )
    cut, places = without_context(batch)
    return cut, observer.forward(cut, project=projects, needs_states=False), places


def importance(model: nn.Module, batch: Batch, measure: Measure) -> tuple[Tensor, ...]:
    """Measure φ of the tokens of every stream with dropout off.

    Returns:
        (batch, length) for each stream: source and decoder input, or the only sequence of a causal
        language model. 0 on padding for GNorm.
    """
    if not MEASURES[measure].is_measured:
        raise ValueError(f"`{measure}` is not measured on a model")
    observer = Observer(model)
    try:
        scores = measure_tokens(observer, batch, AugmentConfig(measure=measure))
    finally:
        observer.remove()
    return tuple(stream.values for stream in scores)
