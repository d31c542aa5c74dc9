"""Our architectures against what their released code computed with the same weights."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn
from transformers.models.marian.modeling_marian import MarianDecoderLayer, MarianEncoderLayer

from iada.models.document import WindowAttention
from iada.models.gtrans import GatedAttention, GTransConfig
from iada.models.han import HanConfig, HierarchicalContext
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
