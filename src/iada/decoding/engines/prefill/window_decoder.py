"""Search with decoders that tell the sentences of their window apart: G-Transformer and HAN.

Every attention sees what its rule allows in the layout of the window, as in the model itself. A
translation goes on with one sentence, so what the rules allow is settled once its prefix is read:
new tokens belong to that sentence, and its context never changes. A beam that could open another
sentence (`decode.unit: window`) would need rules of its own.
"""

from typing import Any

import torch
from torch import Tensor

from iada.decoding.engines.prefill.attention import Attention
from iada.decoding.engines.prefill.decoder import (
    KeyValueCache,
    LayerCache,
    MarianSearchModel,
    embed,
    feed_forward,
)
from iada.models.document import WindowAttention, read_layout, read_target
from iada.models.gtrans import GatedAttention, GTransModel
from iada.models.han import HanModel
from iada.models.layout import ALL, OWN, Layout, Place, Rule

WINDOW_DECODERS = (GTransModel, HanModel)
"""Models whose decoder reads the target side of its context, and that this search knows."""
_Masks = dict[tuple[Place, Rule], Tensor]


class WindowSearchModel(MarianSearchModel):
    """The parts of a G-Transformer or a HAN that a search needs."""

    def __init__(self, model: Any, attention: Attention) -> None:
        """Look up the parts of a model.

        Args:
            model: one of `WINDOW_DECODERS`.
            attention: how to attend.
        """
        super().__init__(model, attention)
        self.config = model.config
        self.context = getattr(model, "decoder_context", None)

    @property
    def cached_layers(self) -> int:
        """Number of `KeyValueCache.layers`; those of far attentions stand behind all others."""
        return sum(len(_parts(layer.self_attn)) for layer in self.decoder.layers)

    def prefill(
        self,
        source: Tensor,
        source_mask: Tensor,
        prefix: Tensor,
        prefix_lengths: Tensor,
        first_sentence: Tensor,
    ) -> tuple[Tensor, KeyValueCache]:
        """Encode sources and read target prefixes; see `MarianSearchModel.prefill`."""
        assert self.encode_window is not None, "these models encode windows"
        encoded, _ = self.encode_window(source, source_mask, first_sentence)
        layout = read_layout(self.config, source, source_mask, first_sentence)
        rows, length = prefix.shape
        every, last = torch.arange(rows, device=prefix.device), prefix_lengths - 1
        is_prefix = torch.arange(length, device=prefix.device) <= last[:, None]
        layout.target = read_target(self.config, prefix, is_prefix)
        layout.queries = length
        positions = layout.target.counted(restarts=self.config.restarts_positions)
        cache = KeyValueCache(
            layers=[],
            attention_mask=is_prefix[:, None],
            source_mask=layout.source.present[:, None, None, :],
            positions=positions[every, last] + 1,
            length=length,
            key_entries=self.attention.key_entries,
            is_near=layout.mask("decoder", OWN)[every, 0, last],
        )
        # What the whole search reads is kept with the first layer.
        fixed = {"own_source": layout.mask("cross", OWN)[every, 0, last][:, None, :, None]}
        hidden = embed(self.decoder, prefix, positions)
        masks = self._prefix_masks(layout)
        layers: dict[int, LayerCache] = {}
        for layer in self.decoder.layers:
            for own, cross in zip(_parts(layer.self_attn), _parts(layer.encoder_attn), strict=True):
                layers[own.layer_idx] = LayerCache(
                    *self._keys_and_values(own, hidden),
                    *self._keys_and_values(cross, encoded),
                    {} if layers else fixed,
                )
            if layer is self.decoder.layers[-1] and self.context is None:
                # Nothing else attends to the other positions of the last layer.
                cache.layers = [layers[number] for number in sorted(layers)]
                hidden, masks = hidden[every, last][:, None], self._step_masks(cache)
            hidden = self._window_layer(layer, hidden, layers, masks)
        cache.layers = [layers[number] for number in sorted(layers)]
        if self.context is not None:
            keys, values = self.context.keys_and_values(hidden)
            visible = self.context.visible(layout)[every, :, last]
            cache.layers[0].fixed |= {
                "context_keys": keys,
                "context_values": values,
                "context_visible": visible[..., None],
            }
            hidden = self._with_context(hidden[every, last][:, None], cache)
        return hidden[:, -1], cache

    def step(self, tokens: Tensor, cache: KeyValueCache) -> Tensor:
        """Read the next token of every beam; see `MarianSearchModel.step`."""
        first = cache.append(tokens.shape[1])
        masks = self._step_masks(cache)
        hidden = self._embed_next(tokens, cache)
        layers = dict(enumerate(cache.layers))
        for layer in self.decoder.layers:
            for own in _parts(layer.self_attn):
                kept = layers[own.layer_idx]
                layers[own.layer_idx] = self._extend(kept, own, hidden, first, cache)
            hidden = self._window_layer(layer, hidden, layers, masks)
        return self._with_context(hidden, cache)

    def _prefix_masks(self, layout: Layout) -> _Masks:
        """Return what every position of the prefix sees."""
        places: tuple[Place, ...] = ("decoder", "cross")
        pairs = ((place, rule) for place in places for rule in (OWN, ALL))
        return {pair: self.attention.to_mask(layout.mask(*pair)) for pair in pairs}

    def _step_masks(self, cache: KeyValueCache) -> _Masks:
        """Return what the next token of every beam sees."""
        assert cache.is_near is not None, "the cache tells sentences apart"
        seen = cache.attention_mask[:, None, :, : cache.length]
        near = seen & cache.is_near[:, None, None, : cache.length]
        own_source = cache.layers[0].fixed["own_source"].transpose(2, 3)
        to_mask = self.attention.to_mask
        return {
            ("decoder", OWN): to_mask(near),
            ("decoder", ALL): to_mask(seen),
            ("cross", OWN): to_mask(own_source),
            ("cross", ALL): to_mask(cache.source_mask),
        }

    def _window_layer(
        self, layer: Any, hidden: Tensor, layers: dict[int, LayerCache], masks: _Masks
    ) -> Tensor:
        """Run one post-norm decoder layer on (rows, queries, dim)."""
        attended = self._read(layer.self_attn, hidden, layers, masks)
        hidden = layer.self_attn_layer_norm(hidden + attended)
        attended = self._read(layer.encoder_attn, hidden, layers, masks)
        return feed_forward(layer, layer.encoder_attn_layer_norm(hidden + attended))

    def _read(
        self, attention: Any, hidden: Tensor, layers: dict[int, LayerCache], masks: _Masks
    ) -> Tensor:
        """Attend by the rules of an attention, near and far if it has both."""
        found = []
        for part in _parts(attention):
            cache, place = layers[part.layer_idx], part.place
            keys, values = cache.keys, cache.values
            if place == "cross":
                keys, values = cache.source_keys, cache.source_values
            found.append(self._attend(part, hidden, keys, values, masks[place, part.rule]))
        return found[0] if len(found) == 1 else attention.mix(*found)

    def _with_context(self, hidden: Tensor, cache: KeyValueCache) -> Tensor:
        """Put the sentences before into the topmost states of HAN's decoder."""
        if self.context is None:
            return hidden
        fixed = cache.layers[0].fixed
        visible = fixed["context_visible"].transpose(2, 3)
        keys, values = fixed["context_keys"], fixed["context_values"]
        found: Tensor = self.context.attend(hidden, keys, values, visible)
        return found


def _parts(attention: WindowAttention) -> tuple[Any, ...]:
    """Return the attentions that one consists of, the near one first."""
    return (attention, attention.far) if isinstance(attention, GatedAttention) else (attention,)
