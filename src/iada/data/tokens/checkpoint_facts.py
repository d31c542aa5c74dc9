"""What the checkpoint of a pre-trained model says of itself: its kind, its tokenizer, its limits.

No code that comes with a checkpoint is ever run.
"""

from typing import Any

from iada.errors import ConfigError, IadaError, ModelError

CAUSAL = "causal"
"""Family of all decoder-only models."""


def load_tokenizer(name: str) -> Any:
    """Load the tokenizer of a folder or hub name; no code of a checkpoint is ever run."""
    # Imported here: it takes longer than most commands, and only pre-trained models need it.
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(name, trust_remote_code=False)
    except (OSError, ValueError, ImportError, TypeError) as error:
        raise _unreadable(f"the tokenizer of {name}", error) from None


def read_model_config(name: str) -> Any:
    """Read the configuration of a pre-trained encoder-decoder or decoder-only model."""
    config = _read_config(name)
    if not getattr(config, "is_encoder_decoder", False) and not _is_causal(config):
        hint = ""
        if _is_bert(config):
            hint = " A BERT can be the encoder of `model.architecture: flat` or `gtrans`."
        raise ModelError(
            f"{name} is a {config.model_type} model, neither an encoder-decoder, such as Marian, "
            "mBART, NLLB, T5 or BART, nor a decoder-only model, such as Llama, Qwen or Gemma. Use "
            f"one of these.{hint}"
        )
    return config


def _read_config(name: str) -> Any:
    from transformers import AutoConfig

    try:
        return AutoConfig.from_pretrained(name, trust_remote_code=False)
    except (OSError, ValueError, ImportError) as error:
        raise _unreadable(name, error) from None


def is_encoder(name: str) -> bool:
    """Whether a checkpoint is a BERT: an encoder to which a decoder has to be added."""
    return _is_bert(_read_config(name))


def read_encoder_config(name: str) -> Any:
    """Read the configuration of a BERT."""
    config = _read_config(name)
    if not _is_bert(config):
        raise ModelError(
            f"`model.pretrained`: {name} is a {config.model_type} model, not a BERT. Give a BERT."
        )
    return config


def _is_bert(config: Any) -> bool:
    return config.model_type == "bert" and not getattr(config, "is_decoder", False)


def _is_causal(config: Any) -> bool:
    """Whether a checkpoint was saved as a causal language model; BERT can be made one."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    causal = MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.get(config.model_type)
    return causal is not None and causal in (config.architectures or [causal])


def _unreadable(what: str, error: Exception) -> IadaError:
    reason = " ".join(str(error).split())
    advice = "Give a folder with a checkpoint, or a name that the hub knows and can be reached."
    libraries = ("protobuf", "sentencepiece", "tiktoken")
    if isinstance(error, ImportError) or any(name in reason.lower() for name in libraries):
        advice = "Install what it needs with `pip install 'iada[pretrained]'`."
    return ModelError(f"`model.pretrained`: {what} cannot be loaded. {advice} ({reason[:300]})")


def family_of(config: Any, tokenizer: Any) -> str:
    """Return the family of a model; `mbart` and `m2m_100` models come with two tokenizers each."""
    if not getattr(config, "is_encoder_decoder", False):
        return CAUSAL
    kind = config.model_type.removeprefix("iada_gtrans_")
    tokenizer_class = type(tokenizer).__name__
    if kind == "mbart" and tokenizer_class.startswith("MBart50"):
        return "mbart50"
    if kind in ("m2m_100", "nllb-moe") and tokenizer_class.startswith("Nllb"):
        return "nllb_legacy" if getattr(tokenizer, "legacy_behaviour", False) else "nllb"
    names = {"m2m_100": "m2m100", "mt5": "t5", "umt5": "t5", "longt5": "t5"}
    family = names.get(kind, kind)
    return family if family in ("marian", "mbart", "m2m100", "t5", "bart") else "other"


def checkpoint_rows(config: Any) -> int:
    """Return the number of rows of the embedding matrix."""
    return int(config.get_text_config(decoder=True).vocab_size)


def checkpoint_start(config: Any, tokenizer: Any, name: str) -> int:
    """Return the id that opens every decoder input."""
    candidates = (
        getattr(config, "decoder_start_token_id", None),
        tokenizer.bos_token_id,
        tokenizer.pad_token_id,
        tokenizer.eos_token_id,
    )
    for number in candidates:
        if number is not None:
            return int(number)
    raise ConfigError(f"{name} does not say what opens a translation (decoder_start_token_id).")


def checkpoint_prompt(config: Any, source_language: str, target_language: str) -> str:
    """Return the text that T5 was taught to read before a source of these languages."""
    tasks = getattr(config, "task_specific_params", None) or {}
    task = tasks.get(f"translation_{source_language}_to_{target_language}") or {}
    return str(task.get("prefix", ""))


def checkpoint_longest(config: Any) -> int | None:
    """Return the longest sequence that the model can read or write; None without a limit."""
    names = (
        "max_position_embeddings",
        "max_encoder_position_embeddings",
        "max_decoder_position_embeddings",
    )
    # Models of text and images keep the limit with the text.
    settings = (config, config.get_text_config(decoder=True))
    found = (getattr(one, name, None) for one in settings for name in names)
    limits = [limit for limit in found if limit is not None]
    return min(map(int, limits), default=None)
