"""Starting from the weights of another model: what is loaded, what is new, and at which rate."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from iada.config.model import ModelConfig
from iada.data.tokens.subwords import SpecialIds
from iada.errors import ModelError
from iada.models.build import build_model
from iada.models.start import load_weights, slow_down

Save = Callable[..., Path]


@pytest.fixture
def save(special: SpecialIds, tmp_path: Path) -> Save:
    def write(vocabulary: int = 40, dim: int = 16) -> Path:
        torch.manual_seed(5)
        config = ModelConfig(
            dim=dim, feed_forward=32, heads=2, encoder_layers=2, decoder_layers=2, max_positions=96
        )
        model = build_model(config, vocabulary_size=vocabulary, special=special)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.save_pretrained(tmp_path / "start")
        return tmp_path / "start"

    return write


def test_a_stock_model_loads_into_every_architecture(
    save: Save, lab: Any, system: Any, special: SpecialIds
) -> None:
    model = system.build(special)
    report = load_weights(model, save())
    assert report.unused == ()
    kinds = ("far", "gate", "context", "flat", "segments", "global", "relative", "bias")
    assert report.new, "an architecture has something new"
    assert all(any(kind in name for kind in kinds) for name in report.new)
    names = [name for name, one in model.named_parameters() if one.requires_grad]
    assert sorted(report.loaded + report.new) == sorted(names)
    assert model.get_decoder().embed_tokens.weight is not None


def test_loaded_values_are_those_that_were_saved(save: Save, lab: Any, special: SpecialIds) -> None:
    model = lab.system("gtrans", {"wide_layers": 1}).build(special).float()
    far = model.model.encoder.layers[1].self_attn.far.q_proj.weight.clone()
    folder = save()
    report = load_weights(model, folder)
    torch.manual_seed(5)
    stock = build_model(lab.system("doc2doc").config, vocabulary_size=40, special=special)
    found, expected = model.state_dict(), stock.state_dict()
    assert all(torch.equal(found[name], value) for name, value in expected.items())
    assert torch.equal(model.model.encoder.layers[1].self_attn.far.q_proj.weight, far)
    assert report.describe(Path("runs/sentence")) == (
        f"runs/sentence: {len(report.loaded)} weights loaded, {len(report.new)} new "
        "(decoder.layers.encoder_attn.far.k_proj, decoder.layers.encoder_attn.far.out_proj, "
        "decoder.layers.encoder_attn.far.q_proj, decoder.layers.encoder_attn.far.v_proj, "
        "decoder.layers.encoder_attn.gate, decoder.layers.self_attn.far.k_proj, "
        "decoder.layers.self_attn.far.out_proj, decoder.layers.self_attn.far.q_proj, "
        "decoder.layers.self_attn.far.v_proj, decoder.layers.self_attn.gate, "
        "encoder.layers.self_attn.far.k_proj, encoder.layers.self_attn.far.out_proj, "
        "encoder.layers.self_attn.far.q_proj, encoder.layers.self_attn.far.v_proj, "
        "encoder.layers.self_attn.gate)."
    )


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"vocabulary": 41}, "has a vocabulary of 41 pieces, this run one of 40"),
        ({"dim": 8}, r"has model.shared.weight of shape \(40, 8\), this run \(40, 16\)"),
    ],
)
def test_weights_of_other_sizes_are_refused(
    save: Save, lab: Any, special: SpecialIds, sizes: dict[str, int], message: str
) -> None:
    model = lab.system("han").build(special)
    with pytest.raises(ModelError, match=message):
        load_weights(model, save(**sizes))


def test_a_folder_without_a_model_is_refused(lab: Any, special: SpecialIds, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"model\.safetensors cannot be read"):
        load_weights(lab.system("han").build(special), tmp_path)


def test_loaded_weights_learn_at_their_share_of_the_rate(
    save: Save, lab: Any, special: SpecialIds
) -> None:
    model = lab.system("han").build(special)
    report = load_weights(model, save())
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=1.0)
    slow_down(optimizer, model, report.loaded, 0.25)
    before = {name: one.detach().clone() for name, one in model.named_parameters()}
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            moved = float((before[name] - parameter.detach()).mean())
            assert moved == pytest.approx(0.25 if name in report.loaded else 1.0)
