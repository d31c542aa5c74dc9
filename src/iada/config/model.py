"""Size and regularisation of the Transformer."""

from dataclasses import dataclass

from iada.config.base import require


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The paper's Transformer (base): post-norm, sinusoidal positions, one embedding matrix."""

    pretrained: str | None = None
    """Folder or hub name of a pre-trained encoder-decoder to start from (Marian, mBART, M2M100,
    NLLB, T5, BART and others), with its own tokenizer. The keys of size, dropout and positions
    below, and those of `subwords`, are then the checkpoint's."""
    source_code: str | None = None
    """The pre-trained model's own code of the source language, such as `eng_Latn`, where it does
    not follow from `data.source_language`."""
    target_code: str | None = None
    """The pre-trained model's own code of the target language."""
    dim: int = 512
    """Width of the model."""
    feed_forward: int = 2048
    """Width of the feed-forward layers."""
    heads: int = 8
    """Attention heads; must divide `dim`."""
    encoder_layers: int = 6
    """Number of encoder layers."""
    decoder_layers: int = 6
    """Number of decoder layers."""
    dropout: float = 0.3
    """Dropout on embeddings and sub-layer outputs."""
    attention_dropout: float = 0.0
    """Dropout on attention weights."""
    activation_dropout: float = 0.0
    """Dropout inside the feed-forward layers."""
    max_positions: int = 1024
    """Longest sequence that the model can read or write."""

    def __post_init__(self) -> None:
        for name in ("source_code", "target_code"):
            value = getattr(self, name)
            rule = "empty without `model.pretrained`"
            require(self.pretrained is not None or value is None, f"model.{name}", rule, value)
        for name in ("dim", "feed_forward", "heads", "encoder_layers", "decoder_layers"):
            value = getattr(self, name)
            require(value >= 1, f"model.{name}", "at least 1", value)
        rule = f"a divisor of `model.dim` ({self.dim})"
        require(self.dim % self.heads == 0, "model.heads", rule, self.heads)
        require(self.dim % 2 == 0, "model.dim", "even (sine and cosine positions)", self.dim)
        for name in ("dropout", "attention_dropout", "activation_dropout"):
            value = getattr(self, name)
            require(0 <= value < 1, f"model.{name}", "at least 0 and below 1", value)
