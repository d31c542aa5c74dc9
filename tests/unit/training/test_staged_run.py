"""Runs that start from another run, and document-level architectures from training to scores."""

import logging
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from iada.config.data import WindowConfig
from iada.config.run import RunConfig
from iada.data.documents import Document
from iada.decoding.translator import DocumentTranslator
from iada.errors import ConfigError, RunError
from iada.runs.folder import RunFolder
from iada.training.train import train


@pytest.fixture
def config(trained_run: Path, tmp_path: Path) -> RunConfig:
    """The trained run once more, for two updates of another architecture that starts from it."""
    config = RunFolder(trained_run).config()
    return replace(
        config,
        output=tmp_path / "run",
        windows=WindowConfig(max_length=128, loss_on="all"),
        model=replace(config.model, architecture="han", context_sides="both"),
        train=replace(config.train, start=trained_run, max_updates=2, validate_every=1),
    )


def test_a_run_starts_from_the_weights_and_the_encoding_of_another(
    config: RunConfig, trained_run: Path, caplog: pytest.LogCaptureFixture
) -> None:
    # So slow that nothing loaded moves in two updates.
    slow = replace(config, train=replace(config.train, start_rate=1e-12))
    with caplog.at_level(logging.INFO):
        folder = train(slow)
    (line,) = [message for message in caplog.messages if "weights loaded" in message]
    assert "decoder_context.gate" in line
    assert "not used" not in line
    found = load_file(folder.model / "model.safetensors")
    start = load_file(trained_run / "model" / "model.safetensors")
    for name, value in start.items():
        torch.testing.assert_close(found[name], value, rtol=0, atol=1e-6)
    tokenizers = [path / "model" / "tokenizer.json" for path in (folder.path, trained_run)]
    assert tokenizers[0].read_bytes() == tokenizers[1].read_bytes()


def test_a_staged_run_resumes_with_its_rates(config: RunConfig) -> None:
    at_once = train(config)
    stopped = replace(config, output=config.output.with_name("stopped"))
    train(replace(stopped, train=replace(stopped.train, max_updates=1)))
    resumed = train(stopped, resume=True)
    one, two = (load_file(run.model / "model.safetensors") for run in (at_once, resumed))
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_frozen_context_stays_what_the_first_stage_was(
    config: RunConfig, trained_run: Path
) -> None:
    keys = {"architecture": "san", "context_sides": None, "frozen_context": True}
    folder = train(replace(config, model=replace(config.model, **keys)))  # type: ignore[arg-type]
    found = load_file(folder.model / "model.safetensors")
    start = load_file(trained_run / "model" / "model.safetensors")
    layers = [name for name in start if name.startswith("model.encoder.layers")]
    for name in layers:
        assert torch.equal(found[name.replace("model.encoder", "stage_one")], start[name])
    assert torch.equal(found["stage_one.embed_tokens.weight"], start["model.shared.weight"])
    assert any(not torch.equal(found[name], start[name]) for name in layers)


def test_frozen_context_needs_a_first_stage(config: RunConfig) -> None:
    model = replace(config.model, architecture="san", context_sides=None, frozen_context=True)
    with pytest.raises(ConfigError, match=r"`train\.start` must be a run folder with"):
        replace(config, model=model, train=replace(config.train, start=None))
    zero = replace(config.augment, replacement="drop", drop="zero", weight_perturbed=1.0)
    with pytest.raises(ConfigError, match=r"`augment\.drop` must be mask with"):
        replace(config, model=model, augment=zero)


def test_a_start_of_another_width_is_refused_before_anything_is_written(
    config: RunConfig,
) -> None:
    other = replace(config, model=replace(config.model, dim=64))
    with pytest.raises(RunError, match=r"has `model\.dim: 32`, this run 64, so its weights"):
        train(other)
    assert not config.output.exists()


def test_a_run_of_one_architecture_is_not_resumed_as_another(config: RunConfig) -> None:
    train(config)
    other = replace(config, model=replace(config.model, architecture="gtrans", context_sides=None))
    with pytest.raises(RunError, match=r"model\.architecture"):
        train(other, resume=True)


def test_a_document_level_run_translates_and_scores_documents(config: RunConfig) -> None:
    translator = DocumentTranslator.load(train(config).path)
    document = Document("doc", ("the cat sat .", "she saw it .", "", "it slept ."))
    (translated,) = translator.translate([document])
    assert len(translated) == 4
    assert translated.sentences[2] == ""
    assert translator.frame.ends == "each"
