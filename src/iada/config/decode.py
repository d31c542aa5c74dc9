"""How documents are translated."""

from dataclasses import dataclass

from iada.config.rules import require


@dataclass(frozen=True, kw_only=True)
class DecodeConfig:
    """Left to right, each sentence conditioned on the model's own previous translations."""

    beam: int = 5
    """Beam size; 1 is greedy search."""
    length_penalty: float = 1.0
    """Exponent of the length in the score of a finished hypothesis."""
    max_length_ratio: float = 1.2
    """A translation has at most ratio times its source tokens, plus the offset."""
    max_length_offset: int = 10
    """See `max_length_ratio`."""
    max_tokens: int = 8192
    """Tokens of a decoding batch, padding included: sentences times the longest window."""

    def __post_init__(self) -> None:
        require(self.beam >= 1, "decode.beam", "at least 1", self.beam)
        require(self.max_tokens >= 1, "decode.max_tokens", "at least 1", self.max_tokens)
        ratio, offset = self.max_length_ratio, self.max_length_offset
        require(ratio >= 0, "decode.max_length_ratio", "0 or more", ratio)
        require(offset >= 1, "decode.max_length_offset", "at least 1", offset)
