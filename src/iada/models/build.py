"""A stock `MarianMTModel` from a configuration.

No second Transformer is written here, so that `transformers` alone loads what was trained and
CTranslate2 converts it.
"""

from torch import nn
from transformers import GenerationConfig, MarianConfig, MarianMTModel

from iada.config.model import ModelConfig
from iada.data.subwords import SpecialIds
from iada.models.dropout import use_cheap_dropout


def build_model(config: ModelConfig, *, vocabulary_size: int, special: SpecialIds) -> MarianMTModel:
    """Build a randomly initialised model: post-norm, ReLU, sinusoidal positions, tied embeddings.

    Weights are drawn with standard deviation `dim ** -0.5`, which is Xavier's for the attention
    projections and the usual one for embeddings that are scaled by `sqrt(dim)`.
    """
    marian = MarianConfig(
        vocab_size=vocabulary_size,
        decoder_vocab_size=vocabulary_size,
        d_model=config.dim,
        encoder_layers=config.encoder_layers,
        decoder_layers=config.decoder_layers,
        encoder_attention_heads=config.heads,
        decoder_attention_heads=config.heads,
        encoder_ffn_dim=config.feed_forward,
        decoder_ffn_dim=config.feed_forward,
        activation_function="relu",
        dropout=config.dropout,
        attention_dropout=config.attention_dropout,
        activation_dropout=config.activation_dropout,
        max_position_embeddings=config.max_positions,
        init_std=config.dim**-0.5,
        scale_embedding=True,
        share_encoder_decoder_embeddings=True,
        tie_word_embeddings=True,
        pad_token_id=special.pad,
        bos_token_id=special.bos,
        eos_token_id=special.eos,
        decoder_start_token_id=special.bos,
        forced_eos_token_id=None,
    )
    model = MarianMTModel(marian)
    for module in model.modules():
        if isinstance(module, nn.ReLU):
            # The same values and gradients without a second copy of the widest activations.
            module.inplace = True
    use_cheap_dropout(model)
    model.generation_config = GenerationConfig(  # type: ignore[no-untyped-call]
        pad_token_id=special.pad,
        bos_token_id=special.bos,
        eos_token_id=special.eos,
        decoder_start_token_id=special.bos,
        max_length=config.max_positions,
        suppress_tokens=[special.pad, special.bos, special.unk, special.sep, special.mask],
    )
    return model
