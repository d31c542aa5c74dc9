"""The fastest engine that applies, or the one that was asked for, or a clear refusal."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest

from iada.config.data import WindowConfig
from iada.config.decode import DecodeConfig, EngineName
from iada.data.tokens.subwords import Subwords
from iada.decoding import engines
from iada.decoding.engines import ENGINES, EngineEntry, choose_engine
from iada.decoding.engines.interface import EngineSetup, model_fingerprint
from iada.decoding.export import export_model
from iada.decoding.translator import DocumentTranslator
from iada.errors import ConfigError, ModelError


@pytest.fixture(scope="module")
def translator(trained_run: Path) -> DocumentTranslator:
    return DocumentTranslator.load(trained_run)


@pytest.fixture(scope="module")
def exported(translator: DocumentTranslator, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export_model(
        translator.model,
        translator.subwords,
        tmp_path_factory.mktemp("exported") / "float32",
        quantization="float32",
        fingerprint=model_fingerprint(translator.model),
    )


def chosen(
    translator: DocumentTranslator, exported: Path | None, decode: DecodeConfig, context: int = 3
) -> str:
    windows = WindowConfig(context=context)
    setup = EngineSetup(translator.model, translator.subwords, windows, decode, exported)
    return choose_engine(setup).name


def test_the_configuration_knows_every_engine_of_the_table() -> None:
    assert {*get_args(EngineName)} == {"auto", *ENGINES}


def test_an_engine_is_one_line_of_the_table(
    translator: DocumentTranslator, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Echo:
        name = "echo"

    entry = EngineEntry((type(translator.model),), lambda setup: Echo())
    monkeypatch.setattr(engines, "ENGINES", {"echo": entry, **ENGINES})
    assert chosen(translator, None, DecodeConfig()) == "echo"
    # Its own name is all that a configuration needs.
    assert chosen(translator, None, replace(DecodeConfig(), engine="echo")) == "echo"


@pytest.mark.parametrize(
    ("decode", "context", "has_export", "name"),
    [
        (DecodeConfig(), 3, True, "prefill"),
        (DecodeConfig(), 3, False, "prefill"),
        (DecodeConfig(), 0, True, "ctranslate2"),
        (DecodeConfig(), 0, False, "prefill"),
        (DecodeConfig(target_context="none"), 3, True, "ctranslate2"),
        (DecodeConfig(target_context="gold"), 3, True, "prefill"),
        (DecodeConfig(unit="window"), 3, True, "ctranslate2"),
        (DecodeConfig(precision="int8"), 3, True, "prefill"),
        (DecodeConfig(precision="int8"), 0, True, "prefill"),
        (DecodeConfig(precision="int8", exact_batches=False), 0, True, "ctranslate2"),
        (DecodeConfig(engine="huggingface"), 0, True, "huggingface"),
        (DecodeConfig(engine="prefill"), 0, True, "prefill"),
        (DecodeConfig(engine="ctranslate2"), 3, True, "ctranslate2"),
    ],
)
def test_the_fastest_that_applies(
    translator: DocumentTranslator,
    exported: Path,
    decode: DecodeConfig,
    context: int,
    has_export: bool,
    name: str,
) -> None:
    assert chosen(translator, exported if has_export else None, decode, context) == name


def test_a_missing_export_is_named(translator: DocumentTranslator, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"There is no exported model in .*iada export RUN"):
        chosen(translator, tmp_path / "none", DecodeConfig(engine="ctranslate2"))


def test_the_export_of_another_model_is_not_used(
    translator: DocumentTranslator, tmp_path: Path
) -> None:
    stale = export_model(
        translator.model,
        translator.subwords,
        tmp_path / "x",
        quantization="float32",
        fingerprint="another",
    )
    assert chosen(translator, stale, DecodeConfig(), context=0) == "prefill"
    with pytest.raises(ModelError, match="was made from another model"):
        chosen(translator, stale, DecodeConfig(engine="ctranslate2"), context=0)


@pytest.mark.parametrize("architecture", ["bart", "t5"])
def test_other_architectures_go_to_hugging_face(
    tiny_model: Callable[..., Any], subwords: Subwords, architecture: str
) -> None:
    model = tiny_model(architecture)

    def choose(decode: DecodeConfig) -> str:
        return choose_engine(EngineSetup(model, subwords, WindowConfig(), decode)).name

    assert choose(DecodeConfig()) == "huggingface"
    for name in ("prefill", "ctranslate2"):
        with pytest.raises(ModelError, match=f"`{name}` takes a stock MarianMTModel, but this is"):
            choose(DecodeConfig(engine=name))
    with pytest.raises(ModelError, match="cannot be translated in int8"):
        choose(DecodeConfig(precision="int8"))


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"n_best": 6}, r"`decode\.n_best` must be between 1 and `decode\.beam` \(5\)"),
        ({"n_best": 0}, r"`decode\.n_best`"),
        ({"open_documents": 0}, r"`decode\.open_documents` must be at least 1"),
        ({"precision": "int8", "engine": "huggingface"}, r"`decode\.engine` must be prefill"),
        ({"unit": "window", "target_context": "gold"}, r"`decode\.target_context` must be own"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(
    keys: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        DecodeConfig(**keys)
