"""What identifies the weights of a model, and of the model that an export was made from."""

import hashlib
import json
from pathlib import Path
from typing import Any

EXPORT_FILE = "iada_export.json"
"""In the folder of an export: which model it was made from."""


def model_fingerprint(model: Any) -> str:
    """Return a hash of the names and values of all weights."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().data)
    return digest.hexdigest()


def exported_fingerprint(folder: Path) -> str | None:
    """Return what identifies the model that an export was made from; None if there is none."""
    try:
        found = json.loads((folder / EXPORT_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return str(found.get("model")) if isinstance(found, dict) else None
