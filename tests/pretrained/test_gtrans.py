"""G-Transformer inside mBART: the checkpoint's own attention near, a new one far, and a gate."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoConfig, MBartForConditionalGeneration

from iada.config.data import DataConfig, WindowConfig
from iada.config.decode import DecodeConfig
from iada.config.method import augmentation
from iada.config.model import ModelConfig
from iada.config.run import RunConfig
from iada.config.train import LoraConfig, TrainConfig
from iada.data.documents import Document
from iada.data.windows.batch import Batch, Collator
from iada.decoding.translator import DocumentTranslator
from iada.errors import ConfigError, ModelError
from iada.experiments.definitions import build_experiment
from iada.experiments.plan import Ranges
from iada.method.importance import importance
from iada.models.gtrans import GatedAttention, GTransMBartModel
from iada.models.pretrained import start_model
from iada.report.paper import MAIN
from iada.runs.corpus import Corpus, load_corpus
from iada.training.train import train

Checkpoint = Callable[[str], Path]
both_families = pytest.mark.parametrize("family", ["mbart", "mbart50"])


@pytest.fixture(scope="session")
def deep(checkpoint: Checkpoint, tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    """Return a function that makes an mBART of two layers."""
    made: dict[str, Path] = {}

    def make(family: str) -> Path:
        if family not in made:
            folder = tmp_path_factory.mktemp(family) / "checkpoint"
            shutil.copytree(checkpoint(family), folder)
            config = AutoConfig.from_pretrained(folder)
            config.encoder_layers = config.decoder_layers = 2
            torch.manual_seed(3)
            MBartForConditionalGeneration(config).save_pretrained(folder)
            made[family] = folder
        return made[family]

    return make


def _config(output: Path, corpus: Path, checkpoint: Path, **train_keys: Any) -> RunConfig:
    keys = {"max_updates": 6, "validate_every": 3, "keep_checkpoints": 5} | train_keys
    return RunConfig(
        output=output,
        method="iada_replace_gnorm",
        augment=augmentation("iada_replace_gnorm"),
        data=DataConfig(folder=corpus),
        windows=WindowConfig(max_length=200, context=2),
        model=ModelConfig(pretrained=str(checkpoint), architecture="gtrans", wide_layers=1),
        train=TrainConfig(
            max_tokens=1024, accumulation=1, warmup_updates=2, learning_rate=0.003, **keys
        ),
        decode=DecodeConfig(beam=2, max_length_ratio=0.5, max_length_offset=4),
    )


def _set_gates(model: GTransMBartModel, bias: float) -> None:
    """Let every gate choose the near attention (a large bias) or the far one (a small one)."""
    for module in model.modules():
        if isinstance(module, GatedAttention):
            module.gate.weight.data.zero_()
            module.gate.bias.data.fill_(bias)


def _batch(corpus: Corpus, *sentences: int) -> Batch:
    """Return windows of the first validation document by the number of their sentence."""
    collate = Collator(corpus.subwords.special.pad)
    return collate(corpus.dev.__getitems__([(0, number) for number in sentences]))


def _logits(model: Any, batch: Batch) -> torch.Tensor:
    names = ("input_ids", "attention_mask", "decoder_input_ids", "first_sentence")
    inputs: dict[str, Any] = {name: batch[name] for name in names if name in batch}
    if not hasattr(model, "window_inputs"):
        inputs.pop("first_sentence", None)
    with torch.no_grad():
        found: torch.Tensor = model(**inputs, use_cache=False).logits
    return found


@both_families
def test_a_sentence_alone_is_read_as_the_checkpoint_reads_it(
    family: str, deep: Checkpoint, mini_corpus: Path, tmp_path: Path
) -> None:
    config = _config(tmp_path, mini_corpus, deep(family))
    corpus = load_corpus(config)
    model = start_model(config, corpus.subwords).eval()
    stock = MBartForConditionalGeneration.from_pretrained(deep(family)).eval()
    weights = stock.state_dict()
    new = {name for name in model.state_dict() if name not in weights}
    assert all(".far." in name or ".gate." in name for name in new)
    # One gated layer per stack: its own attention, and self- and cross-attention of the decoder.
    assert sum(name.endswith("gate.weight") for name in new) == 3
    assert all(torch.equal(model.state_dict()[name], value) for name, value in weights.items())
    first = _batch(corpus, 0)
    assert not torch.allclose(_logits(model, first), _logits(stock, first), atol=1e-3)
    _set_gates(model, 1e4)
    torch.testing.assert_close(_logits(model, first), _logits(stock, first))


@both_families
def test_only_the_far_attention_sees_other_sentences(
    family: str, deep: Checkpoint, mini_corpus: Path, tmp_path: Path
) -> None:
    config = _config(tmp_path, mini_corpus, deep(family))
    corpus = load_corpus(config)
    model = start_model(config, corpus.subwords).eval()
    batch = _batch(corpus, 2)
    changed = batch.copy()
    for ids, roles in (("input_ids", "source_roles"), ("decoder_input_ids", "target_roles")):
        context = batch[roles] == 1
        assert bool(context.any())
        values = batch[ids].clone()
        values[context] = values[batch[roles] == 2][0]
        changed[ids] = values
    current = batch["labels"][0] >= 0
    assert not torch.allclose(
        _logits(model, batch)[0, current], _logits(model, changed)[0, current]
    )
    _set_gates(model, 1e4)
    torch.testing.assert_close(
        _logits(model, batch)[0, current], _logits(model, changed)[0, current]
    )
    # And padding changes nothing.
    _set_gates(model, 0.0)
    alone = _logits(model, _batch(corpus, 0))[0]
    together = _logits(model, _batch(corpus, 2, 0))[1]
    torch.testing.assert_close(together[: len(alone)], alone)


@both_families
def test_importance_reaches_context_through_the_far_attention(
    family: str, deep: Checkpoint, mini_corpus: Path, tmp_path: Path
) -> None:
    config = _config(tmp_path, mini_corpus, deep(family))
    corpus = load_corpus(config)
    model = start_model(config, corpus.subwords).eval()
    batch = _batch(corpus, 2)
    context = batch["source_roles"] == 1
    assert float(importance(model, batch, "gnorm")[0][context].min()) > 0
    _set_gates(model, 1e4)
    assert float(importance(model, batch, "gnorm")[0][context].max()) == 0


@both_families
def test_it_trains_resumes_and_translates_documents(
    family: str, deep: Checkpoint, mini_corpus: Path, tmp_path: Path
) -> None:
    config = _config(tmp_path / "run", mini_corpus, deep(family))
    run = train(config).path
    settings = json.loads((run / "model" / "config.json").read_text(encoding="utf-8"))
    assert settings["model_type"] == "iada_gtrans_mbart"
    killed = tmp_path / "killed"
    shutil.copytree(run, killed)
    shutil.rmtree(killed / "model")
    shutil.rmtree(killed / "checkpoints" / "checkpoint-6")
    train(replace(config, output=killed), resume=True)
    weights = [(path / "model" / "model.safetensors").read_bytes() for path in (run, killed)]
    assert weights[0] == weights[1]

    translator = DocumentTranslator.load(run)
    assert isinstance(translator.model, GTransMBartModel)
    documents = [
        Document("a", ("The lamp is new.", "It is bright.", "I like it.")),
        Document("b", ("A very old dog sleeps in the garden.", "It snores.")),
    ]
    together = translator.translate(documents)
    assert [len(document) for document in together] == [3, 2]
    assert together == [translator.translate([document])[0] for document in documents]
    # The cache gives what reading everything again gives.
    translator.model.generation_config.use_cache = False
    assert translator.translate(documents) == together


def test_other_checkpoints_and_impossible_settings_are_refused(
    checkpoint: Checkpoint, deep: Checkpoint, mini_corpus: Path, tmp_path: Path
) -> None:
    config = _config(tmp_path, mini_corpus, checkpoint("t5"))
    with pytest.raises(ModelError, match=r"put into a BERT or an mBART alone, but .* \(t5\)"):
        load_corpus(config)
    config = _config(tmp_path, mini_corpus, deep("mbart"))
    config = replace(config, model=replace(config.model, wide_layers=3))
    with pytest.raises(ConfigError, match=r"`model\.wide_layers` must be between 0 and"):
        start_model(config, load_corpus(config).subwords)
    with pytest.raises(ConfigError, match=r"`train\.lora\.rank` must be 0 with new attentions"):
        _config(tmp_path, mini_corpus, deep("mbart"), lora=LoraConfig(rank=2))


def test_the_main_table_has_its_row_where_there_is_a_checkpoint() -> None:
    without = build_experiment("main")
    assert [row.key for row in without.rows if "mbart" in row.key] == []
    left_out = "GTrans + mBART (reconstruction): give a checkpoint with `--mbart`"
    assert without.left_out[-1] == left_out
    given = build_experiment("main", Ranges(mbart="/models/mbart-large-cc25"))
    assert left_out not in given.left_out
    (row,) = (row for row in given.rows if row.key == "gtrans_mbart")
    settings = {"method": row.system.method, **dict(row.system.changes)}
    published = MAIN["ted"].row(settings)
    assert published is not None
    assert published.label == "GTrans + mBART"
    plain = {"method": "doc2doc", "model.architecture": "gtrans"}
    assert MAIN["ted"].row(plain) != published
