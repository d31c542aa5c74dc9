"""What the manifest says beside the settings: counts, subsets, noise, hashes of the files."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from iada.config.data import Split, WindowConfig
from iada.data.noise import NoiseDescription, context_noise, describe_noise
from iada.data.prepared import MANIFEST, describe_files
from iada.data.store import TokenStore, id_type
from iada.data.subsets import describe_subsets
from iada.data.subwords import Subwords


def describe_work(
    folder: Path, splits: Iterable[Split], *, subset_seed: int, windows: WindowConfig
) -> dict[str, Any]:
    """Describe a folder in which every stage is complete.

    Args:
        folder: the work folder.
        splits: the splits in it.
        subset_seed: seed of the low-resource subsets to describe.
        windows: the noise to describe, if there is any.
    """
    subwords = Subwords.load(folder / "tokenizer")
    dtype = id_type(len(subwords))
    train = TokenStore.open(folder / "train", subwords.special, dtype=dtype)
    sizes = np.diff(train.document_starts)
    checks = _read(folder / "checks" / "checks.json")
    return {
        "vocabulary": len(subwords),
        "splits": {s: _read(folder / s / "counts.json") | {"dtype": dtype} for s in splits},
        "checks": {"errors": checks["errors"], "warnings": checks["warnings"]},
        "subsets": {"seed": subset_seed, "shares": describe_subsets(sizes, subset_seed)},
        "noise": _noise(train, windows),
        "files": describe_files(folder, without=(MANIFEST,)),
    }


def _noise(train: TokenStore, windows: WindowConfig) -> NoiseDescription | None:
    """Describe the noisy context that the recipe asks for."""
    noise = context_noise(windows)
    return None if noise is None else describe_noise(train, noise, context=windows.context)


def _read(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content
