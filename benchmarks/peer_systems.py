"""A process that makes plain training steps of another toolkit; see `protocol` and `peers`.

Runs in that toolkit's own environment. Each function builds the toolkit's own Transformer and loss:
post-norm where there is a choice, one tied matrix, ReLU, label smoothing 0.1, dropout 0.3, Adam.
"""

import json
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import torch
from protocol import serve
from torch import Tensor
from workload import Shape, synthetic_ids, synthetic_labels

SMOOTHING = 0.1
PAD = 1


def main(request: dict[str, Any]) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    shape = Shape(**request["shape"])
    parameters, loss = BUILDERS[request["system"]](shape)
    optimizer = torch.optim.Adam(parameters, lr=1e-4)

    def step() -> None:
        loss().backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()

    serve(step)


Built = tuple[list[torch.nn.Parameter], Callable[[], Tensor]]


def sockeye(shape: Shape) -> Built:
    import numpy

    # Removed from NumPy since.
    for name in ("bool", "int", "float", "object"):
        if name not in numpy.__dict__:
            setattr(numpy, name, {"bool": bool, "int": int, "float": float, "object": object}[name])
    from sockeye import constants, data_io
    from sockeye.encoder import EmbeddingConfig
    from sockeye.loss import CrossEntropyLoss
    from sockeye.model import ModelConfig, SockeyeModel
    from sockeye.transformer import TransformerConfig

    stack = TransformerConfig(
        model_size=shape.dim,
        attention_heads=shape.heads,
        feed_forward_num_hidden=shape.feed_forward,
        act_type=constants.RELU,
        num_layers=shape.layers,
        dropout_attention=0.0,
        dropout_act=0.0,
        dropout_prepost=shape.dropout,
        positional_embedding_type=constants.FIXED_POSITIONAL_EMBEDDING,
        preprocess_sequence="",
        postprocess_sequence="drn",
        max_seq_len_source=shape.length + 1,
        max_seq_len_target=shape.length + 1,
        depth_key_value=shape.dim,
    )
    embedding = EmbeddingConfig(shape.vocabulary, shape.dim, dropout=shape.dropout)
    config = ModelConfig(
        config_data=data_io.DataConfig(None, shape.length + 1, shape.length + 1, 1, 1),
        vocab_source_size=shape.vocabulary,
        vocab_target_size=shape.vocabulary,
        config_embed_source=embedding,
        config_embed_target=embedding,
        config_encoder=stack,
        config_decoder=stack,
    )
    model = SockeyeModel(config).train()
    criterion = CrossEntropyLoss(label_smoothing=SMOOTHING)
    source, target = synthetic_ids(shape, 1)[..., None], synthetic_ids(shape, 2)[..., None]
    labels = synthetic_labels(shape, "all")
    lengths = torch.full((shape.windows, 2), shape.length)
    lengths[:, 1] = 0

    def loss() -> Tensor:
        output = model(source, lengths, target, lengths[:, 0])
        value: Tensor = criterion(output, {constants.TARGET_LABEL_NAME: labels})[0]
        return value

    return list(model.parameters()), loss


def joeynmt(shape: Shape) -> Built:
    _leave_out("importlib_metadata", "datasets", "torch.utils.tensorboard")
    from joeynmt.model import build_model

    vocabulary = _Ids(shape.vocabulary)
    stack = {
        "type": "transformer",
        "num_layers": shape.layers,
        "num_heads": shape.heads,
        "hidden_size": shape.dim,
        "ff_size": shape.feed_forward,
        "dropout": shape.dropout,
        "layer_norm": "post",
        "activation": "relu",
        "embeddings": {"embedding_dim": shape.dim, "scale": True, "dropout": shape.dropout},
    }
    config = {
        "encoder": dict(stack),
        "decoder": dict(stack),
        "tied_embeddings": True,
        "tied_softmax": True,
        "initializer": "xavier_uniform",
        "embed_initializer": "xavier_uniform",
    }
    model = build_model(config, vocabulary, vocabulary).train()
    model.loss_function = ("crossentropy", SMOOTHING)
    labels = synthetic_labels(shape, "all")
    mask = torch.ones(shape.windows, 1, shape.length, dtype=torch.bool)
    inputs = {
        "src": synthetic_ids(shape, 1),
        "src_mask": mask,
        "src_length": torch.full((shape.windows,), shape.length),
        "trg_input": synthetic_ids(shape, 2),
        "trg": labels,
        "trg_mask": mask,
    }

    def loss() -> Tensor:
        value: Tensor = model(return_type="loss", **inputs)[0]
        return value / labels.numel()

    return [p for p in model.parameters() if p.requires_grad], loss


def opennmt(shape: Shape) -> Built:
    _leave_out("pyonmttok", "spacy", "ctranslate2", "ahocorasick", "rapidfuzz", "fasttext")
    from onmt.decoders.transformer import TransformerDecoder
    from onmt.encoders.transformer import TransformerEncoder
    from onmt.models.model import NMTModel
    from onmt.modules import Embeddings

    def embeddings() -> Any:
        return Embeddings(
            word_vec_size=shape.dim,
            word_vocab_size=shape.vocabulary,
            word_padding_idx=PAD,
            position_encoding=True,
            dropout=shape.dropout,
        )

    encoder_embeddings, decoder_embeddings = embeddings(), embeddings()
    decoder_embeddings.word_lut.weight = encoder_embeddings.word_lut.weight
    encoder = TransformerEncoder(
        shape.layers, shape.dim, shape.heads, shape.feed_forward, shape.dropout, 0.0,
        encoder_embeddings, 0, 0,
    )  # fmt: skip
    decoder = TransformerDecoder(
        shape.layers, shape.dim, shape.heads, shape.feed_forward, False, "scaled-dot",
        shape.dropout, 0.0, decoder_embeddings, 0, 0, False, False, 0, 0,
    )  # fmt: skip
    model = NMTModel(encoder, decoder).train()
    generator = torch.nn.Linear(shape.dim, shape.vocabulary)
    generator.weight = decoder_embeddings.word_lut.weight
    criterion = torch.nn.CrossEntropyLoss(
        ignore_index=PAD, reduction="sum", label_smoothing=SMOOTHING
    )
    source, labels = synthetic_ids(shape, 1)[..., None], synthetic_labels(shape, "all")
    # The model cuts the last target token off its input.
    target = torch.cat([synthetic_ids(shape, 2), labels[:, -1:]], dim=1)[..., None]
    lengths = torch.full((shape.windows,), shape.length)

    def loss() -> Tensor:
        states, _ = model(source, target, lengths)
        logits = generator(states.reshape(-1, shape.dim))
        value: Tensor = criterion(logits, labels.reshape(-1))
        return value / labels.numel()

    return [*model.parameters(), generator.bias], loss


def fairseq(shape: Shape) -> Built:
    _allow_dataclass_defaults()
    from fairseq.criterions.label_smoothed_cross_entropy import label_smoothed_nll_loss
    from fairseq.models.transformer import TransformerModel, base_architecture

    arguments = SimpleNamespace(
        encoder_layers=shape.layers,
        decoder_layers=shape.layers,
        encoder_embed_dim=shape.dim,
        decoder_embed_dim=shape.dim,
        encoder_ffn_embed_dim=shape.feed_forward,
        decoder_ffn_embed_dim=shape.feed_forward,
        encoder_attention_heads=shape.heads,
        decoder_attention_heads=shape.heads,
        dropout=shape.dropout,
        share_all_embeddings=True,
        max_source_positions=max(512, shape.length),
        max_target_positions=max(512, shape.length),
    )
    base_architecture(arguments)
    words = _Ids(shape.vocabulary)
    task = SimpleNamespace(source_dictionary=words, target_dictionary=words)
    model = TransformerModel.build_model(arguments, task).train()
    source, target = synthetic_ids(shape, 1), synthetic_ids(shape, 2)
    labels = synthetic_labels(shape, "all")
    lengths = torch.full((shape.windows,), shape.length)

    def loss() -> Tensor:
        output = model(source, lengths, target)
        scores = model.get_normalized_probs(output, log_probs=True).flatten(0, 1)
        value, _ = label_smoothed_nll_loss(
            scores, labels.reshape(-1, 1), SMOOTHING, ignore_index=PAD
        )
        result: Tensor = value / labels.numel()
        return result

    return list(model.parameters()), loss


def fairseq2(shape: Shape) -> Built:
    _leave_out(
        *("fairseq2n", "clusterscope", "wandb", "wandb.errors", "tensorboard", "transformers"),
        *("huggingface_hub", "huggingface_hub.constants", "huggingface_hub.errors"),
    )
    from fairseq2.models.nllb.config import NllbConfig
    from fairseq2.models.nllb.factory import NllbFactory
    from fairseq2.models.transformer import TransformerNormOrder
    from fairseq2.nn import BatchLayout

    config = NllbConfig(
        model_dim=shape.dim,
        max_seq_len=max(512, shape.length),
        vocab_size=shape.vocabulary,
        pad_idx=PAD,
        num_encoder_layers=shape.layers,
        num_decoder_layers=shape.layers,
        num_encoder_attn_heads=shape.heads,
        num_decoder_attn_heads=shape.heads,
        ffn_inner_dim=shape.feed_forward,
        dropout_p=shape.dropout,
    )
    model = NllbFactory(config).create_model().train()
    for layer in (*model.encoder.layers, *model.decoder.layers):
        layer.norm_order = TransformerNormOrder.POST
    # A post-norm stack ends in its last layer's own normalisation.
    model.encoder.layer_norm = model.decoder.layer_norm = None
    source, target = synthetic_ids(shape, 1), synthetic_ids(shape, 2)
    labels = synthetic_labels(shape, "all")
    layouts = [BatchLayout.of(ids) for ids in (source, target)]

    def loss() -> Tensor:
        value: Tensor = model(
            source, layouts[0], target, layouts[1], labels, label_smoothing=SMOOTHING
        )
        return value / labels.numel()

    return list(model.parameters()), loss


def eole(shape: Shape) -> Built:
    _leave_out("pyonmttok", "tokenizers", "huggingface_hub", "ctranslate2")
    from eole.config.models import TransformerModelConfig
    from eole.models.model import EncoderDecoderModel

    config = TransformerModelConfig(
        layers=shape.layers,
        hidden_size=shape.dim,
        heads=shape.heads,
        transformer_ff=shape.feed_forward,
        embeddings={"word_vec_size": shape.dim},
        share_embeddings=True,
        add_qkvbias=True,
        add_final_linear_bias=True,
        add_ffnbias=True,
    )
    words = _Ids(shape.vocabulary)
    settings = SimpleNamespace(
        dropout=[shape.dropout], attention_dropout=[0.0], self_attn_backend="pytorch"
    )
    model = EncoderDecoderModel.build_blocks(
        config, {"src": words, "tgt": words, "specials": {}}, settings
    ).train()
    table = model.tgt_emb.embeddings.weight
    generator = torch.nn.Linear(shape.dim, shape.vocabulary)
    generator.weight = table
    torch.nn.init.normal_(table, std=shape.dim**-0.5)
    for module in model.modules():
        if isinstance(module, torch.nn.Linear):
            # It leaves them as the memory was found.
            module.reset_parameters()
    criterion = torch.nn.CrossEntropyLoss(
        ignore_index=PAD, reduction="sum", label_smoothing=SMOOTHING
    )
    source, labels = synthetic_ids(shape, 1), synthetic_labels(shape, "all")
    # The model cuts the last target token off its input.
    target = torch.cat([synthetic_ids(shape, 2), labels[:, -1:]], dim=1)
    lengths = torch.full((shape.windows,), shape.length)

    def loss() -> Tensor:
        states = model(source, target, lengths).dec_out
        value: Tensor = criterion(generator(states.reshape(-1, shape.dim)), labels.reshape(-1))
        return value / labels.numel()

    return [*model.parameters(), generator.bias], loss


def _leave_out(*modules: str) -> None:
    """Put stand-ins in the place of libraries that a toolkit imports but a step does not use."""
    for name in modules:
        sys.modules[name] = MagicMock()


class _Ids:
    """A vocabulary of so many ids, as far as models ask for one."""

    pad_index, bos_index, eos_index, unk_index, sep_index = PAD, 2, 3, 0, None
    specials: tuple[str, ...] = ()
    lang_tags: tuple[str, ...] = ()

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Ids) and other.size == self.size

    def __hash__(self) -> int:
        return self.size

    def __getitem__(self, token: str) -> int:
        return PAD

    def pad(self) -> int:
        return PAD


def _allow_dataclass_defaults() -> None:
    """Let dataclasses be defaults of fields, as they could before Python 3.11."""
    import dataclasses

    internals: Any = dataclasses
    original = internals._get_field

    def get_field(cls: Any, name: str, *rest: Any) -> Any:
        default = getattr(cls, name, None)
        if isinstance(default, dataclasses.Field):
            default = default.default
        if dataclasses.is_dataclass(default) and type(default).__hash__ is None:
            # What cannot be hashed is taken for mutable.
            type(default).__hash__ = object.__hash__  # type: ignore[method-assign]
        return original(cls, name, *rest)

    internals._get_field = get_field


BUILDERS: dict[str, Callable[[Shape], Built]] = {
    "Sockeye": sockeye,
    "JoeyNMT": joeynmt,
    "OpenNMT-py": opennmt,
    "fairseq": fairseq,
    "fairseq2": fairseq2,
    "eole": eole,
}


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
