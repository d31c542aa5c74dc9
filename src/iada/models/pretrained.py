"""Models that start from a pre-trained checkpoint.

The checkpoint's own class, weights and dropout are used as they are, but no layer is ever dropped
as a whole. No code that comes with a checkpoint is ever run.
"""

import logging
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import GenerationConfig, MBartConfig, PretrainedConfig

from iada.config.base import require
from iada.config.model import ModelConfig
from iada.config.run import RunConfig
from iada.data.tokens.checkpoint_facts import read_model_config
from iada.data.tokens.pretrained_subwords import PretrainedSubwords
from iada.data.tokens.subwords import SubwordEncoding
from iada.data.windows.families import pretrained_frame
from iada.errors import ModelError
from iada.models.adapters import add_adapters
from iada.models.build import automatic_class, build_causal, build_model, register_models
from iada.models.gtrans import GTransMBartConfig

logger = logging.getLogger(__name__)


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
    if isinstance(subwords, PretrainedSubwords):
        name = str(config.model.pretrained)
        has_config = folder is not None and (folder / "config.json").is_file()
        settings = _configure(str(folder) if has_config else name, subwords, config.model)
        model = automatic_class(settings).from_config(settings)
        if config.train.lora.rank:
            add_adapters(model, config.train.lora, name)
        return model
    return _build(config, subwords)


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
