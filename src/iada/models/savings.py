"""Cheaper ways to make the same training pass.

**The last decoder layer.** With `windows.loss_on: current` about a quarter of the target is
learned. The positions before it are read by the last layer's self-attention, as keys and values,
and by nothing after that. So its queries, its attention to the source and its feed-forward network
run on the loss positions alone, moved together at the beginning of each row. The result is the
same; TNorm, which reads the topmost states of all tokens, cannot have it in the view that it
measures.

**One gradient for a tied weight.** The gradient of an embedding lookup is zero but for the rows
that were read; PyTorch makes a whole matrix of it, once for every lookup, four times in an update
of two views. Where the output projection has the same weight, its gradient is a whole matrix
anyway, and here the rows are added to that one.

**Attention on CPUs.** In bf16 the backward pass of PyTorch's attention takes more than twice as
long as in float32, which costs little beside the products around it, and is more exact.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import embedding, scaled_dot_product_attention
from torch.overrides import TorchFunctionMode
from transformers import MarianMTModel
from transformers.models.marian.modeling_marian import MarianDecoderLayer

from iada.data.windows.batch import Batch

_SHORTER = 0.8
"""Largest share of a row for which cutting is worth its gathers."""


@dataclass(frozen=True)
class ShortenedRows:
    """The loss positions of a batch, moved together at the beginning of each row."""

    columns: Tensor
    """(rows, most loss positions of a row): where they were. Rows with fewer are filled up with
    other positions, which nothing reads."""
    slots: Tensor
    """(loss positions,): flat indices of the loss positions into `columns`."""


def shortened_rows(batch: Batch, positions: Tensor) -> ShortenedRows | None:
    """Move the loss positions of each row together; None if that would save little."""
    length, width = batch["labels"].shape[1], batch.get("loss_width")
    if not width or width > _SHORTER * length:
        return None
    in_loss = batch["labels"] >= 0
    columns = in_loss.logical_not().to(torch.int8).argsort(dim=1, stable=True)[:, :width]
    rank = in_loss.cumsum(dim=1).sub_(1).reshape(-1)[positions]
    return ShortenedRows(columns, positions // length * width + rank)


class LastLayer:
    """Hooks on the last decoder layer of a stock Marian model; they do nothing outside `cut`."""

    def __init__(self, layer: MarianDecoderLayer) -> None:
        self._layer = layer
        self._rows: ShortenedRows | None = None
        self._whole: Tensor | None = None
        self._handles = [
            layer.register_forward_pre_hook(self._cut_queries, with_kwargs=True),
            layer.self_attn.register_forward_pre_hook(self._keep_keys, with_kwargs=True),
        ]

    @classmethod
    def of(cls, model: nn.Module) -> "LastLayer | None":
        """Return the last layer of a model, or None if it is not known well enough."""
        if type(model) is not MarianMTModel:
            return None
        config, layer = model.config, model.model.decoder.layers[-1]
        plain = config._attn_implementation in ("sdpa", "eager") and not config.decoder_layerdrop
        return cls(layer) if plain and type(layer) is MarianDecoderLayer else None

    def applies(self, module: nn.Module) -> bool:
        """Whether a call runs the layer once, as it stands: not compiled, not recomputed later."""
        return not (self._layer.gradient_checkpointing or hasattr(module, "_orig_mod"))

    @contextmanager
    def cut(self, rows: ShortenedRows) -> Iterator[None]:
        """Keep the positions of some rows while the context lasts."""
        self._rows = rows
        try:
            yield
        finally:
            self._rows = self._whole = None

    def remove(self) -> None:
        """Take the hooks off the layer."""
        for handle in self._handles:
            handle.remove()

    def _cut_queries(self, _: nn.Module, given: tuple[Any, ...], named: dict[str, Any]) -> Any:
        if self._rows is None:
            return None
        whole, mask, *others = given
        columns = self._rows.columns
        self._whole = whole
        queries = whole.gather(1, columns[..., None].expand(-1, -1, whole.shape[-1]))
        if mask is None:
            # The library leaves the causal mask to the attention where nothing is padded.
            keys = torch.arange(whole.shape[1], device=columns.device)
            mask = (keys <= columns[..., None])[:, None]
        else:
            mask = _cut_mask(mask, columns)
        source_mask = named.get("encoder_attention_mask")
        if source_mask is not None:
            named = named | {"encoder_attention_mask": _cut_mask(source_mask, columns)}
        return (queries, mask, *others), named

    def _keep_keys(self, _: nn.Module, given: tuple[Any, ...], named: dict[str, Any]) -> Any:
        return None if self._whole is None else (given, named | {"key_value_states": self._whole})


def _cut_mask(mask: Tensor, columns: Tensor) -> Tensor:
    """Keep some queries, (rows, width), of a mask (rows, heads, queries, keys)."""
    if mask.shape[2] == 1:
        return mask
    mask = mask.expand(len(columns), -1, -1, -1)
    index = columns[:, None, :, None].expand(-1, mask.shape[1], -1, mask.shape[-1])
    return mask.gather(2, index)


Rows = list[tuple[Tensor, Tensor]]
"""Numbers of rows, (tokens,), and their gradients, (tokens, dim)."""


class TiedWeight:
    """Hooks on the lookups of a model whose output projection has the same weight."""

    def __init__(self, weight: Tensor, lookups: Sequence[nn.Embedding]) -> None:
        self._weight = weight
        self._carrier: Tensor | None = None
        self._rows: Rows = []
        self._handles = [
            # Before other hooks: they are to see the lookup that is in the graph.
            lookup.register_forward_hook(self._look_up, prepend=True)
            for lookup in lookups
        ]

    @classmethod
    def of(cls, projection: nn.Module, lookups: Sequence[nn.Module]) -> "TiedWeight | None":
        """Watch the lookups with the weight of the output projection; None if there are none."""
        weight: Any = projection.weight
        found = {
            id(lookup): lookup
            for lookup in lookups
            # No subclass: some scale what they have looked up.
            if type(lookup) is nn.Embedding
            and lookup.weight is weight
            and not (lookup.sparse or lookup.scale_grad_by_freq or lookup.max_norm)
        }
        return cls(weight, list(found.values())) if found else None

    @property
    def in_use(self) -> Tensor | None:
        """What a projection should multiply by instead of the weight, while there is such a thing.

        It has the same values.
        """
        return self._carrier

    @contextmanager
    def carried(self, module: nn.Module) -> Iterator[None]:
        """Gather the gradients of lookups and projections of one update.

        Nothing happens on other devices than the CPU, where rows are not added in a fixed order.

        Args:
            module: what will be called; if it is compiled, it is left as it is.
        """
        learns = torch.is_grad_enabled() and self._weight.requires_grad
        if not (learns and self._weight.is_cpu) or hasattr(module, "_orig_mod"):
            yield
            return
        self._rows = []
        self._carrier = _Carrier.apply(self._weight, self._rows)  # type: ignore[no-untyped-call]
        try:
            yield
        finally:
            self._carrier = None

    def remove(self) -> None:
        """Take the hooks off the lookups."""
        for handle in self._handles:
            handle.remove()

    def _look_up(self, lookup: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Any:
        if self._carrier is None or not output.requires_grad:
            return None
        padding = lookup.padding_idx
        return _Lookup.apply(self._carrier, inputs[0], padding, self._rows)  # type: ignore[no-untyped-call]


class _Carrier(torch.autograd.Function):
    """The weight itself; its gradient is that of the projection, plus the rows of the lookups."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, rows: Rows) -> Tensor:
        ctx.rows = rows
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(weight)
        return weight.view_as(weight)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor | None) -> tuple[Tensor, None]:
        # All lookups have run by now: the carrier is an input of each.
        if gradient is None:
            gradient = torch.zeros_like(ctx.saved_tensors[0])
        for numbers, values in ctx.rows:
            gradient.index_add_(0, numbers, values.to(gradient.dtype))
        ctx.rows.clear()
        return gradient, None


class _Lookup(torch.autograd.Function):
    """A lookup that leaves the gradients of its rows in a list."""

    @staticmethod
    def forward(
        ctx: Any, weight: Tensor, numbers: Tensor, padding: int | None, rows: Rows
    ) -> Tensor:
        ctx.rows, ctx.padding = rows, padding
        ctx.save_for_backward(numbers)
        return embedding(numbers, weight)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, None, None, None]:
        numbers = ctx.saved_tensors[0].reshape(-1)
        values = gradient.reshape(-1, gradient.shape[-1])
        if ctx.padding is not None:
            values = values.masked_fill((numbers == ctx.padding)[:, None], 0.0)
        ctx.rows.append((numbers, values))
        return None, None, None, None


def exact_attention(module: nn.Module, device: torch.device) -> AbstractContextManager[object]:
    """Return a context in which attention is computed in float32, where bf16 costs more.

    Args:
        module: what will be called in the context. Where its layers run again in the backward pass,
            or are compiled, they are left as they are.
        device: of its inputs.
    """
    if device.type != "cpu" or not torch.is_autocast_enabled("cpu"):
        return nullcontext()
    is_recomputed = any(getattr(part, "gradient_checkpointing", False) for part in module.modules())
    is_compiled = hasattr(module, "_orig_mod")
    return nullcontext() if is_recomputed or is_compiled else _Float32Attention()


class _Float32Attention(TorchFunctionMode):
    """Calls of PyTorch's attention get and give what they would, computed in float32."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        named = kwargs or {}
        if func is not scaled_dot_product_attention:
            return func(*args, **named)
        with torch.autocast("cpu", enabled=False):
            exact = [_to_float32(value) for value in args]
            by_name = {name: _to_float32(value) for name, value in named.items()}
            return func(*exact, **by_name).to(torch.get_autocast_dtype("cpu"))


def _to_float32(value: Any) -> Any:
    return value.float() if isinstance(value, Tensor) and value.is_floating_point() else value
