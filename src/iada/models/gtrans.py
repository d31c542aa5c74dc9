"""G-Transformer (Bao et al. 2021): attention within a sentence, and in the top layers beyond it.

Every attention sees its own sentence, the cross-attention its translation. The topmost layers have
a second attention over the whole window beside it, with weights of its own, and a gate between:

    g = sigmoid(W [near; far]),    out = g * near + (1 - g) * far

Dropout comes after the gate, as in the released code, because the layer drops what it is given.
"""

from typing import Any

import torch
from torch import Tensor, nn

from iada.models.document import DocumentConfig, DocumentModel, WindowAttention
from iada.models.layout import ALL, OWN, Layout, Place


class GatedAttention(WindowAttention):
    """Two attentions and a gate; the near one keeps the names of a stock attention."""

    def __init__(self, config: DocumentConfig, place: Place, layer: int, far_layer: int) -> None:
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
        share = torch.sigmoid(self.gate(torch.cat([near, far], dim=-1)))
        return share * near + (1 - share) * far, weights


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
        config = self.config
        layers = config.encoder_layers if place == "encoder" else config.decoder_layers
        above = layer - (layers - config.wide_layers)
        if above < 0:
            return WindowAttention(config, place, OWN, layer)
        # The far attention keeps its keys and values behind those of all layers.
        return GatedAttention(config, place, layer, config.decoder_layers + above)
