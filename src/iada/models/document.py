"""Document-level models: the stock Transformer with attention that knows about sentences.

No second Transformer is written here. Layers, feed-forward networks, norms and parameter names are
Marian's; its attentions are replaced by `WindowAttention`, which sees what its rule says, and
positions are counted by the `Layout` of the window. So the weights of a sentence-level run load
into every architecture, and only what is new stays random. Context modules hang on the model,
outside its two stacks, so that the topmost states of the stacks stay what they are.

A subclass is one architecture: it says which attention stands where (`attention`), and may read
context after a stack (`attend_source`, `attend_target`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers import MarianConfig, MarianMTModel, MBartConfig
from transformers.cache_utils import DynamicCache, DynamicLayer, EncoderDecoderCache
from transformers.modeling_outputs import BaseModelOutput, Seq2SeqLMOutput
from transformers.models.marian.modeling_marian import (
    MarianAttention,
    MarianDecoder,
    MarianEncoder,
)

from iada.errors import ModelError
from iada.models.layout import ALL, Layout, Place, Rule, Sentences, find_fault, read_sentences


class DocumentConfig(MarianConfig):  # type: ignore[no-untyped-call]
    """A Marian configuration with what document-level models need to know."""

    model_type = "iada_document"

    sep_token_id: int = 4
    unk_token_id: int = 3
    context: int = 3
    """Context sentences of a window that the stacks read."""
    ends: str = "once"
    """Whether a window ends `once`, or `each` of its sentences does."""
    restarts_positions: bool = False
    """Whether positions begin anew with every sentence."""
    context_sides: str = "encoder"
    """Where context modules stand: encoder, decoder or both."""
    wide_layers: int = 0
    """Layers that read the whole window."""
    stop_context: bool = True
    """Whether no gradient flows into context states."""
    frozen_context: bool = False
    """Whether context states are those of a first stage that does not learn any more."""
    gate: str = "soft"
    far_context: int = 0
    """Context sentences on top of `context`."""
    after: int = 0
    """Source sentences after the current one."""
    context_norm: bool = False
    """Whether a context module normalises its result, as some released code does."""
    pre_norm: bool = False
    """Whether layers normalise what they read, not what they write, as some released code does."""
    residual_from_norm: bool = False
    """Whether a pre-norm cross-attention adds its result to its normalised input, as released."""


@dataclass
class WindowEncoding(BaseModelOutput):
    """What an encoder found, with what it read: decoding steps need the structure of the source."""

    source_ids: Tensor | None = None
    """(rows, source length)"""
    first_sentence: Tensor | None = None
    """(rows,)"""


class WindowAttention(MarianAttention):
    """Attention that sees what its rule allows in the layout of the window."""

    def __init__(
        self, config: DocumentConfig | MBartConfig, place: Place, rule: Rule, layer: int
    ) -> None:
        heads = (
            config.encoder_attention_heads if place == "encoder" else config.decoder_attention_heads
        )
        super().__init__(
            config.d_model,
            heads,
            dropout=config.attention_dropout,
            is_decoder=place != "encoder",
            # mBART's has everything that is read of it.
            config=cast(MarianConfig, config),
            layer_idx=layer,
        )
        self.place = place
        self.rule = rule

    @property
    def implementation(self) -> str | None:
        """What computes the attention, by its name in `transformers`."""
        assert self.config is not None
        name: str | None = self.config._attn_implementation
        return name

    def forward(
        self,
        hidden_states: Tensor,
        key_value_states: Tensor | None = None,
        past_key_values: Any = None,
        attention_mask: Tensor | None = None,
        layout: Layout | None = None,
        **kwargs: Any,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend as the stock class does; `attention_mask` is replaced by the rule's."""
        assert layout is not None, "the model hands its layout to every attention"
        mask = layout.mask(self.place, self.rule)
        if self.implementation == "eager":
            # It adds the mask to the scores.
            lowest = torch.finfo(hidden_states.dtype).min
            mask = torch.zeros_like(mask, dtype=hidden_states.dtype).masked_fill(~mask, lowest)
        found: tuple[Tensor, Tensor | None] = super().forward(
            hidden_states, key_value_states, past_key_values, mask
        )
        return found


MakeAttention = Callable[[Place, int], WindowAttention]


class WindowEncoder(MarianEncoder):  # type: ignore[no-untyped-call]
    """The stock encoder, with positions and masks of the layout."""

    config: DocumentConfig

    def __init__(self, config: DocumentConfig, attention: MakeAttention) -> None:
        super().__init__(config)
        for number, layer in enumerate(self.layers):
            layer.self_attn = attention("encoder", number)

    def embed(self, embeddings: Tensor, layout: Layout) -> Tensor:
        """Return what enters the first layer, given the scaled embeddings, (rows, length, dim)."""
        positions = layout.source.counted(restarts=self.config.restarts_positions)
        added: Tensor = self.embed_positions(embeddings.shape[:-1], position_ids=positions)
        return embeddings + added

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        first_sentence: Tensor | None = None,
        layout: Layout | None = None,
        **kwargs: Any,
    ) -> WindowEncoding:
        """Encode windows.

        Args:
            input_ids: (rows, length); always needed, because the sentences are read off them.
            attention_mask: (rows, length), 1 where there is no padding.
            inputs_embeds: (rows, length, dim) scaled embeddings in place of a lookup.
            first_sentence: (rows,) source sentences before the first target sentence.
            layout: that of the forward pass, if there is one already.
            **kwargs: what `generate` hands to every encoder; not used.
        """
        if layout is None:
            layout = read_layout(self.config, input_ids, attention_mask, first_sentence)
        if inputs_embeds is None:
            inputs_embeds = self.embed_tokens(input_ids) * self.embed_scale
        states: Any = self.embed(inputs_embeds, layout)
        states = nn.functional.dropout(states, p=self.dropout, training=self.training)
        for layer in self.layers:
            states = layer(states, None, layout=layout)
        return WindowEncoding(
            last_hidden_state=states, source_ids=input_ids, first_sentence=layout.first_sentence
        )


class WindowDecoder(MarianDecoder):  # type: ignore[no-untyped-call]
    """The stock decoder, with positions and masks of the layout."""

    config: DocumentConfig

    def __init__(self, config: DocumentConfig, attention: MakeAttention) -> None:
        super().__init__(config)
        for number, layer in enumerate(self.layers):
            layer.self_attn = attention("decoder", number)
            layer.encoder_attn = attention("cross", number)

    def embed(self, embeddings: Tensor, layout: Layout, past_key_values: Any) -> Tensor:
        """Return what enters the first layer, given the scaled embeddings, (rows, queries, dim)."""
        assert layout.target is not None
        positions = layout.target.counted(restarts=self.config.restarts_positions)
        positions = positions[:, -layout.queries :]
        added: Tensor = self.embed_positions(embeddings.shape[:-1], position_ids=positions)
        return embeddings + added

    def forward(
        self,
        input_ids: Tensor | None,
        encoder_hidden_states: Tensor,
        layout: Layout,
        past_key_values: Any = None,
        inputs_embeds: Tensor | None = None,
        **kwargs: Any,
    ) -> Tensor:
        """Return the topmost states of the last positions of the decoder input.

        Args:
            input_ids: (rows, queries): these positions.
            encoder_hidden_states: (rows, source length, dim).
            layout: of the whole window.
            past_key_values: cache of the positions before; None to do without.
            inputs_embeds: (rows, queries, dim) unscaled embeddings in place of a lookup.
            **kwargs: taken for compatibility; not used.
        """
        if inputs_embeds is None:
            inputs_embeds = self.embed_tokens(input_ids)
        states: Any = self.embed(inputs_embeds * self.embed_scale, layout, past_key_values)
        states = nn.functional.dropout(states, p=self.dropout, training=self.training)
        for layer in self.layers:
            states = layer(
                states,
                None,
                encoder_hidden_states,
                past_key_values=past_key_values,
                layout=layout,
            )
        found: Tensor = states
        return found


class DocumentModel(MarianMTModel):  # type: ignore[no-untyped-call]
    """A translation model that reads windows of sentences; the base of all architectures."""

    config_class = DocumentConfig
    config: DocumentConfig
    counts_positions = True
    """Positions are counted here, from the ids: whoever pads need not move them."""
    window_inputs = ("first_sentence",)
    """Entries of a batch, beside the usual ones, that `forward` takes."""

    def __init__(self, config: DocumentConfig) -> None:
        super().__init__(config)
        self.model.encoder = self.make_encoder()
        self.model.decoder = self.make_decoder()
        self.add_context()
        self.post_init()  # type: ignore[no-untyped-call]

    def attention(self, place: Place, layer: int) -> WindowAttention:
        """Make the attention of a layer."""
        return WindowAttention(self.config, place, ALL, layer)

    def make_encoder(self) -> WindowEncoder:
        """Make the encoder."""
        return WindowEncoder(self.config, self.attention)

    def make_decoder(self) -> WindowDecoder:
        """Make the decoder."""
        return WindowDecoder(self.config, self.attention)

    def add_context(self) -> None:
        """Add the modules that read context outside the two stacks."""

    def check_windows(self, batch: Mapping[str, Any]) -> None:
        """Refuse windows whose sentences do not end as this architecture reads them.

        Args:
            batch: with `input_ids`, `attention_mask` and `decoder_input_ids`.

        Raises:
            ModelError: saying what was found and what the windows must look like.
        """
        config, each = self.config, self.config.ends == "each"
        fault = find_fault(
            batch["input_ids"],
            batch["attention_mask"],
            batch["decoder_input_ids"],
            opening=_one(config.bos_token_id),
            end=_one(config.eos_token_id),
            separator=config.sep_token_id if each else None,
        )
        if fault is not None:
            raise ModelError(
                f"{type(self).__name__} reads windows like `c {'</s>' if each else '<sep>'} x "
                f"</s>`, but this batch has {fault}. Cut windows with the architecture's `Frame`."
            )

    def keep_stage_one(self) -> None:
        """Keep what has to stay as it is, once the weights of another run are loaded."""

    @property
    def cached_layers(self) -> int:
        """Layers of the cache of keys and values that decoding needs."""
        return int(self.config.decoder_layers)

    def attend_source(self, states: Tensor, layout: Layout) -> Tensor:
        """Put context into the encoder's topmost states, (rows, source length, dim)."""
        return states

    def attend_target(self, states: Tensor, layout: Layout, past_key_values: Any) -> Tensor:
        """Put context into the decoder's topmost states, (rows, queries, dim)."""
        return states

    @property
    def has_stock_decoder(self) -> bool:
        """Whether the decoder reads what it says and one source sentence, and no context."""
        return False

    def encode_window(
        self, input_ids: Tensor, attention_mask: Tensor, first_sentence: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Encode windows for a stock decoder; arguments as in `forward`.

        Returns:
            (rows, source length, dim) states with context, and (rows, source length) bool, those
            that the decoder sees: the sentence that it translates.
        """
        layout = read_layout(self.config, input_ids, attention_mask, first_sentence)
        encoded = self.model.encoder(input_ids, attention_mask, layout=layout).last_hidden_state
        is_own = layout.source.present & (layout.source.numbers == first_sentence[:, None])
        return self.attend_source(encoded, layout), is_own

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
        encoder_outputs: WindowEncoding | None = None,
        past_key_values: Any = None,
        inputs_embeds: Tensor | None = None,
        decoder_inputs_embeds: Tensor | None = None,
        use_cache: bool | None = None,
        first_sentence: Tensor | None = None,
        spoken_ids: Tensor | None = None,
        return_dict: bool | None = None,
        **kwargs: Any,
    ) -> Seq2SeqLMOutput:
        """Compute the logits of every decoder position.

        Args:
            input_ids: (rows, source length); not needed with `encoder_outputs`.
            attention_mask: (rows, source length), 1 where there is no padding.
            decoder_input_ids: (rows, queries); with a cache only the positions that are new.
            decoder_attention_mask: (rows, target length), 1 where there is no padding.
            encoder_outputs: what the encoder returned for these windows.
            past_key_values: cache of earlier positions.
            inputs_embeds: (rows, source length, dim) scaled embeddings, beside `input_ids`.
            decoder_inputs_embeds: (rows, queries, dim) embeddings, beside `decoder_input_ids`.
            use_cache: whether to fill a cache.
            first_sentence: (rows,) source sentences before the first target sentence.
            spoken_ids: (rows, target length) the whole decoder input, if not all of it is new.
            return_dict: taken for compatibility; the result is always named.
            **kwargs: what `generate` hands to every model; not used.
        """
        assert decoder_input_ids is not None, "the sentences are read off the decoder input"
        source_ids = input_ids
        if encoder_outputs is not None:
            source_ids = encoder_outputs.source_ids
            first_sentence = encoder_outputs.first_sentence
        assert source_ids is not None, "the sentences are read off the source"
        layout = read_layout(self.config, source_ids, attention_mask, first_sentence)
        whole = decoder_input_ids if spoken_ids is None else spoken_ids
        layout.target = read_target(self.config, whole, decoder_attention_mask)
        layout.queries = decoder_input_ids.shape[1]
        if encoder_outputs is None:
            encoder_outputs = self.model.encoder(
                source_ids, attention_mask, inputs_embeds=inputs_embeds, layout=layout
            )
        assert encoder_outputs is not None
        past_key_values = self._cache(past_key_values, use_cache)
        encoded: Any = encoder_outputs.last_hidden_state
        if past_key_values is None or past_key_values.get_seq_length() == 0:
            # Later steps read the keys and values of the first.
            encoded = self.attend_source(encoded, layout)
        states = self.model.decoder(
            decoder_input_ids,
            encoded,
            layout,
            past_key_values=past_key_values,
            inputs_embeds=decoder_inputs_embeds,
        )
        states = self.attend_target(states, layout, past_key_values)
        return Seq2SeqLMOutput(
            logits=self.lm_head(states) + self.final_logits_bias,
            past_key_values=past_key_values,
            encoder_last_hidden_state=encoder_outputs.last_hidden_state,
        )

    def prepare_inputs_for_generation(  # type: ignore[override]
        self, input_ids: Tensor, **kwargs: Any
    ) -> dict[str, Any]:
        """Hand the whole decoder input to each step, which computes its last position only."""
        stock: Any = super()
        inputs: dict[str, Any] = stock.prepare_inputs_for_generation(input_ids, **kwargs)
        return inputs | {"spoken_ids": input_ids}

    def _cache(self, cache: Any, use_cache: bool | None) -> Any:
        """Return a cache that has room for every layer, or none."""
        if cache is None and not (self.config.use_cache if use_cache is None else use_cache):
            return None
        return widen_cache(cache, self.cached_layers)


def widen_cache(cache: Any, layers: int) -> Any:
    """Return a cache of keys and values with room for as many layers, a new one for None."""
    if cache is None:
        cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
    for part in (cache.self_attention_cache, cache.cross_attention_cache):
        while len(part.layers) < layers:
            part.layers.append(DynamicLayer())  # type: ignore[no-untyped-call]
    return cache


def read_layout(
    config: DocumentConfig,
    source_ids: Tensor,
    attention_mask: Tensor | None,
    first_sentence: Tensor | None,
) -> Layout:
    """Read the sentences of the source; arguments as in `DocumentModel.forward`."""
    if first_sentence is None:
        first_sentence = source_ids.new_zeros(source_ids.shape[0])
    source = read_sentences(
        source_ids,
        attention_mask,
        boundaries=(_one(config.eos_token_id), config.sep_token_id),
        unknown=config.unk_token_id,
        opens=False,
    )
    return Layout(source, first_sentence, source_ids=source_ids, one_current=config.after > 0)


def read_target(config: DocumentConfig, ids: Tensor, attention_mask: Tensor | None) -> Sentences:
    """Read the sentences of the decoder input, (rows, length).

    Padding on the right, as in training, needs no mask: nothing before it can see it.
    """
    return read_sentences(
        ids,
        attention_mask,
        boundaries=(_one(config.bos_token_id), config.sep_token_id),
        unknown=config.unk_token_id,
        opens=True,
    )


def _one(token: int | list[int] | None) -> int:
    assert isinstance(token, int), "our configurations have one id for each special token"
    return token
