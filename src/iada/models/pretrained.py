"""Models that start from a pre-trained checkpoint, as a whole or with adapters inside.

The checkpoint's own class, weights and dropout are used as they are, but no layer is ever dropped
as a whole. No code that comes with a checkpoint is ever run.

Low-rank adapters (LoRA) come from the `peft` library. The model keeps its class: adapters stand
inside its linear layers, everything else is frozen. What is saved is the adapters alone;
`adapter_config.json` names the model that they belong to.
"""

import json
import logging
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor
from transformers import AutoConfig, GenerationConfig, MBartConfig, PretrainedConfig

from iada.config.base import require
from iada.config.model import ModelConfig
from iada.config.run import RunConfig
from iada.config.train import LoraConfig
from iada.data.tokens.checkpoint_facts import read_encoder_config, read_model_config
from iada.data.tokens.paired_subwords import PairedSubwords
from iada.data.tokens.pretrained_subwords import PretrainedSubwords
from iada.data.tokens.subwords import SubwordEncoding
from iada.data.windows.families import pretrained_frame
from iada.errors import ModelError
from iada.models.bert import BERT_MODELS, encoder_settings
from iada.models.build import (
    automatic_class,
    build_causal,
    build_model,
    model_sizes,
    register_models,
    scratch_generation,
    window_settings,
)
from iada.models.gtrans import GTransMBartConfig

logger = logging.getLogger(__name__)

ADAPTER_CONFIG = "adapter_config.json"
ADAPTER_WEIGHTS = "adapter_model.safetensors"


def load_pretrained(
    name: str,
    subwords: PretrainedSubwords,
    *,
    dtype: torch.dtype | None = torch.float32,
    architecture: ModelConfig | None = None,
) -> Any:
    """Load a pre-trained model to train or to translate with.

    Args:
        name: folder or hub name.
        subwords: its tokenizer, for the pair of languages.
        dtype: type of the weights; optimisation needs float32. None keeps that of the checkpoint.
        architecture: how the model of a run reads context; by default as the checkpoint does.
    """
    config = _configure(name, subwords, architecture)
    for rate in ("encoder_layerdrop", "decoder_layerdrop"):
        if getattr(config, rate, 0.0):
            # A skipped layer takes no part in an update, which distributed training does not allow;
            # and without the last of them the loss would not depend on the source.
            logger.info("%s: `%s` is %s; set to 0.", name, rate, getattr(config, rate))
            setattr(config, rate, 0.0)
    try:
        model = automatic_class(config).from_pretrained(
            name,
            config=config,
            dtype="auto" if dtype is None else dtype,
            trust_remote_code=False,
        )
    except (OSError, ValueError, SafetensorError) as error:
        reason = " ".join(str(error).split())[:300]
        raise ModelError(f"`model.pretrained`: {name} cannot be loaded. ({reason})") from None
    model.generation_config = _generation_config(subwords)
    return model


def start_model(
    config: RunConfig, subwords: SubwordEncoding, checkpoint: Path | None = None
) -> Any:
    """Return the model that a run begins with, built at random or pre-trained.

    Args:
        config: the run.
        subwords: its encoding.
        checkpoint: where to read the weights of a pre-trained model that a run continues with; the
            model that it once started from may be gone.
    """
    if isinstance(subwords, PairedSubwords):
        model = _build_on_bert(config, subwords, checkpoint)
        if checkpoint is None:
            model.load_encoder(str(config.model.pretrained))
        return model
    if not isinstance(subwords, PretrainedSubwords):
        return _build(config, subwords)
    # Not the name beside the tokenizer, which may come from a corpus prepared elsewhere.
    name = str(config.model.pretrained)
    if config.train.lora.rank:
        # A checkpoint has adapters alone; the Trainer loads them.
        model = load_pretrained(name, subwords)
        add_adapters(model, config.train.lora, name)
        return model
    place = name if checkpoint is None else str(checkpoint)
    return load_pretrained(place, subwords, architecture=config.model)


def build_shape(config: RunConfig, subwords: SubwordEncoding, folder: Path | None = None) -> Any:
    """Return a model of the right shape with no particular weights, to count parameters.

    Args:
        config: the run.
        subwords: its encoding.
        folder: where the trained model lies, if it is there already.
    """
    has_config = folder is not None and (folder / "config.json").is_file()
    if isinstance(subwords, PairedSubwords):
        return _build_on_bert(config, subwords, folder if has_config else None)
    if isinstance(subwords, PretrainedSubwords):
        name = str(config.model.pretrained)
        settings = _configure(str(folder) if has_config else name, subwords, config.model)
        model = automatic_class(settings).from_config(settings)
        if config.train.lora.rank:
            add_adapters(model, config.train.lora, name)
        return model
    return _build(config, subwords)


def _build_on_bert(config: RunConfig, subwords: PairedSubwords, made: Path | None) -> Any:
    """Build a model whose encoder is a BERT, all of it with random weights.

    Args:
        config: the run; sizes and dropout of its `model` are those of the decoder.
        subwords: its two vocabularies.
        made: where such a model was saved, if it was: then its configuration is used, and the BERT
            itself is not needed any more.
    """
    register_models()
    if made is None:
        bert = read_encoder_config(str(config.model.pretrained))
        settings = _configure_bert(config, subwords, bert)
    else:
        settings = AutoConfig.from_pretrained(made)
    model: Any = BERT_MODELS[config.model.architecture](settings)
    model.generation_config = scratch_generation(config.model, subwords.special)
    return model


def _configure_bert(config: RunConfig, subwords: PairedSubwords, bert: Any) -> Any:
    name, model, layers = str(config.model.pretrained), config.model, bert.num_hidden_layers
    wide, is_flat = model.wide_layers, model.architecture == "flat"
    most = layers if is_flat else min(layers, model.decoder_layers)
    rule = f"between 0 and the layers of {name} and of the decoder ({most})"
    require(wide is None or 0 <= wide <= most, "model.wide_layers", rule, wide)
    if is_flat and bert.type_vocab_size < 2:
        raise ModelError(
            f"{name} knows one segment alone, but FlatTrans tells context from the current "
            "sentence by two. Choose another BERT, or `model.architecture: gtrans`."
        )
    usual = layers - 1 if is_flat else min(2, most)
    settings = model_sizes(model, subwords.source_begins, subwords.special)
    settings |= window_settings(model, subwords.special, config.windows.context)
    settings |= {
        "encoder_layers": layers,
        "share_encoder_decoder_embeddings": False,
        "wide_layers": usual if wide is None else wide,
        # What ends the sentences of the source; the decoder input has `<s>` alone.
        "sep_token_id": subwords.source_end,
        "bert": encoder_settings(bert),
        "source_begins": subwords.source_begins,
    }
    kind: Any = BERT_MODELS[model.architecture].config_class
    return kind(**settings)


def _configure(
    name: str, subwords: PretrainedSubwords, architecture: ModelConfig | None
) -> PretrainedConfig:
    """Read the configuration of a checkpoint; G-Transformer's attentions are put into mBART."""
    register_models()
    config: PretrainedConfig = read_model_config(name)
    if architecture is None or architecture.architecture == "doc2doc":
        return config
    if isinstance(config, GTransMBartConfig):
        return config
    assert isinstance(config, MBartConfig), "windows of any other family were refused"
    layers = min(config.encoder_layers, config.decoder_layers)
    wide = architecture.wide_layers
    rule = f"between 0 and the layers of {name} ({layers})"
    require(wide is None or wide <= layers, "model.wide_layers", rule, wide)
    frame = pretrained_frame(subwords)
    settings = {key: value for key, value in config.to_dict().items() if key != "model_type"}
    return GTransMBartConfig(
        **settings,
        wide_layers=min(2, layers) if wide is None else wide,
        source_boundary_id=frame.source_end[-1],
        target_boundary_id=frame.target_begin[0],
        unknown_id=subwords.special.unk,
    )


def _build(config: RunConfig, subwords: SubwordEncoding) -> Any:
    if config.model.architecture == "causal":
        return build_causal(config.model, vocabulary_size=len(subwords), special=subwords.special)
    return build_model(
        config.model,
        vocabulary_size=len(subwords),
        special=subwords.special,
        context=config.windows.context,
    )


def _generation_config(subwords: PretrainedSubwords) -> GenerationConfig:
    """Return settings for `generate` without the habits of the checkpoint's original task.

    Checkpoints ask for their own beams, penalties and forbidden words; the search settings of a run
    say all of that. What opens a translation into the target language stays.
    """
    special = subwords.special
    if subwords.is_causal:
        return GenerationConfig(  # type: ignore[no-untyped-call]
            pad_token_id=special.pad, bos_token_id=special.bos, eos_token_id=special.eos
        )
    begin = pretrained_frame(subwords).target_begin
    return GenerationConfig(  # type: ignore[no-untyped-call]
        pad_token_id=special.pad,
        bos_token_id=special.bos,
        eos_token_id=special.eos,
        decoder_start_token_id=begin[0],
        forced_bos_token_id=begin[1] if len(begin) == 2 else None,
    )


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
