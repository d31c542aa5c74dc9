"""Search with decoders that tell the sentences of their window apart.

Every attention sees what its rule allows in the layout of the window, as in the model itself. A
translation goes on with one sentence, so what the rules allow is settled once its prefix is read:
new tokens belong to that sentence, and its context never changes. A beam that could open another
sentence (`decode.unit: window`) would need rules of its own.
"""

from dataclasses import dataclass, replace
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
    look_up,
)
from iada.models.docflat import DocFlatModel, near_positions
from iada.models.document import DocumentModel, WindowAttention, read_layout, read_target
from iada.models.gtrans import GatedAttention, GTransModel
from iada.models.han import HanModel, split_heads
from iada.models.hybrid import HybridModel
from iada.models.layout import ALL, OWN, PREVIOUS, Layout, Place, Rule, recent

_Layers = dict[int, LayerCache]
"""Caches of attentions by their number."""


@dataclass(frozen=True)
class Sight:
    """What the queries of one pass see."""

    masks: dict[tuple[Place, Rule], Tensor]
    """By the place and the rule of an attention, from `Attention.to_mask`."""
    distances: Tensor | None = None
    """(rows, 1, queries, entries) tokens from entry to query, where a decoder counts them."""
    farthest: int = 0
    """The largest of the distances."""


class WindowSearchModel(MarianSearchModel):
    """The parts of a decoder of one of these models that a search needs."""

    near: Rule = OWN
    """Rule of the attentions that do not see all of the window."""

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
        positions = self._positions(layout)
        cache = KeyValueCache(
            layers=[],
            attention_mask=is_prefix[:, None],
            source_mask=layout.source.present[:, None, None, :],
            positions=positions[every, last] + 1,
            length=length,
            key_entries=self.attention.key_entries,
            is_near=self._near_entries(layout)[every, 0, last],
        )
        # What the whole search reads is kept with the first layer.
        fixed = {"near_source": layout.mask("cross", self.near)[every, 0, last][:, None, :, None]}
        layers: _Layers = {}
        sight = self._prefix_sight(layout)
        hidden = self._embed_prefix(prefix, layout, layers, sight)
        for layer in self.decoder.layers:
            for own, cross in zip(_parts(layer.self_attn), _parts(layer.encoder_attn), strict=True):
                layers[own.layer_idx] = LayerCache(
                    *self._keys_and_values(own, hidden),
                    *self._keys_and_values(cross, encoded),
                    fixed if own.layer_idx == 0 else {},
                )
            if layer is self.decoder.layers[-1] and self.context is None:
                # Nothing else attends to the other positions of the last layer.
                cache.layers = [layers[number] for number in sorted(layers)]
                hidden = hidden[every, last][:, None]
                sight = self._step_sight(cache, cache.positions - 1)
            hidden = self._window_layer(layer, hidden, layers, sight)
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
        layers = dict(enumerate(cache.layers))
        hidden, sight = self._embed_step(tokens, cache, layers, first)
        for layer in self.decoder.layers:
            for own in _parts(layer.self_attn):
                kept = layers[own.layer_idx]
                layers[own.layer_idx] = self._extend(kept, own, hidden, first, cache)
            hidden = self._window_layer(layer, hidden, layers, sight)
        return self._with_context(hidden, cache)

    def _positions(self, layout: Layout) -> Tensor:
        """(rows, length): position of each token of the prefix."""
        assert layout.target is not None
        return layout.target.counted(restarts=self.config.restarts_positions)

    def _near_entries(self, layout: Layout) -> Tensor:
        """(rows, 1, queries, entries) bool: what attentions see that do not see all."""
        return layout.mask("decoder", self.near)

    def _embed_prefix(
        self, prefix: Tensor, layout: Layout, layers: _Layers, sight: Sight
    ) -> Tensor:
        """Return what enters the layers, (rows, length, dim); may add layers of its own."""
        return embed(self.decoder, prefix, self._positions(layout))

    def _embed_step(
        self, tokens: Tensor, cache: KeyValueCache, layers: _Layers, first: int
    ) -> tuple[Tensor, Sight]:
        """Return what enters the layers for the next token of every beam, and what it sees."""
        sight = self._step_sight(cache, cache.positions)
        return self._embed_next(tokens, cache), sight

    def _prefix_sight(self, layout: Layout) -> Sight:
        """Return what every position of the prefix sees."""
        near: tuple[Place, Rule] = ("decoder", self.near)
        pairs: tuple[tuple[Place, Rule], ...] = (
            ("decoder", ALL),
            ("cross", self.near),
            ("cross", ALL),
        )
        masks = {pair: self.attention.to_mask(layout.mask(*pair)) for pair in pairs}
        return Sight({near: self.attention.to_mask(self._near_entries(layout)), **masks})

    def _step_sight(self, cache: KeyValueCache, positions: Tensor) -> Sight:
        """Return what one more token of every beam sees; (rows,) positions are those of tokens."""
        assert cache.is_near is not None, "the cache tells sentences apart"
        seen = cache.attention_mask[:, None, :, : cache.length]
        near = seen & cache.is_near[:, None, None, : cache.length]
        near_source = cache.layers[0].fixed["near_source"].transpose(2, 3)
        to_mask = self.attention.to_mask
        return Sight(
            {
                ("decoder", self.near): to_mask(near),
                ("decoder", ALL): to_mask(seen),
                ("cross", self.near): to_mask(near_source),
                ("cross", ALL): to_mask(cache.source_mask),
            }
        )

    def _window_layer(self, layer: Any, hidden: Tensor, layers: _Layers, sight: Sight) -> Tensor:
        """Run one post-norm decoder layer on (rows, queries, dim)."""
        attended = self._read(layer.self_attn, hidden, layers, sight)
        hidden = layer.self_attn_layer_norm(hidden + attended)
        attended = self._read(layer.encoder_attn, hidden, layers, sight)
        return feed_forward(layer, layer.encoder_attn_layer_norm(hidden + attended))

    def _read(self, attention: Any, hidden: Tensor, layers: _Layers, sight: Sight) -> Tensor:
        """Attend by the rules of an attention, near and far if it has both."""
        found = []
        for part in _parts(attention):
            cache, place = layers[part.layer_idx], part.place
            keys, values = cache.keys, cache.values
            if place == "cross":
                keys, values = cache.source_keys, cache.source_values
            found.append(self._attend(part, hidden, keys, values, sight.masks[place, part.rule]))
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


class FlatBatchSearchModel(WindowSearchModel):
    """The parts of a DocFlat: its embeddings attend to those of all earlier sentences.

    Keys and values of that attention stand behind those of all layers.
    """

    def __init__(self, model: Any, attention: Attention) -> None:
        """Look up the parts of a model; arguments as in `WindowSearchModel`."""
        super().__init__(model, attention)
        self.near = recent(self.config.context)
        self.flat = self.decoder.flat

    @property
    def cached_layers(self) -> int:
        """Number of `KeyValueCache.layers`."""
        return super().cached_layers + 1

    def _positions(self, layout: Layout) -> Tensor:
        assert layout.target is not None
        return near_positions(layout.target, self.config.context)

    def _embed_prefix(
        self, prefix: Tensor, layout: Layout, layers: _Layers, sight: Sight
    ) -> Tensor:
        assert layout.target is not None
        embeddings = look_up(self.decoder, prefix)
        distance = self.flat.count_back(layout.target)
        marked = self.flat.mark(embeddings, distance)
        keys, values = self._keys_and_values(self.flat.attention, marked)
        cache = LayerCache(keys, values, *_no_entries(keys, values, self.attention))
        layers[self.flat.attention.layer_idx] = cache
        mixed = self._mix(embeddings, marked, distance, cache, sight)
        return self._placed(mixed, self._positions(layout))

    def _embed_step(
        self, tokens: Tensor, cache: KeyValueCache, layers: _Layers, first: int
    ) -> tuple[Tensor, Sight]:
        sight = self._step_sight(cache, cache.positions)
        positions = self._next_positions(cache)
        embeddings = look_up(self.decoder, tokens)
        # All that is new belongs to the last sentence.
        distance = torch.zeros_like(tokens)
        marked = self.flat.mark(embeddings, distance)
        attention, number = self.flat.attention, self.flat.attention.layer_idx
        layers[number] = self._extend(layers[number], attention, marked, first, cache)
        mixed = self._mix(embeddings, marked, distance, layers[number], sight)
        return self._placed(mixed, positions), sight

    def _placed(self, embeddings: Tensor, positions: Tensor) -> Tensor:
        placed: Tensor = embeddings + self.decoder.embed_positions.weight[positions]
        return placed

    def _mix(
        self,
        embeddings: Tensor,
        marked: Tensor,
        distance: Tensor,
        cache: LayerCache,
        sight: Sight,
    ) -> Tensor:
        mask = sight.masks["decoder", ALL]
        found = self._attend(self.flat.attention, marked, cache.keys, cache.values, mask)
        mixed: Tensor = self.flat.mix(embeddings, found, distance)
        return mixed


class MemorySearchModel(WindowSearchModel):
    """The parts of a Hybrid: its decoder counts the tokens between query and entry.

    The place of every entry is kept as the values of a layer that stands behind all others, so that
    it goes wherever the entry goes.
    """

    def __init__(self, model: Any, attention: Attention) -> None:
        """Look up the parts of a model; arguments as in `WindowSearchModel`."""
        super().__init__(model, attention)
        self.relative: dict[int, Tensor] = {}

    @property
    def cached_layers(self) -> int:
        """Number of `KeyValueCache.layers`."""
        return super().cached_layers + 1

    def _positions(self, layout: Layout) -> Tensor:
        assert layout.target is not None
        return layout.target.positions

    def _near_entries(self, layout: Layout) -> Tensor:
        """Return the own sentence, and as memory the one before."""
        return layout.mask("decoder", OWN) | layout.visible("decoder", PREVIOUS)[:, None]

    def _embed_prefix(
        self, prefix: Tensor, layout: Layout, layers: _Layers, sight: Sight
    ) -> Tensor:
        values = self._positions(layout)[:, None, :, None]
        keys = values if self.attention.key_entries == 2 else values.transpose(2, 3)
        nothing = _no_entries(keys, values, self.attention)
        layers[len(self.decoder.layers)] = LayerCache(keys, values, *nothing)
        return look_up(self.decoder, prefix)

    def _embed_step(
        self, tokens: Tensor, cache: KeyValueCache, layers: _Layers, first: int
    ) -> tuple[Tensor, Sight]:
        places = cache.layers[-1].values
        places[:, :, first : cache.length] = cache.positions[:, None, None, None]
        sight = self._step_sight(cache, cache.positions)
        cache.positions = cache.positions + 1
        return look_up(self.decoder, tokens), sight

    def _prefix_sight(self, layout: Layout) -> Sight:
        places = self._positions(layout)
        return _counted(super()._prefix_sight(layout), places, places)

    def _step_sight(self, cache: KeyValueCache, positions: Tensor) -> Sight:
        places = cache.layers[-1].values[:, 0, : cache.length, 0]
        return _counted(super()._step_sight(cache, positions), positions[:, None], places)

    def _read(self, attention: Any, hidden: Tensor, layers: _Layers, sight: Sight) -> Tensor:
        if attention.place == "cross":
            return super()._read(attention, hidden, layers, sight)
        assert sight.distances is not None
        cache = layers[attention.layer_idx]
        query = split_heads(attention.q_proj(hidden), attention.num_heads)
        relative = self._relative_keys(attention, query, sight.farthest + 1)
        added = attention.score_distances(query, relative, sight.distances) * attention.scaling
        attended = self.attention.attend(
            query + attention.content_bias[:, None],
            cache.keys,
            cache.values,
            self.attention.add_scores(sight.masks["decoder", OWN], added),
            is_causal=False,
            scale=attention.scaling,
        )
        result: Tensor = attention.out_proj(attended.transpose(1, 2).flatten(2))
        return result

    def _relative_keys(self, attention: Any, query: Tensor, count: int) -> Tensor:
        """(heads, count, size): keys of distances, which are the same in every step."""
        number = attention.layer_idx
        if number not in self.relative or self.relative[number].shape[1] < count:
            # Twice as many as are needed now: more will be.
            self.relative[number] = attention.relative_keys(2 * count, query)
        return self.relative[number][:, :count]


def _counted(sight: Sight, queries: Tensor, entries: Tensor) -> Sight:
    """Count the tokens between the places of queries and entries; 0 for those that come later."""
    distances = (queries[:, None, :, None] - entries[:, None, None, :]).clamp(min=0)
    return replace(sight, distances=distances, farthest=int(distances.max()))


def _no_entries(keys: Tensor, values: Tensor, attention: Attention) -> tuple[Tensor, Tensor]:
    """Return what a layer keeps of the source that does not read it."""
    return keys.narrow(attention.key_entries, 0, 0), values[:, :, :0]


WINDOW_DECODERS: dict[type[DocumentModel], type[WindowSearchModel]] = {
    GTransModel: WindowSearchModel,
    HanModel: WindowSearchModel,
    DocFlatModel: FlatBatchSearchModel,
    HybridModel: MemorySearchModel,
}
"""Models whose decoder reads the target side of its context, and what searches with them."""


def has_window_decoder(model: Any) -> bool:
    """Tell whether `WINDOW_DECODERS` has a search for a model: all layers are post-norm."""
    return type(model) in WINDOW_DECODERS and not model.config.pre_norm
