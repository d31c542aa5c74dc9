"""From run folders to models: one, or several that may search as one."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import AutoConfig

from iada.config.decode import DecodeConfig
from iada.config.run import RunConfig
from iada.data.tokens.pretrained_subwords import load_subwords
from iada.data.tokens.subwords import SubwordEncoding
from iada.errors import ModelError
from iada.models.build import automatic_class, register_models
from iada.models.pretrained import ADAPTER_CONFIG, load_merged
from iada.runs.corpus import run_frame
from iada.runs.folder import RunFolder


def load_model(folder: Path) -> Any:
    """Load the model of a folder, onto a GPU if there is one."""
    register_models()
    if (folder / ADAPTER_CONFIG).is_file():
        return load_merged(folder).to(device())
    try:
        # Neither code nor pickles of a folder are ever run.
        safely = {"local_files_only": True, "trust_remote_code": False}
        kind = automatic_class(AutoConfig.from_pretrained(folder, **safely))
        model = kind.from_pretrained(folder, use_safetensors=True, **safely)
    except (OSError, ValueError, SafetensorError) as error:
        reason = " ".join(str(error).split())[:300]
        raise ModelError(f"{folder} cannot be read: {reason}") from None
    return model.to(device())


def device() -> str:
    """Return where models are loaded."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def default_export(folder: RunFolder, precision: str) -> Path:
    """Return the folder of a run's exported model."""
    return folder.path / "exported" / precision


def load_ensemble(
    folder: RunFolder, subwords: SubwordEncoding, others: Sequence[Path], decode: DecodeConfig
) -> list[Any]:
    """Load the models of further runs, which must read and write what the first does.

    Args:
        folder: the first run.
        subwords: its encoding.
        others: run folders of the others.
        decode: how they will search.

    Raises:
        ModelError: a run has another vocabulary, other languages or other windows.
    """
    folders = [RunFolder(path) for path in others]
    for other in folders:
        _check_member(folder, subwords, other, decode)
    return [load_model(other.best_model()) for other in folders]


def _check_member(
    folder: RunFolder, subwords: SubwordEncoding, other: RunFolder, decode: DecodeConfig
) -> None:
    config, found = folder.config(), other.config()
    own = load_subwords(other.encoding())
    if not _same_vocabulary(subwords, own):
        raise ModelError(
            f"{other.path} has another vocabulary than {folder.path} ({len(own):,} and "
            f"{len(subwords):,} pieces), so their probabilities are of different tokens. Train "
            "the runs of an ensemble on one corpus with the same `subwords`, or with one "
            "`data.prepared`."
        )
    pairs = _read_by_decoding(config, decode), _read_by_decoding(found, decode)
    for name, value in pairs[0].items():
        if pairs[1][name] != value:
            raise ModelError(
                f"{other.path} has `{name}: {pairs[1][name]}`, {folder.path} `{value}`. The runs "
                "of an ensemble must read the same windows."
            )
    if run_frame(config, subwords) != run_frame(found, own):
        raise ModelError(
            f"{other.path} frames sentences otherwise than {folder.path} "
            f"(`model.architecture: {found.model.architecture}` and "
            f"`{config.model.architecture}`). The runs of an ensemble must read the same windows."
        )


def _read_by_decoding(config: RunConfig, decode: DecodeConfig) -> dict[str, object]:
    """Return the keys beside the vocabulary that decide what a model reads."""
    data, windows = config.data, config.windows
    found: dict[str, object] = {
        "data.source_language": data.source_language,
        "data.target_language": data.target_language,
        "windows.context": windows.context,
        "windows.max_length": windows.max_length,
    }
    if decode.unit == "part":
        found |= {"windows.strategy": windows.strategy, "windows.stride": windows.stride}
    return found


def _same_vocabulary(one: SubwordEncoding, other: SubwordEncoding) -> bool:
    same = (len(one), one.special, one.moses) == (len(other), other.special, other.moses)
    ids = range(len(one))
    return same and one.pieces(ids) == other.pieces(ids)
