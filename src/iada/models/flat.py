"""FlatTrans (Ma et al. 2020): one encoder reads context and current sentence.

The lower layers attend to the whole window, the upper ones and the cross-attention to the current
sentence alone. A learned embedding tells the two apart. The target is the current sentence.
"""

from torch import Tensor, nn

from iada.models.document import (
    DocumentConfig,
    DocumentModel,
    MakeAttention,
    WindowAttention,
    WindowEncoder,
)
from iada.models.layout import ALL, CURRENT, Layout, Place


class FlatConfig(DocumentConfig):  # type: ignore[no-untyped-call]
    """Configuration of `FlatModel`; `wide_layers` are the lowest of the encoder."""

    model_type = "iada_flat"


class FlatEncoder(WindowEncoder):  # type: ignore[no-untyped-call]
    """An encoder that is told which tokens are current."""

    def __init__(self, config: DocumentConfig, attention: MakeAttention) -> None:
        super().__init__(config, attention)
        self.embed_segments = nn.Embedding(2, config.d_model)

    def embed(self, embeddings: Tensor, layout: Layout) -> Tensor:
        """Add positions and segments."""
        segments: Tensor = self.embed_segments(layout.is_current.long())
        return super().embed(embeddings, layout) + segments


class FlatModel(DocumentModel):  # type: ignore[no-untyped-call]
    """FlatTrans."""

    config_class = FlatConfig
    has_stock_decoder = True

    def make_encoder(self) -> WindowEncoder:
        """Make the encoder."""
        return FlatEncoder(self.config, self.attention)

    def attention(self, place: Place, layer: int) -> WindowAttention:
        """Make the attention of a layer."""
        is_wide = place == "decoder" or (place == "encoder" and layer < self.config.wide_layers)
        return WindowAttention(self.config, place, ALL if is_wide else CURRENT, layer)
