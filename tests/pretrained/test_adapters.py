"""Low-rank adapters: they begin as nothing, learn beside a frozen model, and are saved alone."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from iada.cli.main import main
from iada.config.base import to_mapping, write_yaml
from iada.config.data import DataConfig, WindowConfig
from iada.config.decode import DecodeConfig
from iada.config.method import AugmentConfig, Method, augmentation
from iada.config.model import ModelConfig
from iada.config.run import RunConfig
from iada.config.train import LoraConfig, TrainConfig
from iada.data.formats.readers import read_split
from iada.data.windows.batch import Batch, Collator
from iada.decoding.translator import DocumentTranslator
from iada.errors import ConfigError, ModelError
from iada.method.importance import importance
from iada.method.objective import AugmentedObjective
from iada.method.perturbation import Keep
from iada.models.pretrained import load_pretrained, start_model
from iada.runs.corpus import Corpus, load_corpus
from iada.training.train import train

Checkpoint = Callable[[str], Path]
some_families = pytest.mark.parametrize("family", ["marian", "nllb", "t5", "llama", "gemma"])


def _config(
    output: Path, corpus: Path, checkpoint: Path, lora: LoraConfig, method: Method = "doc2doc"
) -> RunConfig:
    return RunConfig(
        output=output,
        method=method,
        augment=augmentation(method),
        data=DataConfig(folder=corpus),
        windows=WindowConfig(max_length=250, context=2),
        model=ModelConfig(pretrained=str(checkpoint)),
        train=TrainConfig(
            max_tokens=1024,
            accumulation=1,
            warmup_updates=2,
            learning_rate=0.01,
            max_updates=12,
            validate_every=6,
            keep_checkpoints=5,
            lora=lora,
        ),
        decode=DecodeConfig(beam=1, max_length_ratio=0.5, max_length_offset=2),
    )


def _batch(corpus: Corpus) -> Batch:
    collate = Collator(corpus.subwords.special.pad)
    return collate(corpus.dev.__getitems__([(0, number) for number in range(8)]))


@some_families
def test_a_model_with_fresh_adapters_is_the_model_without(
    family: str, checkpoint: Checkpoint, mini_corpus: Path, tmp_path: Path
) -> None:
    config = _config(tmp_path, mini_corpus, checkpoint(family), LoraConfig(rank=4))
    corpus = load_corpus(config)
    batch = _batch(corpus)
    base = load_pretrained(str(checkpoint(family)), corpus.subwords).eval()
    adapted = start_model(config, corpus.subwords).eval()
    keys = ["input_ids", "attention_mask", "decoder_input_ids"]
    inputs = {key: batch[key] for key in keys[: 3 if base.config.is_encoder_decoder else 2]}
    with torch.no_grad():
        assert torch.equal(adapted(**inputs).logits, base(**inputs).logits)
        losses = [
            AugmentedObjective(model, AugmentConfig(), replacement=Keep())(batch).total
            for model in (adapted, base)
        ]
    assert torch.equal(*losses)
    # GNorm is the gradient at the lookups, which are frozen.
    assert not adapted.get_input_embeddings().weight.requires_grad
    for found, expected in zip(
        importance(adapted, batch, "gnorm"), importance(base, batch, "gnorm"), strict=True
    ):
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-5)
        assert bool((expected > 0).any())


@some_families
def test_adapters_learn_are_saved_alone_and_resume(
    family: str, checkpoint: Checkpoint, mini_corpus: Path, tmp_path: Path
) -> None:
    config = _config(
        tmp_path / "run",
        mini_corpus,
        checkpoint(family),
        LoraConfig(rank=4),
        method="iada_replace_gnorm",
    )
    folder = train(config).path
    files = {path.name for path in (folder / "model").iterdir()}
    assert {"adapter_model.safetensors", "adapter_config.json", "config.json"} <= files
    assert "model.safetensors" not in files
    learned = load_file(folder / "model" / "adapter_model.safetensors")
    assert all("lora_" in name for name in learned)
    assert any(bool(tensor.any()) for name, tensor in learned.items() if "lora_B" in name)

    killed = tmp_path / "killed"
    shutil.copytree(folder, killed)
    shutil.rmtree(killed / "model")
    shutil.rmtree(killed / "checkpoints" / "checkpoint-12")
    recipe = tmp_path / "recipe.yaml"
    write_yaml(recipe, to_mapping(replace(config, output=killed)))
    assert main(["train", str(recipe), "--resume"]) in (0, None)
    again = load_file(killed / "model" / "adapter_model.safetensors")
    assert all(torch.equal(tensor, again[name]) for name, tensor in learned.items())


def test_merged_and_separate_adapters_translate_alike(
    checkpoint: Checkpoint, mini_corpus: Path, tmp_path: Path
) -> None:
    lora = LoraConfig(rank=4)
    config = _config(tmp_path / "alone", mini_corpus, checkpoint("marian"), lora)
    merged = replace(
        config,
        output=tmp_path / "merged",
        train=replace(config.train, lora=replace(lora, merge=True)),
    )
    alone, whole = train(config).path, train(merged).path
    assert not (whole / "model" / "adapter_config.json").exists()
    documents = [d.source for d in read_split(config.data, "test")]
    one, other = (DocumentTranslator.load(path) for path in (alone, whole))
    assert type(one.model) is type(other.model)
    for name, tensor in one.model.state_dict().items():
        assert torch.equal(tensor, other.model.state_dict()[name])
    base = load_file(checkpoint("marian") / "model.safetensors")
    assert any(not torch.equal(one.model.state_dict()[name], base[name]) for name in base)
    assert one.translate(documents) == other.translate(documents)


def test_adapters_without_their_model_say_which_one_is_missing(
    checkpoint: Checkpoint, mini_corpus: Path, tmp_path: Path
) -> None:
    base = tmp_path / "base"
    shutil.copytree(checkpoint("marian"), base)
    config = _config(tmp_path / "run", mini_corpus, base, LoraConfig(rank=2))
    run = train(replace(config, train=replace(config.train, max_updates=6))).path
    shutil.rmtree(base)
    with pytest.raises(ModelError, match=r"holds adapters of .*base, which cannot be loaded"):
        DocumentTranslator.load(run)


def test_unknown_layers_are_refused(
    checkpoint: Checkpoint, mini_corpus: Path, tmp_path: Path
) -> None:
    lora = LoraConfig(rank=2, targets=("no_such_layer",))
    config = _config(tmp_path, mini_corpus, checkpoint("marian"), lora)
    with pytest.raises(ModelError, match=r"`train\.lora\.targets` names no_such_layer"):
        start_model(config, load_corpus(config).subwords)


def test_adapters_need_a_pretrained_model() -> None:
    with pytest.raises(ConfigError, match=r"`train\.lora\.rank` must be 0 without"):
        RunConfig(train=TrainConfig(lora=LoraConfig(rank=4)))


def test_adapters_learn_with_recomputed_activations_and_in_bfloat16(
    checkpoint: Checkpoint, mini_corpus: Path, tmp_path: Path
) -> None:
    config = _config(
        tmp_path / "run",
        mini_corpus,
        checkpoint("bart"),
        LoraConfig(rank=2, targets=("q_proj", "v_proj")),
        method="iada_drop_gnorm",
    )
    changed = replace(
        config.train, gradient_checkpointing=True, precision="bf16", max_updates=2, validate_every=2
    )
    run = train(replace(config, train=changed)).path
    learned = load_file(run / "model" / "adapter_model.safetensors")
    assert {name.split(".")[-3] for name in learned} == {"q_proj", "v_proj"}
    assert any(bool(tensor.any()) for name, tensor in learned.items() if "lora_B" in name)


@pytest.mark.parametrize("merge", [False, True])
def test_a_run_killed_before_its_adapters_were_saved_leaves_the_same(
    merge: bool, checkpoint: Checkpoint, mini_corpus: Path, tmp_path: Path
) -> None:
    lora = LoraConfig(rank=2, merge=merge)
    config = _config(tmp_path / "run", mini_corpus, checkpoint("marian"), lora)
    config = replace(config, train=replace(config.train, max_updates=4, validate_every=2))
    model = train(config).model
    before = {path.name: path.read_bytes() for path in model.iterdir()}
    changed = model.stat().st_mtime_ns
    train(config, resume=True)
    assert model.stat().st_mtime_ns == changed
    shutil.rmtree(model)
    train(config, resume=True)
    assert {path.name: path.read_bytes() for path in model.iterdir()} == before
    assert ("adapter_config.json" in before) == (not merge)


def test_adapters_are_averaged_and_their_scores_stay_when_they_are_scored_again(
    checkpoint: Checkpoint, mini_corpus: Path, tmp_path: Path
) -> None:
    config = _config(tmp_path / "run", mini_corpus, checkpoint("nllb"), LoraConfig(rank=2))
    keys = {"max_updates": 4, "validate_every": 2, "average": 2, "average_keep": "always"}
    run = train(replace(config, train=replace(config.train, **keys, metric="s_bleu"))).path
    saved = [
        load_file(run / "checkpoints" / f"checkpoint-{update}" / "adapter_model.safetensors")
        for update in (2, 4)
    ]
    for name, tensor in load_file(run / "model" / "adapter_model.safetensors").items():
        torch.testing.assert_close(tensor, (saved[0][name] + saved[1][name]) / 2)
    for _ in range(2):
        assert main(["evaluate", str(run)]) in (0, None)
    card = (run / "model" / "README.md").read_text(encoding="utf-8")
    assert "s-BLEU" in card
    assert "`peft` loads them" in card


def test_the_code_of_the_card_loads_adapters_with_their_model(
    checkpoint: Checkpoint, mini_corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = _config(tmp_path / "run", mini_corpus, checkpoint("nllb"), LoraConfig(rank=2))
    run = train(replace(config, train=replace(config.train, max_updates=2, validate_every=2)))
    card = (run.model / "README.md").read_text(encoding="utf-8")
    code = card.partition("```python\n")[2].partition("```")[0]
    exec(code.replace("path or hub name of this folder", str(run.model)), {})
    assert capsys.readouterr().out.startswith("[")
