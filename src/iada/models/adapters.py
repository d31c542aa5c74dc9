"""Low-rank adapters (LoRA) on pre-trained models, through the `peft` library.

The model keeps its class: adapters stand inside its linear layers, everything else is frozen. What
is saved is the adapters alone; `adapter_config.json` names the model that they belong to.
"""

import json
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from torch import Tensor
from transformers import AutoConfig

from iada.config.train import LoraConfig
from iada.errors import ModelError
from iada.models.build import automatic_class

ADAPTER_CONFIG = "adapter_config.json"
ADAPTER_WEIGHTS = "adapter_model.safetensors"


def add_adapters(model: Any, config: LoraConfig, base: str) -> None:
    """Put fresh adapters into a model and freeze everything else.

    The second factor of an adapter begins at zero, so that the model computes at first exactly what
    it did without.

    Args:
        model: a pre-trained model.
        config: rank and layers.
        base: folder or hub name of the model, to be found again when adapters are loaded.
    """
    peft = _import_peft()
    settings = peft.LoraConfig(
        r=config.rank,
        lora_alpha=config.alpha,
        lora_dropout=config.dropout,
        target_modules=list(config.targets) or "all-linear",
        task_type="SEQ_2_SEQ_LM" if model.config.is_encoder_decoder else "CAUSAL_LM",
    )
    try:
        model.add_adapter(settings)
    except ValueError as error:
        raise ModelError(
            f"`train.lora.targets` names {', '.join(config.targets)}, but {base} has no such "
            f"linear layers. ({' '.join(str(error).split())[:200]})"
        ) from None
    # Adapters may be loaded from another folder than the one they were trained in.
    place = Path(base)
    (saved,) = model.peft_config.values()
    saved.base_model_name_or_path = str(place.resolve()) if place.is_dir() else base


def has_adapters(model: Any) -> bool:
    """Whether a model has adapters inside."""
    return bool(getattr(model, "_hf_peft_config_loaded", False))


def load_adapter_weights(model: Any, folder: Path) -> None:
    """Set the adapters of a model to those that were saved in a folder."""
    set_adapter_weights(model, load_file(folder / ADAPTER_WEIGHTS))


def set_adapter_weights(model: Any, weights: dict[str, Tensor]) -> None:
    """Set the adapters of a model to weights by the names under which they are saved."""
    found = _import_peft().set_peft_model_state_dict(model, weights)
    if found.unexpected_keys:
        raise ModelError(
            f"Adapters of another model: {', '.join(sorted(found.unexpected_keys)[:3])}."
        )


def load_merged(folder: Path) -> Any:
    """Load a model with the adapters of a folder merged into its weights."""
    peft = _import_peft()
    settings = json.loads((folder / ADAPTER_CONFIG).read_text(encoding="utf-8"))
    name = settings["base_model_name_or_path"]
    try:
        kind = automatic_class(AutoConfig.from_pretrained(name, trust_remote_code=False))
        base = kind.from_pretrained(name, dtype="float32", trust_remote_code=False)
    except (OSError, ValueError) as error:
        reason = " ".join(str(error).split())[:200]
        raise ModelError(
            f"{folder} holds adapters of {name}, which cannot be loaded. Put the model back, or "
            f"change `base_model_name_or_path` in {folder / ADAPTER_CONFIG}. ({reason})"
        ) from None
    return peft.PeftModel.from_pretrained(base, str(folder)).merge_and_unload()


def _import_peft() -> Any:
    try:
        import peft
    except ImportError:
        raise ModelError(
            "`train.lora` needs the `peft` library. Install it with "
            "`pip install 'iada[pretrained]'`."
        ) from None
    return peft
