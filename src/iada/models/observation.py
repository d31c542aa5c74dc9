"""What one forward pass shows: hidden states and logits of the loss, embeddings, topmost states.

Works on any Hugging Face encoder-decoder or causal language model without changing it. Hooks read
the output of each stack's embedding lookup (for GNorm) and the tensor that enters each stack's last
normalisation (for TNorm), and let the output projection see only the positions of the loss, or none
of them. They stay inside the model's own forward, so that DDP, autocast and gradient checkpointing
work as always.

The fused objective computes the last step, from hidden states to logits, itself, so it must know it
exactly. `linear_projection` says for which models it may: those whose logits are a plain linear map
of what enters the output projection, plus a bias, possibly with a cap on their size (Gemma 2). What
a model does before that (T5 scales its states) does not matter.

A *stream* is a sequence of input tokens that can be perturbed. An encoder-decoder has two, in this
order: source, decoder input. A causal language model has one, which holds source and target.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from iada.data.windows.batch import Batch
from iada.errors import ModelError
from iada.models.savings import LastLayer, TiedWeight, exact_attention, shortened_rows

StatePoint = Literal["pre_norm", "feed_forward"]


@dataclass(frozen=True)
class RoleGroup:
    """Tokens of a stream that share their importance statistics."""

    name: Literal["source", "target"]
    """Which side of the window they are; `augment.sides` chooses among these names."""
    roles: str
    """Key of the batch: `Role` of each token of the stream, SPECIAL on those of other groups."""


@dataclass(frozen=True, kw_only=True)
class Stream:
    """A sequence of input tokens that can be perturbed."""

    name: str
    ids: str
    """Key of the batch: (rows, length) token ids."""
    mask: str | None = None
    """Key of the batch: (rows, length), 1 where `ids` is not padding. None for a decoder input,
    which ends where the last label of its row stands."""
    groups: tuple[RoleGroup, ...]
    vocabulary_size: int
    """Ids that the stream can hold are below this number: rows of the embedding matrix, and those
    of the target before it where the source has a vocabulary of its own."""

    def present(self, batch: Batch) -> Tensor:
        """(rows, length) bool: positions that are not padding."""
        if self.mask is not None:
            return tensors(batch)[self.mask].bool()
        labelled = batch["labels"] >= 0
        seen = labelled.long().cumsum(dim=1)
        return labelled | (seen < seen[:, -1:])


def tensors(batch: Batch) -> Mapping[str, Tensor]:
    """Return a batch for access by the keys that streams and groups name."""
    return cast("Mapping[str, Tensor]", batch)


@dataclass(frozen=True)
class Observation:
    """What a forward pass showed."""

    positions: Tensor
    """(loss positions,): flat indices into the batch's labels, in row-major order."""
    hidden: Tensor
    """(loss positions, dim): what enters the output projection."""
    logits: Tensor
    """(loss positions, vocabulary); without rows if the projection was left out."""
    embeddings: tuple[Tensor, ...]
    """Per stream (rows, length, dim): the lookup outputs, in the graph of `hidden`."""
    states: tuple[Tensor, ...]
    """Per stream (rows, length, dim): the topmost states, detached; none if nobody needs them and
    the last decoder layer was cut short."""


@dataclass(frozen=True, kw_only=True)
class Changes:
    """What a forward pass reads in place of the batch's own inputs."""

    inputs: Mapping[str, Tensor] = field(default_factory=dict)
    """By the keys of the batch. Source ids may have any length if `attention_mask` changes too."""
    zeroed: Mapping[str, Tensor] = field(default_factory=dict)
    """By the name of the stream: (rows, length) bool, positions whose embedding is multiplied by 0
    as it leaves the lookup, before anything is scaled or added."""


class Observer:
    """Hooks on one model; `forward` runs it and returns an `Observation`.

    Three attributes of a model or its stacks, all optional, are respected. `model.window_inputs`
    names further keys of the batch that its forward takes. `model.source_begins` is the first id of
    a source with a vocabulary of its own. `stack.topmost` is the normalisation whose input TNorm
    reads, or its name below the stack; without it the last one executed is.
    """

    def __init__(self, model: nn.Module, *, state_point: StatePoint = "pre_norm") -> None:
        self.model = model
        stacks = _stacks(model)
        lookups = [_lookup(stack) for stack in stacks]
        self.streams = _streams(lookups, getattr(model, "source_begins", 0))
        self._inputs = ("input_ids", "attention_mask", "decoder_input_ids")[: 1 + len(stacks)]
        self._window_inputs: tuple[str, ...] = getattr(model, "window_inputs", ())
        self._positions: Tensor | None = None
        self._projecting = True
        self._hidden: Tensor | None = None
        self._watching = False
        self._zeroed: Mapping[str, Tensor] = {}
        self._embeddings: list[Tensor] = []
        self._states: list[Tensor | None] = [None] * len(stacks)
        self._reached_top: set[int] = set()
        self._last_layer = LastLayer.of(model)
        self._handles: list[RemovableHandle] = [
            output_projection(model).register_forward_pre_hook(self._select_positions)
        ]
        self.tied_weight = TiedWeight.of(output_projection(model), lookups)
        # One module object may serve both stacks: hook it once, and it reports in stream order.
        for lookup in {id(lookup): lookup for lookup in lookups}.values():
            self._handles.append(lookup.register_forward_hook(self._keep_embedding))
        for stream, stack in enumerate(stacks):
            self._watch_states(stream, stack, state_point)

    def forward(
        self,
        batch: Batch,
        changes: Changes | None = None,
        *,
        module: nn.Module | None = None,
        positions: Tensor | None = None,
        project: bool = True,
        needs_states: bool = True,
    ) -> Observation:
        """Run the model on a batch.

        Args:
            batch: what to read; its labels say which positions are in the loss.
            changes: what to read instead of the batch's own inputs.
            module: the wrapper (DDP, compiled) to call in place of the model itself.
            positions: `loss_positions` of the batch, if they are known already.
            project: whether to compute the logits. Without them the projection still runs, on no
                rows, so that its weight stays in the graph of the output, where DDP looks for it.
            needs_states: whether the topmost states are read. Without them the last decoder layer
                leaves out what only they need, where it can: see `LastLayer`.
        """
        call = self.model if module is None else module
        changes = changes or Changes()
        available = {**tensors(batch), **changes.inputs}
        inputs = {name: available[name] for name in self._inputs}
        inputs |= {name: available[name] for name in self._window_inputs if name in available}
        if positions is None:
            positions = batch_positions(batch)
        cut = None
        if self._last_layer is not None and not needs_states and self._last_layer.applies(call):
            cut = shortened_rows(batch, positions)
        places = positions if cut is None else cut.slots
        with (
            self._observing(places, project=project, zeroed=changes.zeroed),
            nullcontext() if cut is None or self._last_layer is None else self._last_layer.cut(cut),
            exact_attention(call, positions.device),
        ):
            output = call(**inputs, use_cache=False, return_dict=True)
            states = tuple(state for state in self._states if state is not None)
            assert self._hidden is not None
            return Observation(
                positions,
                self._hidden,
                output.logits,
                tuple(self._embeddings),
                states if cut is None else (),
            )

    def remove(self) -> None:
        """Take the hooks off the model."""
        for handle in self._handles:
            handle.remove()
        for hooks in (self._last_layer, self.tied_weight):
            if hooks is not None:
                hooks.remove()

    @contextmanager
    def _observing(
        self, positions: Tensor, *, project: bool, zeroed: Mapping[str, Tensor]
    ) -> Iterator[None]:
        self._positions, self._projecting, self._watching = positions, project, True
        self._zeroed = zeroed
        try:
            yield
        finally:
            self._positions, self._hidden, self._watching = None, None, False
            self._zeroed = {}
            self._embeddings = []
            self._states = [None] * len(self._states)
            self._reached_top.clear()

    def _select_positions(self, _: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor] | None:
        if not self._watching or self._positions is None:
            return None
        hidden = inputs[0]
        self._hidden = hidden.reshape(-1, hidden.shape[-1]).index_select(0, self._positions)
        return (self._hidden if self._projecting else self._hidden[:0],)

    def _keep_embedding(self, _: nn.Module, __: Any, output: Tensor) -> Tensor | None:
        if not self._watching:
            return None
        if torch.is_grad_enabled() and not output.requires_grad:
            # Frozen embeddings: the gradient at the lookup output is needed all the same.
            output.requires_grad_(True)
        # The lookups report in the order of the streams.
        zeroed = self._zeroed.get(self.streams[len(self._embeddings)].name)
        self._embeddings.append(output)
        return None if zeroed is None else output.masked_fill(zeroed[..., None], 0.0)

    def _watch_states(self, stream: int, stack: nn.Module, state_point: StatePoint) -> None:
        """Keep the tensor at the stack's last normalisation or last linear layer.

        Which module runs last is a matter of execution, not of registration (BART registers its
        first normalisation after its layers), so all of them report and the last report stands.
        Where the stack names its topmost normalisation, reports end with it.
        """

        def keep_input(_: nn.Module, inputs: tuple[Tensor, ...]) -> None:
            if self._watching:
                self._states[stream] = inputs[0].detach()

        def keep_output(_: nn.Module, __: Any, output: Tensor) -> None:
            if self._watching and stream not in self._reached_top:
                self._states[stream] = output.detach()

        def end_reports(_: nn.Module, __: tuple[Tensor, ...]) -> None:
            if self._watching:
                self._reached_top.add(stream)

        topmost = _topmost(stack)
        if state_point == "pre_norm":
            norms = (m for m in stack.modules() if type(m).__name__.endswith("Norm"))
            for module in norms if topmost is None else (topmost,):
                self._handles.append(module.register_forward_pre_hook(keep_input))
            return
        for module in stack.modules():
            if isinstance(module, nn.Linear):
                # Before other hooks on the layer: dropout may be one of them.
                self._handles.append(module.register_forward_hook(keep_output, prepend=True))
        if topmost is not None:
            self._handles.append(topmost.register_forward_pre_hook(end_reports))


def loss_positions(labels: Tensor) -> Tensor:
    """(loss positions,): flat indices of the labels that are in the loss."""
    return (labels.reshape(-1) >= 0).nonzero().squeeze(1)


def batch_positions(batch: Batch) -> Tensor:
    """Return `loss_positions` of a batch; where its collator left them no device is waited for."""
    found = batch.get("positions")
    return loss_positions(batch["labels"]) if found is None else found


def _stacks(model: nn.Module) -> tuple[nn.Module, ...]:
    """Return encoder and decoder, or the only stack of a causal language model."""
    settings: Any = getattr(model, "config", None)
    decoder = _call(model, "get_decoder")
    if getattr(settings, "is_encoder_decoder", False):
        encoder = _call(model, "get_encoder")
        if encoder is not None and decoder is not None and encoder is not decoder:
            return encoder, decoder
    elif decoder not in (None, model) and getattr(model, "can_generate", lambda: False)():
        assert decoder is not None
        return (decoder,)
    raise ModelError(
        f"{type(model).__name__} is neither an encoder-decoder nor a causal language model. Use a "
        "sequence-to-sequence model such as Marian, BART, mBART, M2M100 or T5, or a decoder such "
        "as Llama."
    )


def _streams(lookups: list[nn.Module], source_begins: int) -> tuple[Stream, ...]:
    """Describe the streams that the embedding lookups of a model's stacks read."""
    sizes = [len(cast(Tensor, lookup.weight)) for lookup in lookups]
    sizes[0] += source_begins
    source, target = RoleGroup("source", "source_roles"), RoleGroup("target", "target_roles")
    if len(lookups) == 1:
        groups = (source, target)
        return (
            Stream(
                name="sequence",
                ids="input_ids",
                mask="attention_mask",
                groups=groups,
                vocabulary_size=sizes[0],
            ),
        )
    return (
        Stream(
            name="source",
            ids="input_ids",
            mask="attention_mask",
            groups=(source,),
            vocabulary_size=sizes[0],
        ),
        Stream(name="target", ids="decoder_input_ids", groups=(target,), vocabulary_size=sizes[1]),
    )


def _topmost(stack: nn.Module) -> nn.Module | None:
    """Return the module that a stack names as its topmost normalisation."""
    named: nn.Module | str | None = getattr(stack, "topmost", None)
    return stack.get_submodule(named) if isinstance(named, str) else named


def _lookup(stack: nn.Module) -> nn.Module:
    lookup = _call(stack, "get_input_embeddings")
    if lookup is None:
        raise ModelError(f"{type(stack).__name__} has no input embeddings to watch.")
    return lookup


def _call(module: nn.Module, name: str) -> nn.Module | None:
    method: Callable[[], nn.Module | None] | None = getattr(module, name, None)
    return None if method is None else method()


@dataclass(frozen=True)
class LinearProjection:
    """Logits are `hidden @ weight.T`, plus a bias, and capped where the model caps them."""

    linear: nn.Linear
    """The model's own layer, so that its weight is the one that is trained."""
    model: nn.Module
    """The model, whose buffer `final_logits_bias` is added where it has one."""

    @property
    def weight(self) -> Tensor:
        """(vocabulary, dim)."""
        return self.linear.weight

    @property
    def cap(self) -> float | None:
        """What the size of logits is capped at, as the configuration says; None if it is not."""
        settings: Any = getattr(self.model, "config", None)
        limit: float | None = getattr(settings, "final_logit_softcapping", None)
        return limit

    def bias(self) -> Tensor | None:
        """(vocabulary,): the sum of all biases, in the graph of those that are trained."""
        offset: Tensor | None = getattr(self.model, "final_logits_bias", None)
        own: Tensor | None = self.linear.bias
        if offset is None:
            return own
        offset = offset.reshape(-1)
        return offset if own is None else own + offset


def output_projection(model: nn.Module) -> nn.Module:
    """Return the language-model head of a model."""
    method: Any = getattr(model, "get_output_embeddings", None)
    projection: nn.Module | None = None if method is None else method()
    if projection is None:
        raise ModelError(f"{type(model).__name__} has no output projection (language-model head).")
    return projection


def capped(logits: Tensor, cap: float) -> Tensor:
    """Cap the size of logits smoothly, as Gemma 2 does."""
    return torch.tanh(logits / cap) * cap


def linear_projection(model: nn.Module) -> LinearProjection | None:
    """Return the projection of a model, or None if its logits are computed in another way.

    Two conditions. The head is an unchanged `nn.Linear`. And on a trial input of two tokens the
    model's logits equal the head's output plus `final_logits_bias`, capped where the configuration
    names a cap, to the bit: a model that scales or edits its logits in another way fails here.
    """
    head = output_projection(model)
    if not isinstance(head, nn.Linear) or type(head).forward is not nn.Linear.forward:
        return None
    settings: Any = getattr(model, "config", None)
    projection = LinearProjection(head, model)
    projected: list[Tensor] = []
    handle = head.register_forward_hook(lambda _, __, output: projected.append(output))
    training = model.training
    model.eval()
    try:
        with torch.no_grad():
            ids = torch.arange(2, device=head.weight.device)[None]
            inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
            if getattr(settings, "is_encoder_decoder", False):
                inputs["decoder_input_ids"] = ids
            logits = model(**inputs, use_cache=False, return_dict=True).logits
            offset: Tensor | None = getattr(model, "final_logits_bias", None)
            expected = [rows if offset is None else rows + offset for rows in projected]
            if projection.cap is not None:
                expected = [capped(rows, projection.cap) for rows in expected]
    finally:
        handle.remove()
        model.train(training)
    return projection if len(expected) == 1 and torch.equal(logits, expected[0]) else None
