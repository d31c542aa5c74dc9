"""FlatTrans and G-Transformer on a pre-trained BERT: its encoder, with a decoder of our own.

The encoder is a stock `BertModel` with the checkpoint's weights and dropout; only what its layers
may attend to is ours. The decoder, its vocabulary and its attention to the source are those of the
same architecture built from scratch; a linear map stands between the two where their widths differ.

    FlatTrans       the lower layers see the window, the upper ones the current sentence. BERT's
                    segments tell context (1) from the current sentence (0), so that a sentence
                    without context is read as BERT reads a sentence.
    G-Transformer   every layer sees its own sentence; the topmost layers have a second, new
                    attention over the window beside BERT's own, and a gate between:
                    g = sigmoid(W [near; far]),    out = g * near + (1 - g) * far

Source ids are those of BERT's tokenizer after all ids of the target
(`iada.data.tokens.paired_subwords`), and `[SEP]` ends every source sentence.
"""

from collections.abc import Mapping
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor, nn
from transformers import BertConfig, BertModel
from transformers.models.bert.modeling_bert import BertAttention, BertSelfAttention

from iada.errors import ModelError
from iada.models.document import DocumentModel, WindowEncoding, read_layout
from iada.models.flat import FlatConfig, FlatModel
from iada.models.gtrans import GTransConfig, GTransModel
from iada.models.layout import ALL, CURRENT, OWN, Layout, Rule, find_fault


class FlatBertConfig(FlatConfig):  # type: ignore[no-untyped-call]
    """Configuration of `FlatBertModel`; sizes but `encoder_layers` are the decoder's."""

    model_type = "iada_flat_bert"

    bert: dict[str, Any] | None = None
    """Configuration of the encoder."""
    source_begins: int = 0
    """First id of the source's vocabulary; `sep_token_id` is the `[SEP]` in it."""


class GTransBertConfig(GTransConfig):  # type: ignore[no-untyped-call]
    """Configuration of `GTransBertModel`, likewise."""

    model_type = "iada_gtrans_bert"

    bert: dict[str, Any] | None = None
    """Configuration of the encoder."""
    source_begins: int = 0
    """First id of the source's vocabulary; `sep_token_id` is the `[SEP]` in it."""


class GatedBertAttention(BertAttention):
    """BERT's own attention, a new one that sees further, and a gate between them."""

    def __init__(self, config: BertConfig, layer: int) -> None:
        super().__init__(config, layer_idx=layer)  # type: ignore[no-untyped-call]
        self.far = BertSelfAttention(config, layer_idx=layer)  # type: ignore[no-untyped-call]
        self.far_output = nn.Linear(config.hidden_size, config.hidden_size)
        self.gate = nn.Linear(2 * config.hidden_size, config.hidden_size)

    def forward(  # type: ignore[override]
        self,
        hidden_states: Tensor,
        attention_mask: Tensor | None = None,
        *unused: Any,
        far_mask: Tensor | None = None,
        **kwargs: Any,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend near and far, mix, and then do what BERT does after its attention."""
        near, weights = self.self(hidden_states, attention_mask=attention_mask)
        far, _ = self.far(hidden_states, attention_mask=far_mask)
        near, far = self.output.dense(near), self.far_output(far)
        share = torch.sigmoid(self.gate(torch.cat([near, far], dim=-1)))
        mixed = self.output.dropout(share * near + (1 - share) * far)
        return self.output.LayerNorm(mixed + hidden_states), weights


class BertWindowEncoder(nn.Module):
    """A stock BERT whose layers attend as the layout of the window says."""

    def __init__(self, config: "FlatBertConfig | GTransBertConfig") -> None:
        super().__init__()
        self.config = config
        settings = BertConfig.from_dict(config.bert or {})
        settings._attn_implementation = config._attn_implementation
        self.bert: Any = BertModel(  # type: ignore[no-untyped-call]
            settings, add_pooling_layer=False
        )
        self.is_flat = isinstance(config, FlatBertConfig)
        layers = self.bert.encoder.layer
        wide = config.wide_layers
        self.rules: list[Rule] = [OWN] * len(layers)
        if self.is_flat:
            self.rules = [ALL if number < wide else CURRENT for number in range(len(layers))]
        else:
            for number in range(len(layers) - wide, len(layers)):
                layers[number].attention = GatedBertAttention(settings, number)

    def get_input_embeddings(self) -> nn.Module:
        """Return the lookup of word pieces."""
        lookup: nn.Module = self.bert.embeddings.word_embeddings
        return lookup

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        first_sentence: Tensor | None = None,
        layout: Layout | None = None,
        **kwargs: Any,
    ) -> WindowEncoding:
        """Encode windows; arguments as in `WindowEncoder.forward`, BERT's width for `dim`."""
        if layout is None:
            layout = read_layout(self.config, input_ids, attention_mask, first_sentence)
        segments = torch.zeros_like(input_ids)
        if self.is_flat:
            segments = (~layout.is_current).long()
        given: dict[str, Tensor] = {"input_ids": self._own_ids(input_ids)}
        if inputs_embeds is not None:
            given = {"inputs_embeds": inputs_embeds}
        states: Any = self.bert.embeddings(
            token_type_ids=segments, position_ids=layout.source.positions, **given
        )
        for rule, layer in zip(self.rules, self.bert.encoder.layer, strict=True):
            further = {}
            if isinstance(layer.attention, GatedBertAttention):
                further["far_mask"] = self._mask(layout, ALL, states)
            states = layer(states, self._mask(layout, rule, states), **further)
        return WindowEncoding(
            last_hidden_state=states, source_ids=input_ids, first_sentence=layout.first_sentence
        )

    def _own_ids(self, ids: Tensor) -> Tensor:
        """Return ids of BERT's own tokenizer; padding has the target's, which masks hide."""
        begins, padding = self.config.source_begins, self.bert.config.pad_token_id
        return torch.where(ids >= begins, ids - begins, torch.full_like(ids, padding or 0))

    def _mask(self, layout: Layout, rule: Rule, states: Tensor) -> Tensor:
        mask = layout.mask("encoder", rule)
        if self.bert.config._attn_implementation != "eager":
            return mask
        # It adds the mask to the scores.
        lowest = torch.finfo(states.dtype).min
        return torch.zeros_like(mask, dtype=states.dtype).masked_fill(~mask, lowest)


class BertDocumentModel(DocumentModel):  # type: ignore[no-untyped-call]
    """What both architectures share; a base beside that of their decoder."""

    config: "FlatBertConfig | GTransBertConfig"

    @property
    def source_begins(self) -> int:
        """First id of the source's vocabulary."""
        return self.config.source_begins

    @property
    def encoder_width(self) -> int:
        """Width of BERT's states."""
        return int(self.model.encoder.bert.config.hidden_size)

    def make_encoder(self) -> Any:
        """Make the encoder."""
        return BertWindowEncoder(self.config)

    def add_context(self) -> None:
        """Add the map from BERT's states to those that the decoder attends to."""
        self.bridge: nn.Module = nn.Identity()
        if self.encoder_width != self.config.d_model:
            self.bridge = nn.Linear(self.encoder_width, self.config.d_model)

    def attend_source(self, states: Tensor, layout: Layout) -> Tensor:
        """Give BERT's topmost states the width of the decoder."""
        mapped: Tensor = self.bridge(states)
        return mapped

    def check_windows(self, batch: Mapping[str, Any]) -> None:
        """Refuse windows whose source does not end in `[SEP]`.

        Args:
            batch: with `input_ids`, `attention_mask` and `decoder_input_ids`.

        Raises:
            ModelError: saying what was found.
        """
        fault = find_fault(
            batch["input_ids"],
            batch["attention_mask"],
            batch["decoder_input_ids"],
            opening=int(self.config.bos_token_id or 0),
            end=self.config.sep_token_id,
            separator=None,
        )
        if fault is not None:
            raise ModelError(
                f"{type(self).__name__} reads windows like `[CLS] c [SEP] x [SEP]`, but this batch "
                f"has {fault.replace('</s>', '[SEP]')}. Cut windows with `paired_frame`."
            )

    def load_encoder(self, name: str) -> None:
        """Give the encoder the weights of a checkpoint; what is new in it stays random.

        Args:
            name: folder or hub name of the BERT.
        """
        try:
            stock: Any = BertModel.from_pretrained(
                name, add_pooling_layer=False, dtype=torch.float32, trust_remote_code=False
            )
        except (OSError, ValueError, SafetensorError) as error:
            reason = " ".join(str(error).split())[:300]
            raise ModelError(f"`model.pretrained`: {name} cannot be loaded. ({reason})") from None
        found = self.model.encoder.bert.load_state_dict(stock.state_dict(), strict=False)
        new = {one.rpartition("attention.")[2].partition(".")[0] for one in found.missing_keys}
        if found.unexpected_keys or not new <= {"far", "far_output", "gate"}:
            raise ModelError(f"The weights of {name} are not those of its configuration.")

    def loaded_names(self) -> tuple[str, ...]:
        """Return the names of the parameters that a checkpoint of BERT has."""
        new = (".far.", ".far_output.", ".gate.")
        return tuple(
            name
            for name, _ in self.named_parameters()
            if name.startswith("model.encoder.bert.") and not any(part in name for part in new)
        )


class FlatBertModel(BertDocumentModel, FlatModel):  # type: ignore[no-untyped-call]
    """FlatTrans on BERT."""

    config_class = FlatBertConfig
    config: FlatBertConfig


class GTransBertModel(BertDocumentModel, GTransModel):  # type: ignore[no-untyped-call]
    """G-Transformer on BERT."""

    config_class = GTransBertConfig
    config: GTransBertConfig


BERT_MODELS: dict[str, type[BertDocumentModel]] = {
    "flat": FlatBertModel,
    "gtrans": GTransBertModel,
}
"""Class of each architecture that BERT can be the encoder of."""


def encoder_settings(config: BertConfig) -> dict[str, Any]:
    """Return what the configuration of our model keeps of that of a BERT."""
    ours = ("architectures", "dtype", "torch_dtype", "transformers_version", "_name_or_path")
    return {key: value for key, value in config.to_dict().items() if key not in ours}
