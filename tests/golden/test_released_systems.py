"""Our architectures against what their released code computed with the same weights."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn
from transformers.models.marian.modeling_marian import MarianDecoderLayer, MarianEncoderLayer

from iada.models.document import WindowAttention
from iada.models.gtrans import GatedAttention, GTransConfig
from iada.models.han import HanConfig, HierarchicalContext
from iada.models.hybrid import HybridConfig, HybridModel
from iada.models.layout import OWN, Layout, Sentences

Golden = Mapping[str, Tensor]
SIZES = {
    "d_model": 32,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "activation_function": "relu",
    "dropout": 0.0,
    "attn_implementation": "sdpa",
}


def sentences(numbers: Tensor) -> Sentences:
    everything = torch.ones_like(numbers, dtype=torch.bool)
    return Sentences(numbers, numbers, numbers, present=everything, words=everything)


def weights(golden: Golden, module: str, names: Mapping[str, str]) -> dict[str, Tensor]:
    """Return the released weights of a module, each name with its parts replaced in order."""
    found = {}
    for key, value in golden.items():
        if key.startswith(f"weights/{module}/"):
            name = key.removeprefix(f"weights/{module}/")
            for old, new in names.items():
                name = name.replace(old, new)
            found[name] = value
    return found


GTRANS_NAMES = {"_local": "", "_attn_global": "_attn.far", "_attn_gate.0": "_attn.gate"}


def gtrans_layers(golden: Golden, prefix: str, gated: bool) -> tuple[nn.Module, nn.Module]:
    config = GTransConfig(**SIZES)

    def attention(place: str) -> WindowAttention:
        if gated:
            return GatedAttention(config, place, 0, 1)  # type: ignore[arg-type]
        return WindowAttention(config, place, OWN, 0)  # type: ignore[arg-type]

    encoder, decoder = MarianEncoderLayer(config), MarianDecoderLayer(config, layer_idx=0)
    encoder.self_attn = attention("encoder")
    decoder.self_attn, decoder.encoder_attn = attention("decoder"), attention("cross")
    encoder.load_state_dict(weights(golden, f"{prefix}encoder", GTRANS_NAMES))
    decoder.load_state_dict(weights(golden, f"{prefix}decoder", GTRANS_NAMES))
    return encoder.eval(), decoder.eval()


@torch.inference_mode()
def check_gtrans(golden: Golden, prefix: str, gated: bool) -> None:
    source, target = golden["source_sentence"], golden["target_sentence"]
    layout = Layout(
        sentences(source),
        torch.zeros(1, dtype=torch.long),
        sentences(target),
        queries=target.shape[1],
    )
    encoder, decoder = gtrans_layers(golden, prefix, gated)
    encoded = encoder(golden["source"], None, layout=layout)
    torch.testing.assert_close(encoded, golden[f"{prefix}encoder_output"], rtol=0, atol=1e-5)
    decoded = decoder(golden["target"], None, encoded, layout=layout)
    torch.testing.assert_close(decoded, golden[f"{prefix}decoder_output"], rtol=0, atol=1e-5)


def test_layers_of_gtransformer_with_both_attentions(golden: Callable[[str], Golden]) -> None:
    check_gtrans(golden("gtransformer_layers"), "", gated=True)


def test_layers_of_gtransformer_with_the_near_attention(golden: Callable[[str], Golden]) -> None:
    check_gtrans(golden("gtransformer_layers"), "local_", gated=False)


class ReleasedNorm(nn.Module):
    """The norm of HAN's release: it divides by the unbiased deviation plus epsilon."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.a_2 = nn.Parameter(torch.ones(width))
        self.b_2 = nn.Parameter(torch.zeros(width))

    def forward(self, values: Tensor) -> Tensor:
        centred = values - values.mean(dim=-1, keepdim=True)
        return self.a_2 * centred / (values.std(dim=-1, keepdim=True) + 1e-6) + self.b_2


HAN_NAMES = {
    "layer_norm_query_word": "word_query_norm",
    "layer_norm_query_sent": "sentence_query_norm",
    "layer_norm_word": "word_norm",
    "layer_norm_sent": "out_norm",
    "feed_forward.layer_norm": "feed_norm",
    "feed_forward.w_1": "fc1",
    "feed_forward.w_2": "fc2",
    "sent_attn": "sentence_attention",
    "word_attn": "word_attention",
    "linear_keys": "k_proj",
    "linear_values": "v_proj",
    "linear_query": "q_proj",
    "final_linear.": "out_proj.",
}


@torch.inference_mode()
def test_the_context_module_of_han(golden: Callable[[str], Golden]) -> None:
    found = golden("han_context")
    config = HanConfig(**(SIZES | {"encoder_ffn_dim": 128}), context=3, context_norm=True)
    module = HierarchicalContext(config, "encoder").eval()
    for name in ("word_query_norm", "sentence_query_norm", "word_norm", "out_norm", "feed_norm"):
        setattr(module, name, ReleasedNorm(32))
    loaded = weights(found, "han", HAN_NAMES)
    # A linear layer that the release makes and never uses; the gate alone has no part in its name.
    loaded = {name: value for name, value in loaded.items() if "final_linear_2" not in name}
    renamed = {name.replace("linear.", "gate."): value for name, value in loaded.items()}
    module.load_state_dict(renamed)
    numbers = found["sentence"]
    layout = Layout(sentences(numbers), torch.zeros(1, dtype=torch.long))
    states = found["states"]
    output = module(states, states, layout)
    # The release lets the first sentence, which has no context, read unrelated rows.
    later = numbers > numbers.min()
    torch.testing.assert_close(output[later], found["output"][later], rtol=0, atol=1e-5)
    torch.testing.assert_close(output[~later], states[~later], rtol=0, atol=0)


HYBRID_ENCODER = {
    "encoder.embeddings.embeddings": "model.encoder.embed_tokens",
    "encoder.segment_embed.embed": "model.encoder.embed_segments",
    "encoder.block_stack": "model.encoder.layers",
    "encoder.global_encoder_layer.slf_attn": "global_context.attention",
    "encoder.global_encoder_layer.layer_norm": "global_context.attention_norm",
    "encoder.global_encoder_layer.pos_ffn.layer_norm": "global_context.final_norm",
    "encoder.global_encoder_layer.pos_ffn.w_1": "global_context.fc1",
    "encoder.global_encoder_layer.pos_ffn.w_2": "global_context.fc2",
    "encoder.global_rel_seg_k.embeddings": "global_context.attention.relative_keys",
    "encoder.global_rel_seg_v.embeddings": "global_context.attention.relative_values",
    "encoder.glb_gate.w": "global_context.gate",
    "encoder.layer_norm": "global_context.out_norm",
    "pos_ffn.layer_norm": "final_layer_norm",
    "pos_ffn.w_1": "fc1",
    "pos_ffn.w_2": "fc2",
    "slf_attn": "self_attn",
    ".layer_norm": ".self_attn_layer_norm",
    "linear_keys": "k_proj",
    "linear_values": "v_proj",
    "linear_query": "q_proj",
    "final_linear": "out_proj",
}
HYBRID_DECODER = {
    "decoder.word_emb.emb_layers.0": "model.decoder.embed_tokens",
    "decoder.layers": "model.decoder.layers",
    "dec_attn.layer_norm": "self_attn_layer_norm",
    "dec_attn.o_net": "self_attn.out_proj",
    "dec_attn.r_net": "self_attn.relative_key",
    "ctx_attn.layer_norm": "encoder_attn_layer_norm",
    "ctx_attn.q_net": "encoder_attn.q_proj",
    "ctx_attn.o_net": "encoder_attn.out_proj",
    "pos_ff.layer_norm": "final_layer_norm",
    "pos_ff.CoreNet.0": "fc1",
    "pos_ff.CoreNet.3": "fc2",
    "generator.proj.linear": "lm_head",
}


def hybrid_weights(golden: Golden) -> dict[str, Tensor]:
    """Rename the released weights, take joint projections apart, and add the missing biases."""
    found: dict[str, Tensor] = {}
    for name, value in weights(golden, "d2d", {}).items():
        if name.startswith("encoder."):
            found |= weights({f"weights/one/{name}": value}, "one", HYBRID_ENCODER)
        elif "qkv_net" in name or "kv_net" in name:
            parts = ("q", "k", "v") if "qkv_net" in name else ("k", "v")
            attention = "self_attn" if "dec_attn" in name else "encoder_attn"
            layer = f"model.decoder.layers.{name.split('.')[2]}.{attention}"
            for part, piece in zip(parts, value.chunk(len(parts)), strict=True):
                found[f"{layer}.{part}_proj.weight"] = piece
        elif "_bias" in name:
            kind = "content_bias" if "r_w" in name else "position_bias"
            for layer_number in range(2):
                found[f"model.decoder.layers.{layer_number}.self_attn.{kind}"] = value
        else:
            found |= weights({f"weights/one/{name}": value}, "one", HYBRID_DECODER)
    return {name: value for name, value in found.items() if "pos_emb" not in name}


@torch.inference_mode()
def test_a_document_of_hybrid(golden: Callable[[str], Golden]) -> None:
    found = golden("hybrid_document")
    config = HybridConfig(
        **SIZES,
        vocab_size=60,
        decoder_vocab_size=60,
        encoder_layers=2,
        decoder_layers=2,
        scale_embedding=True,
        share_encoder_decoder_embeddings=False,
        tie_word_embeddings=False,
        pad_token_id=0,
        restarts_positions=True,
        pre_norm=True,
        residual_from_norm=True,
        max_position_embeddings=64,
    )
    model = HybridModel(config).eval()
    loaded = hybrid_weights(found)
    report = model.load_state_dict(loaded, strict=False)
    assert report.unexpected_keys == []
    absent = [name for name in report.missing_keys if not name.endswith("embed_positions.weight")]
    # The release has no biases in the decoder's projections.
    assert all((name.endswith("bias") and "decoder" in name) or "logits" in name for name in absent)
    for name in absent:
        model.state_dict()[name].zero_()
    numbers, positions = found["source_sentence"], found["source_position"]
    everything = torch.ones_like(numbers, dtype=torch.bool)
    numbers, positions = numbers - numbers.min(), positions - positions.min()
    source = Sentences(numbers, positions, positions, present=everything, words=everything)
    first, second = found["target_ids_1"], found["target_ids_2"]
    spoken = torch.cat([first, second], dim=1)
    target = torch.tensor([[0] * first.shape[1] + [1] * second.shape[1]])
    layout = Layout(
        source, torch.zeros(1, dtype=torch.long), sentences(target), queries=spoken.shape[1]
    )
    encoded = model.get_encoder()(found["source_ids"], layout=layout).last_hidden_state
    encoded = model.attend_source(encoded, layout)
    torch.testing.assert_close(encoded, found["encoder_output"], rtol=0, atol=1e-5)
    states = model.get_decoder()(spoken, encoded, layout)
    logits = model.lm_head(states)
    # The release never says padding.
    logits[..., 0] = -torch.inf
    scores = logits.log_softmax(dim=-1)
    expected = torch.cat([found["decoder_output_1"], found["decoder_output_2"]], dim=1)
    torch.testing.assert_close(scores, expected, rtol=0, atol=1e-5)
