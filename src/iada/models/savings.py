"""Cheaper ways to make the same training pass.

**The last decoder layer.** With `windows.loss_on: current` about a quarter of the target is
learned. The positions before it are read by the last layer's self-attention, as keys and values,
and by nothing after that. So its queries, its attention to the source and its feed-forward network
run on the loss positions alone, moved together at the beginning of each row. The result is the
same; TNorm, which reads the topmost states of all tokens, cannot have it in the view that it
measures.

**Attention on CPUs.** In bf16 the backward pass of PyTorch's attention takes about three times as
long as in float32, which costs little beside the products around it, and is more exact.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
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


def exact_attention(module: nn.Module, device: torch.device) -> AbstractContextManager[object]:
    """Return a context in which attention is computed in float32, where bf16 costs more.

    Args:
        module: what will be called in the context. Where its layers run again in the backward pass,
            or are compiled, they are left as they are.
        device: of its inputs.
    """
    is_plain = not (hasattr(module, "_orig_mod") or _is_recomputed(module))
    if is_plain and device.type == "cpu" and torch.is_autocast_enabled("cpu"):
        return _Float32Attention()
    return nullcontext()


def _is_recomputed(module: nn.Module) -> bool:
    return any(getattr(part, "gradient_checkpointing", False) for part in module.modules())


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
