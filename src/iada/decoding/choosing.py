"""Which engine translates: the one that was asked for, or the fastest that applies."""

from pathlib import Path
from typing import Any

from iada.config.data import WindowConfig
from iada.config.decode import DecodeConfig
from iada.data.subwords import Subwords
from iada.decoding.fingerprints import exported_fingerprint, model_fingerprint
from iada.decoding.huggingface import HuggingFaceEngine
from iada.decoding.prefill import PrefillEngine
from iada.decoding.quantization import is_available
from iada.decoding.requests import Engine
from iada.errors import ModelError


def choose_engine(
    model: Any,
    subwords: Subwords,
    *,
    windows: WindowConfig,
    decode: DecodeConfig,
    exported: Path | None,
) -> Engine:
    """Return an engine for a model.

    `auto` takes CTranslate2 where a fresh export is there, no target prefix is read and sentences
    may share a call; our own search for stock models otherwise, and Hugging Face for everything
    else.

    Args:
        model: a Hugging Face encoder-decoder.
        subwords: its tokenizer.
        windows: how the model sees context.
        decode: engine, precision and search.
        exported: folder where an export of the model may be.
    """
    name = decode.engine
    if name == "auto":
        name = "huggingface"
        if PrefillEngine.supports(model):
            has_prefix = (
                windows.context > 0
                and decode.target_context != "none"
                and decode.unit == "sentence"
            )
            may_be_fastest = not has_prefix and not decode.one_by_one
            is_fastest = may_be_fastest and _is_fresh(exported, model)
            name = "ctranslate2" if is_fastest else "prefill"
    if name == "ctranslate2":
        return _ctranslate2(model, subwords, decode, exported)
    if name == "prefill":
        _check_prefill(model, decode)
        return PrefillEngine(model, subwords.special, decode)
    if decode.precision == "int8":
        raise ModelError(
            f"A {type(model).__name__} cannot be translated in int8: only stock models can "
            "(MarianMTModel). Set `decode.precision: float32`."
        )
    return HuggingFaceEngine(model, subwords.special, decode)


def _check_prefill(model: Any, decode: DecodeConfig) -> None:
    if not PrefillEngine.supports(model):
        raise ModelError(
            f"The engine `prefill` takes a stock MarianMTModel, but this is a "
            f"{type(model).__name__}. Choose `huggingface`."
        )
    if decode.precision == "int8" and (model.device.type != "cpu" or not is_available()):
        raise ModelError(
            "int8 needs a CPU and a PyTorch that was built with oneDNN. Set "
            "`decode.precision: float32`."
        )


def _ctranslate2(
    model: Any, subwords: Subwords, decode: DecodeConfig, exported: Path | None
) -> Engine:
    # Imported where it is used, so that other engines do without the library.
    from iada.decoding.ctranslate2 import CTranslate2Engine

    if exported is None or exported_fingerprint(exported) is None:
        raise ModelError(
            f"There is no exported model in {exported}. Make one with `iada export RUN "
            f"--quantization {decode.precision}`, or choose another engine."
        )
    if not _is_fresh(exported, model):
        raise ModelError(
            f"{exported} was made from another model. Make it again with `iada export RUN "
            f"--quantization {decode.precision}`."
        )
    return CTranslate2Engine(exported, subwords, decode)


def _is_fresh(exported: Path | None, model: Any) -> bool:
    """Whether a folder holds an export of this very model."""
    if exported is None or (found := exported_fingerprint(exported)) is None:
        return False
    return found == model_fingerprint(model)
