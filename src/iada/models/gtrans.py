"""G-Transformer (Bao et al. 2021): attention within a sentence, and in the top layers beyond it.

Every attention sees its own sentence, the cross-attention its translation. The topmost layers have
a second attention over the whole window beside it, with weights of its own, and a gate between:

    g = sigmoid(W [near; far]),    out = g * near + (1 - g) * far

Dropout comes after the gate, as in the released code, because the layer drops what it is given.

`GTransMBartModel` puts the same attentions into a pre-trained mBART: the near ones, and everything
else, keep the checkpoint's weights; the far ones and the gates are new.
"""

from typing import Any

import torch
from torch import Tensor, nn
from transformers import MBartConfig, MBartForConditionalGeneration
from transformers.models.mbart.modeling_mbart import MBartEncoder

from iada.models.document import (
    DocumentConfig,
    DocumentModel,
    WindowAttention,
    WindowEncoding,
    widen_cache,
)
from iada.models.layout import ALL, OWN, Layout, Place, Sentences, read_sentences


class GatedAttention(WindowAttention):
    """Two attentions and a gate; the near one keeps the names of a stock attention."""

    def __init__(
        self, config: "DocumentConfig | MBartConfig", place: Place, layer: int, far_layer: int
    ) -> None:
        super().__init__(config, place, OWN, layer)
        self.far = WindowAttention(config, place, ALL, far_layer)
        self.gate = nn.Linear(2 * config.d_model, config.d_model)

    def forward(
        self,
        hidden_states: Tensor,
        key_value_states: Tensor | None = None,
        past_key_values: Any = None,
        attention_mask: Tensor | None = None,
        layout: Layout | None = None,
        **kwargs: Any,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend near and far, and mix."""
        near, weights = super().forward(
            hidden_states, key_value_states, past_key_values, layout=layout
        )
        far, _ = self.far(hidden_states, key_value_states, past_key_values, layout=layout)
        return self.mix(near, far), weights

    def mix(self, near: Tensor, far: Tensor) -> Tensor:
        """Mix what the two attentions found, (rows, queries, dim) each."""
        share = torch.sigmoid(self.gate(torch.cat([near, far], dim=-1)))
        return share * near + (1 - share) * far


class GTransConfig(DocumentConfig):  # type: ignore[no-untyped-call]
    """Configuration of `GTransModel`; `wide_layers` are the topmost of each stack."""

    model_type = "iada_gtrans"


class GTransModel(DocumentModel):  # type: ignore[no-untyped-call]
    """G-Transformer."""

    config_class = GTransConfig

    @property
    def cached_layers(self) -> int:
        """Layers of the cache of keys and values that decoding needs."""
        return int(self.config.decoder_layers + self.config.wide_layers)

    def attention(self, place: Place, layer: int) -> WindowAttention:
        """Make the attention of a layer."""
        return _make_attention(self.config, place, layer)


def _make_attention(
    config: "DocumentConfig | GTransMBartConfig", place: Place, layer: int
) -> WindowAttention:
    layers = config.encoder_layers if place == "encoder" else config.decoder_layers
    above = layer - (layers - config.wide_layers)
    if above < 0:
        return WindowAttention(config, place, OWN, layer)
    # The far attention keeps its keys and values behind those of all layers.
    return GatedAttention(config, place, layer, config.decoder_layers + above)


class GTransMBartConfig(MBartConfig):  # type: ignore[no-untyped-call]
    """A configuration of mBART with what tells the sentences of a window apart."""

    model_type = "iada_gtrans_mbart"

    wide_layers: int = 2
    """Topmost layers of each stack that read the whole window."""
    source_boundary_id: int = 2
    """Token that ends every source sentence."""
    target_boundary_id: int = 2
    """Token that opens every sentence of the decoder input."""
    unknown_id: int = 3


class GTransMBartEncoder(MBartEncoder):  # type: ignore[no-untyped-call]
    """The stock encoder, with the layout of its windows for every attention."""

    config: GTransMBartConfig

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        first_sentence: Tensor | None = None,
        layout: Layout | None = None,
        **kwargs: Any,
    ) -> WindowEncoding:
        """Encode windows; arguments as in `WindowEncoder.forward`."""
        assert input_ids is not None, "the sentences are read off the source"
        if layout is None:
            layout = _read_layout(self.config, input_ids, attention_mask, first_sentence)
        given = {"inputs_embeds": inputs_embeds}
        if inputs_embeds is None:
            given = {"input_ids": input_ids}
        found = super().forward(
            attention_mask=attention_mask, return_dict=True, layout=layout, **given
        )
        return WindowEncoding(
            last_hidden_state=found.last_hidden_state,
            source_ids=input_ids,
            first_sentence=layout.first_sentence,
        )


class GTransMBartModel(MBartForConditionalGeneration):  # type: ignore[no-untyped-call]
    """G-Transformer's attentions inside mBART; positions run on through the window."""

    config_class = GTransMBartConfig
    config: GTransMBartConfig
    window_inputs = ("first_sentence",)
    """Entries of a batch, beside the usual ones, that `forward` takes."""
    _supports_flash_attn = False

    def __init__(self, config: GTransMBartConfig) -> None:
        super().__init__(config)
        self.model.encoder = GTransMBartEncoder(config)
        for number, layer in enumerate(self.model.encoder.layers):
            layer.self_attn = _make_attention(config, "encoder", number)
        for number, layer in enumerate(self.model.decoder.layers):
            layer.self_attn = _make_attention(config, "decoder", number)
            layer.encoder_attn = _make_attention(config, "cross", number)
        self.post_init()  # type: ignore[no-untyped-call]

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
        encoder_outputs: Any = None,
        past_key_values: Any = None,
        use_cache: bool | None = None,
        first_sentence: Tensor | None = None,
        spoken_ids: Tensor | None = None,
        **kwargs: Any,
    ) -> Any:
        """Compute the logits of every decoder position; arguments as in `DocumentModel.forward`."""
        assert decoder_input_ids is not None, "the sentences are read off the decoder input"
        source_ids = input_ids
        if encoder_outputs is not None:
            source_ids = encoder_outputs.source_ids
            first_sentence = encoder_outputs.first_sentence
        assert source_ids is not None, "the sentences are read off the source"
        layout = _read_layout(self.config, source_ids, attention_mask, first_sentence)
        whole = decoder_input_ids if spoken_ids is None else spoken_ids
        layout.target = _read_side(
            whole, decoder_attention_mask, self.config.target_boundary_id, self.config, opens=True
        )
        layout.queries = decoder_input_ids.shape[1]
        use_cache = bool(self.config.use_cache if use_cache is None else use_cache)
        if use_cache or past_key_values is not None:
            layers = self.config.decoder_layers + self.config.wide_layers
            past_key_values = widen_cache(past_key_values, layers)
        return super().forward(
            input_ids=input_ids,
            attention_mask=attention_mask,
            decoder_input_ids=decoder_input_ids,
            decoder_attention_mask=decoder_attention_mask,
            encoder_outputs=encoder_outputs,
            past_key_values=past_key_values,
            use_cache=use_cache,
            layout=layout,
            **kwargs,
        )

    def prepare_inputs_for_generation(  # type: ignore[override]
        self, input_ids: Tensor, **kwargs: Any
    ) -> dict[str, Any]:
        """Hand the whole decoder input to each step, which computes its last position only."""
        stock: Any = super()
        inputs: dict[str, Any] = stock.prepare_inputs_for_generation(input_ids, **kwargs)
        return inputs | {"spoken_ids": input_ids}


def _read_layout(
    config: GTransMBartConfig,
    source_ids: Tensor,
    attention_mask: Tensor | None,
    first_sentence: Tensor | None,
) -> Layout:
    if first_sentence is None:
        first_sentence = source_ids.new_zeros(source_ids.shape[0])
    boundary = config.source_boundary_id
    return Layout(
        _read_side(source_ids, attention_mask, boundary, config, opens=False), first_sentence
    )


def _read_side(
    ids: Tensor, mask: Tensor | None, boundary: int, config: GTransMBartConfig, *, opens: bool
) -> Sentences:
    return read_sentences(ids, mask, boundaries=(boundary,), unknown=config.unknown_id, opens=opens)
