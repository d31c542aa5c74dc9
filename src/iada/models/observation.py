"""What one forward pass shows: hidden states and logits of the loss, embeddings, topmost states.

Works on any Hugging Face encoder-decoder without changing it. Hooks read the output of each
stack's embedding lookup (for GNorm) and the tensor that enters each stack's last normalisation
(for TNorm), and let the output projection see only the positions of the loss, or none of them.
They stay inside the model's own forward, so that DDP, autocast and gradient checkpointing work as
always.

A *stream* is a sequence of input tokens that can be perturbed. An encoder-decoder has two, in
this order: source, decoder input.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from iada.data.windows.batch import Batch
from iada.errors import ModelError
from iada.models.projection import output_projection

StatePoint = Literal["pre_norm", "feed_forward"]


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
    """Per stream (rows, length, dim): the topmost states, detached."""


@dataclass(frozen=True, kw_only=True)
class Changes:
    """What a forward pass reads in place of the batch's own inputs; None keeps them."""

    input_ids: Tensor | None = None
    """(rows, length): source ids, of any length if `attention_mask` is given too."""
    attention_mask: Tensor | None = None
    """(rows, length): 1 where the source ids are not padding."""
    decoder_input_ids: Tensor | None = None
    """(rows, target length): decoder-input ids."""
    zeroed: tuple[Tensor | None, ...] | None = None
    """Per stream (rows, length): bool, positions whose embedding is multiplied by 0 as it leaves
    the lookup, before anything is scaled or added."""


class Observer:
    """Hooks on one model; `forward` runs it and returns an `Observation`."""

    def __init__(self, model: nn.Module, *, state_point: StatePoint = "pre_norm") -> None:
        self.model = model
        stacks = _stacks(model)
        self._positions: Tensor | None = None
        self._projecting = True
        self._hidden: Tensor | None = None
        self._watching = False
        self._zeroed: tuple[Tensor | None, ...] | None = None
        self._embeddings: list[Tensor] = []
        self._states: list[Tensor | None] = [None] * len(stacks)
        self._handles: list[RemovableHandle] = [
            output_projection(model).register_forward_pre_hook(self._select_positions)
        ]
        # One module object may serve both stacks: hook it once, and it reports in stream order.
        lookups = {id(lookup): lookup for lookup in map(_lookup, stacks)}
        for lookup in lookups.values():
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
    ) -> Observation:
        """Run the model on a batch.

        Args:
            batch: what to read; its labels say which positions are in the loss.
            changes: what to read instead of the batch's own inputs.
            module: the wrapper (DDP, compiled) to call in place of the model itself.
            positions: `loss_positions` of the batch, if they are known already.
            project: whether the logits are wanted. Without them the projection still runs, on no
                rows, so that its weight stays in the graph of the output, where DDP looks for it.
        """
        call = self.model if module is None else module
        changes = changes or Changes()
        source, mask, target = (
            own if other is None else other
            for own, other in (
                (batch["input_ids"], changes.input_ids),
                (batch["attention_mask"], changes.attention_mask),
                (batch["decoder_input_ids"], changes.decoder_input_ids),
            )
        )
        if positions is None:
            positions = loss_positions(batch["labels"])
        with self._observing(positions, project=project, zeroed=changes.zeroed):
            output = call(
                input_ids=source,
                attention_mask=mask,
                decoder_input_ids=target,
                use_cache=False,
                return_dict=True,
                **window_inputs(self.model, batch),
            )
            states = tuple(state for state in self._states if state is not None)
            assert self._hidden is not None
            return Observation(
                positions, self._hidden, output.logits, tuple(self._embeddings), states
            )

    def remove(self) -> None:
        """Take the hooks off the model."""
        for handle in self._handles:
            handle.remove()

    @contextmanager
    def _observing(
        self, positions: Tensor, *, project: bool, zeroed: tuple[Tensor | None, ...] | None
    ) -> Iterator[None]:
        self._positions, self._projecting, self._watching = positions, project, True
        self._zeroed = zeroed
        try:
            yield
        finally:
            self._positions, self._hidden, self._watching = None, None, False
            self._zeroed = None
            self._embeddings = []
            self._states = [None] * len(self._states)

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
            # Frozen embeddings: the gradient at the lookup output is wanted all the same.
            output.requires_grad_(True)
        # The lookups report in the order of the streams.
        zeroed = None if self._zeroed is None else self._zeroed[len(self._embeddings)]
        self._embeddings.append(output)
        return None if zeroed is None else output.masked_fill(zeroed[..., None], 0.0)

    def _watch_states(self, stream: int, stack: nn.Module, state_point: StatePoint) -> None:
        """Keep the tensor at the stack's last normalisation or last linear layer.

        Which module runs last is a matter of execution, not of registration (BART registers its
        first normalisation after its layers), so all of them report and the last report stands.
        """

        def keep_input(_: nn.Module, inputs: tuple[Tensor, ...]) -> None:
            if self._watching:
                self._states[stream] = inputs[0].detach()

        def keep_output(_: nn.Module, __: Any, output: Tensor) -> None:
            if self._watching:
                self._states[stream] = output.detach()

        for module in stack.modules():
            if state_point == "pre_norm" and type(module).__name__.endswith("Norm"):
                self._handles.append(module.register_forward_pre_hook(keep_input))
            elif state_point == "feed_forward" and isinstance(module, nn.Linear):
                self._handles.append(module.register_forward_hook(keep_output))


def window_inputs(model: nn.Module, batch: Batch) -> dict[str, Tensor]:
    """Return the further entries of a batch that a model's forward takes."""
    names: tuple[str, ...] = getattr(model, "window_inputs", ())
    return {name: value for name, value in batch.items() if name in names}  # type: ignore[misc]


def loss_positions(labels: Tensor) -> Tensor:
    """(loss positions,): flat indices of the labels that are in the loss."""
    return (labels.reshape(-1) >= 0).nonzero().squeeze(1)


def _stacks(model: nn.Module) -> tuple[nn.Module, nn.Module]:
    """Return encoder and decoder."""
    encoder, decoder = _call(model, "get_encoder"), _call(model, "get_decoder")
    settings: Any = getattr(model, "config", None)
    two_stacks = encoder is not None and decoder is not None and encoder is not decoder
    if not two_stacks or not getattr(settings, "is_encoder_decoder", False):
        raise ModelError(
            f"{type(model).__name__} is not an encoder-decoder. "
            "Use a sequence-to-sequence model such as Marian, BART, mBART, M2M100 or T5."
        )
    assert encoder is not None
    assert decoder is not None
    return encoder, decoder


def _lookup(stack: nn.Module) -> nn.Module:
    lookup = _call(stack, "get_input_embeddings")
    if lookup is None:
        raise ModelError(f"{type(stack).__name__} has no input embeddings to watch.")
    return lookup


def _call(module: nn.Module, name: str) -> nn.Module | None:
    method: Callable[[], nn.Module | None] | None = getattr(module, name, None)
    return None if method is None else method()
