"""A model from a configuration, and dropout that is cheap on CPUs.

Doc2Doc is a stock `MarianMTModel`: `transformers` alone loads what was trained, and CTranslate2
converts it. Every other architecture is a class of its own in `MODELS`, a `PreTrainedModel` that
`AutoModelForSeq2SeqLM` loads once `register_models` has run. A decoder-only model is a stock
`LlamaForCausalLM`.

Dropout: on CPUs PyTorch's own makes a draw for every value, which takes as long as a good part of
the matrix products of a small model, and keeps a whole factor for each, in blocks that leave gaps
in the heap. Here four values share a draw of 64 bits, and its 16 bits remember whether a value was
dropped.
"""

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    GenerationConfig,
    LlamaConfig,
    LlamaForCausalLM,
    MarianConfig,
    MarianMTModel,
)

from iada.config.model import ModelConfig
from iada.data.tokens.subwords import SpecialIds
from iada.models.bert import BERT_MODELS
from iada.models.docflat import DocFlatModel
from iada.models.document import DocumentModel
from iada.models.flat import FlatModel
from iada.models.gtrans import GTransMBartModel, GTransModel
from iada.models.han import HanModel
from iada.models.hybrid import HybridModel
from iada.models.san import SanModel

_BITS = 16
_VALUES_PER_DRAW = 4


def use_cheap_dropout(model: Any) -> None:
    """Let the layers of a Marian model drop with `drop`; their rates stay what they are.

    Args:
        model: a `MarianMTModel`. What it saves and what it computes without dropout do not change.
    """
    for layer in (*model.model.encoder.layers, *model.model.decoder.layers):
        # An attention as a whole: where it is two and a gate, dropout comes after the gate.
        dropped: list[nn.Module] = [layer.self_attn, layer.fc2]
        if hasattr(layer, "encoder_attn"):
            dropped.append(layer.encoder_attn)
        for module in dropped:
            module.register_forward_hook(partial(_drop_output, layer.dropout))
        # The layer itself drops right after each of them; once is enough.
        layer.dropout = 0.0
    for stack in (model.model.encoder, model.model.decoder):
        # What a stack drops is what its first layer reads.
        stack.layers[0].register_forward_pre_hook(partial(_drop_input, stack.dropout))
        stack.dropout = 0.0
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.register_forward_hook(partial(_drop_output, module.p))
            module.p = 0.0


def drop(values: Tensor, rate: float) -> Tensor:
    """Set values to zero with a probability, and scale the others so that the mean stays.

    Args:
        values: of any shape.
        rate: the probability, to 16 bits on CPUs; less than one.
    """
    if values.device.type != "cpu":
        kept: Tensor = torch.native_dropout(values, rate, True)[0]
        return kept
    result: Tensor = _CpuDropout.apply(values, rate)  # type: ignore[no-untyped-call]
    return result


class _CpuDropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, rate: float) -> Tensor:
        draws = torch.empty(-(-values.numel() // _VALUES_PER_DRAW), dtype=torch.int64)
        numbers = draws.random_(-(2**63), None).view(torch.int16)[: values.numel()]
        dropped = round(rate * 2**_BITS)
        # The numbers begin at the smallest of 16 bits with a sign.
        ctx.first_kept = dropped - 2 ** (_BITS - 1)
        ctx.scale = 2**_BITS / (2**_BITS - dropped)
        ctx.save_for_backward(numbers)
        return _keep(values, numbers, ctx.first_kept).mul_(ctx.scale)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (numbers,) = ctx.saved_tensors
        return _keep(gradients[0], numbers, ctx.first_kept).mul_(ctx.scale), None


def _keep(values: Tensor, numbers: Tensor, first: int) -> Tensor:
    """Return values, and zero where their numbers are below the first that is kept.

    This is what the gradient of a threshold computes, and there in one pass of wide instructions: a
    comparison and a product with its outcome take four times as long.
    """
    # Halfway between two numbers, and a difference whose sign no smaller type can lose.
    above = numbers.to(torch.float32).sub_(first - 0.5).to(values.dtype)
    kept: Tensor = torch.ops.aten.threshold_backward(values, above.view(values.shape), 0)
    return kept


def _drop_input(rate: float, module: nn.Module, inputs: tuple[Any, ...]) -> Any:
    if not module.training or not rate:
        return None
    return drop(inputs[0], rate), *inputs[1:]


def _drop_output(rate: float, module: nn.Module, _: tuple[Any, ...], output: Any) -> Any:
    if not module.training or not rate:
        return output
    if isinstance(output, tuple):
        # An attention returns its weights too.
        return drop(output[0], rate), *output[1:]
    return drop(output, rate)


MODELS: dict[str, type[DocumentModel]] = {
    "flat": FlatModel,
    "gtrans": GTransModel,
    "han": HanModel,
    "san": SanModel,
    "hybrid": HybridModel,
    "docflat": DocFlatModel,
}
"""Class of each architecture but Doc2Doc and decoder-only models."""


def register_models() -> None:
    """Tell `transformers` about our models, so that its automatic classes load them."""
    models: list[Any] = [*MODELS.values(), *BERT_MODELS.values(), GTransMBartModel]
    for model in models:
        config = model.config_class
        AutoConfig.register(config.model_type, config, exist_ok=True)
        AutoModelForSeq2SeqLM.register(config, model, exist_ok=True)


def automatic_class(config: Any) -> Any:
    """Return the class of Transformers that loads a model, given its configuration."""
    if getattr(config, "is_encoder_decoder", False):
        return AutoModelForSeq2SeqLM
    return AutoModelForCausalLM


def build_causal(config: ModelConfig, *, vocabulary_size: int, special: SpecialIds) -> Any:
    """Build a randomly initialised Llama: pre-norm, SwiGLU, rotary positions, tied embeddings.

    Llama itself drops attention weights at most; `model.dropout` applies to the outputs of its
    attentions and feed-forward layers in training, and is no part of what is saved.

    Args:
        config: size.
        vocabulary_size: number of pieces.
        special: ids of the special tokens.
    """
    model: Any = LlamaForCausalLM(  # type: ignore[no-untyped-call]
        LlamaConfig(
            vocab_size=vocabulary_size,
            hidden_size=config.dim,
            intermediate_size=config.feed_forward,
            num_hidden_layers=config.decoder_layers,
            num_attention_heads=config.heads,
            num_key_value_heads=config.heads,
            max_position_embeddings=config.max_positions,
            attention_dropout=config.attention_dropout,
            initializer_range=config.dim**-0.5,
            tie_word_embeddings=True,
            pad_token_id=special.pad,
            bos_token_id=special.bos,
            eos_token_id=special.eos,
        )
    )
    for layer in model.model.layers:
        for module in (layer.self_attn, layer.mlp):
            module.register_forward_hook(partial(_drop_output, config.dropout))
    model.generation_config = GenerationConfig(  # type: ignore[no-untyped-call]
        pad_token_id=special.pad,
        bos_token_id=special.bos,
        eos_token_id=special.eos,
        max_length=config.max_positions,
        suppress_tokens=[i for i in special.all if i != special.eos],
    )
    return model


def build_model(
    config: ModelConfig, *, vocabulary_size: int, special: SpecialIds, context: int = 3
) -> MarianMTModel:
    """Build a randomly initialised model: post-norm, ReLU, sinusoidal positions, tied embeddings.

    Weights are drawn with standard deviation `dim ** -0.5`, which is Xavier's for the attention
    projections and the usual one for embeddings that are scaled by `sqrt(dim)`.

    Args:
        config: architecture and size.
        vocabulary_size: number of pieces.
        special: ids of the special tokens.
        context: `windows.context`, which context modules need to know.
    """
    sizes = model_sizes(config, vocabulary_size, special)
    if config.architecture == "doc2doc":
        model = MarianMTModel(MarianConfig(**sizes))
    else:
        architecture = MODELS[config.architecture]
        settings = sizes | window_settings(config, special, context)
        model = architecture(architecture.config_class(**settings))
    use_cheap_dropout(model)
    model.generation_config = scratch_generation(config, special)
    return model


def model_sizes(config: ModelConfig, vocabulary_size: int, special: SpecialIds) -> dict[str, Any]:
    """Return the settings of a stock model; arguments as in `build_model`."""
    return dict(
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


def scratch_generation(config: ModelConfig, special: SpecialIds) -> GenerationConfig:
    """Return settings for `generate`: no special token but the end is ever said."""
    return GenerationConfig(  # type: ignore[no-untyped-call]
        pad_token_id=special.pad,
        bos_token_id=special.bos,
        eos_token_id=special.eos,
        decoder_start_token_id=special.bos,
        max_length=config.max_positions,
        suppress_tokens=[special.pad, special.bos, special.unk, special.sep, special.mask],
    )


def window_settings(config: ModelConfig, special: SpecialIds, context: int) -> dict[str, Any]:
    """Return what a document-level model has on top of `model_sizes`."""
    return dict(
        sep_token_id=special.sep,
        unk_token_id=special.unk,
        context=context,
        ends=config.traits.ends,
        restarts_positions=config.traits.restarts_positions,
        context_sides=config.sides,
        wide_layers=config.wide,
        stop_context=config.stops_context,
        frozen_context=bool(config.frozen_context),
        gate=config.gate or "soft",
        far_context=config.far,
        after=config.after,
    )
