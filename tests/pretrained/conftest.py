"""Tiny checkpoints in the real format of each family, their vocabularies learned from the corpus.

Tokenizers are of the family's own class, with all its language codes, and are saved by it; models
have one layer and random weights.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import torch
from tokenizers import (
    BertWordPieceTokenizer,
    ByteLevelBPETokenizer,
    Tokenizer,
    models,
    pre_tokenizers,
    trainers,
)
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    BartTokenizer,
    BertConfig,
    BertForMaskedLM,
    BertTokenizer,
    Gemma2Config,
    Gemma2ForCausalLM,
    GemmaTokenizer,
    LlamaConfig,
    LlamaForCausalLM,
    LlamaTokenizer,
    M2M100Config,
    M2M100ForConditionalGeneration,
    M2M100Tokenizer,
    MarianConfig,
    MarianMTModel,
    MarianTokenizer,
    MBart50Tokenizer,
    MBartConfig,
    MBartForConditionalGeneration,
    MBartTokenizer,
    NllbTokenizer,
    PegasusConfig,
    PegasusForConditionalGeneration,
    PegasusTokenizer,
    Qwen2Tokenizer,
    Qwen3Config,
    Qwen3ForCausalLM,
    T5Config,
    T5ForConditionalGeneration,
    T5Tokenizer,
)
from transformers.models.mbart.tokenization_mbart import FAIRSEQ_LANGUAGE_CODES as MBART_CODES
from transformers.models.nllb.tokenization_nllb import FAIRSEQ_LANGUAGE_CODES as NLLB_CODES

from iada.data.tokens.pretrained_subwords import PretrainedSubwords

SIZES = {
    "d_model": 16,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 32,
    "decoder_ffn_dim": 32,
    "max_position_embeddings": 256,
    "init_std": 0.6,
}
CAUSAL_SIZES = {
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "max_position_embeddings": 512,
    "initializer_range": 0.6,
}
Checkpoint = Callable[[str], Path]


def _pieces(text: list[str], folder: Path, **options: Any) -> tuple[Path, list[tuple[str, float]]]:
    """Learn a SentencePiece model; return its file, and its pieces with their scores."""
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(text),
        model_prefix=str(folder / "learned"),
        vocab_size=350,
        hard_vocab_limit=False,
        character_coverage=1.0,
        minloglevel=2,
        **options,
    )
    learned = sentencepiece.SentencePieceProcessor(model_file=str(folder / "learned.model"))
    pieces = [
        (learned.id_to_piece(i), learned.get_score(i))
        for i in range(len(learned))
        if not learned.is_control(i) and not learned.is_unknown(i)
    ]
    return folder / "learned.model", pieces


def _marian(text: list[str], folder: Path, codes: tuple[str, ...] = ()) -> tuple[Any, Any]:
    model, pieces = _pieces(text, folder)
    names = ["</s>", "<unk>", *codes, *(piece for piece, _ in pieces), "<pad>"]
    vocabulary = folder / "vocab.json"
    vocabulary.write_text(json.dumps({p: i for i, p in enumerate(names)}), encoding="utf-8")
    for side in ("source", "target"):
        shutil.copy(model, folder / f"{side}.spm")
    tokenizer = MarianTokenizer(
        source_spm=str(folder / "source.spm"),
        target_spm=str(folder / "target.spm"),
        vocab=str(vocabulary),
        source_lang="en",
        target_lang="de",
    )
    pad = tokenizer.pad_token_id
    config = MarianConfig(
        vocab_size=len(names),
        pad_token_id=pad,
        eos_token_id=0,
        bos_token_id=None,
        decoder_start_token_id=pad,
        forced_eos_token_id=None,
        activation_function="swish",
        **SIZES,
    )
    return tokenizer, MarianMTModel(config)


def _mbart(text: list[str], folder: Path) -> tuple[Any, Any]:
    _, pieces = _pieces(text, folder)
    opening = [(token, 0.0) for token in ("<s>", "<pad>", "</s>", "<unk>")]
    closing = [(code, 0.0) for code in (*MBART_CODES, "<mask>")]
    tokenizer = MBartTokenizer(vocab=[*opening, *pieces, *closing])
    return tokenizer, MBartForConditionalGeneration(_mbart_config(len(tokenizer)))


def _mbart50(text: list[str], folder: Path) -> tuple[Any, Any]:
    _, pieces = _pieces(text, folder)
    first = [(token, 0.0) for token in ("<unk>", "<s>", "</s>")]
    tokenizer = MBart50Tokenizer(vocab=[*first, *pieces], src_lang="en_XX", tgt_lang="de_DE")
    config = _mbart_config(len(tokenizer), decoder_start_token_id=2)
    return tokenizer, MBartForConditionalGeneration(config)


def _mbart_config(rows: int, **settings: Any) -> MBartConfig:
    return MBartConfig(vocab_size=rows, forced_eos_token_id=None, **settings, **SIZES)


def _m2m100(text: list[str], folder: Path) -> tuple[Any, Any]:
    model, pieces = _pieces(text, folder, model_type="bpe")
    names = ["<s>", "<pad>", "</s>", "<unk>", *(piece for piece, _ in pieces)]
    vocabulary = folder / "vocab.json"
    vocabulary.write_text(json.dumps({p: i for i, p in enumerate(names)}), encoding="utf-8")
    tokenizer = M2M100Tokenizer(vocab_file=str(vocabulary), spm_file=str(model))
    # As in the released checkpoints, eight rows of the matrix stand for no token.
    rows = len(names) + len(tokenizer.lang_code_to_id) + 8
    return tokenizer, M2M100ForConditionalGeneration(_m2m100_config(rows))


def _merges(text: list[str], special: list[str]) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Learn a byte-pair encoding of characters; return its vocabulary and its merges."""
    learned = Tokenizer(models.BPE(unk_token="<unk>"))
    learned.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.BpeTrainer(vocab_size=350, special_tokens=special, show_progress=False)
    learned.train_from_iterator(text, trainer)
    state = json.loads(learned.to_str())["model"]
    vocabulary: dict[str, int] = state["vocab"]
    return vocabulary, [(first, second) for first, second in state["merges"]]


def _with_bytes(vocabulary: dict[str, int], special: list[str]) -> dict[str, int]:
    """Put the 256 bytes behind the special tokens, as Llama and Gemma have them."""
    ordinary = [piece for piece in vocabulary if piece not in special]
    names = [*special, *(f"<0x{value:02X}>" for value in range(256)), *ordinary]
    return {piece: number for number, piece in enumerate(names)}


def _llama(text: list[str], folder: Path) -> tuple[Any, Any]:
    special = ["<unk>", "<s>", "</s>"]
    vocabulary, merges = _merges(text, special)
    names = _with_bytes(vocabulary, special)
    tokenizer = LlamaTokenizer(vocab=names, merges=merges, add_bos_token=True)
    config = LlamaConfig(
        vocab_size=len(tokenizer), bos_token_id=1, eos_token_id=2, pad_token_id=None, **CAUSAL_SIZES
    )
    return tokenizer, LlamaForCausalLM(config)


def _qwen(text: list[str], folder: Path) -> tuple[Any, Any]:
    """Make a model of bytes: no token for unknown text, none to open a text."""
    learned = ByteLevelBPETokenizer()
    learned.train_from_iterator(text, vocab_size=450, show_progress=False)
    state = json.loads(learned._tokenizer.to_str())["model"]
    vocabulary = state["vocab"] | {"<|endoftext|>": len(state["vocab"])}
    merges = [(first, second) for first, second in state["merges"]]
    tokenizer = Qwen2Tokenizer(vocab=vocabulary, merges=merges)
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|im_start|>", "<|im_end|>"]})
    # As in the released checkpoints, rows of the matrix beyond the vocabulary stand for nothing.
    config = Qwen3Config(
        vocab_size=len(tokenizer) + 5,
        head_dim=8,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
        pad_token_id=None,
        **CAUSAL_SIZES,
    )
    return tokenizer, Qwen3ForCausalLM(config)


def _gemma(text: list[str], folder: Path) -> tuple[Any, Any]:
    """Make a model with a cap on its logits and a layer that reads 16 tokens back."""
    special = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "<unused0>", "<unused1>"]
    vocabulary, merges = _merges(text, special)
    names = _with_bytes(vocabulary, special)
    names["\n"] = len(names)
    tokenizer = GemmaTokenizer(vocab=names, merges=merges, add_bos_token=True)
    config = Gemma2Config(
        vocab_size=len(tokenizer),
        head_dim=8,
        sliding_window=16,
        query_pre_attn_scalar=8,
        pad_token_id=0,
        eos_token_id=1,
        bos_token_id=2,
        **CAUSAL_SIZES,
    )
    assert config.final_logit_softcapping == 30.0
    return tokenizer, Gemma2ForCausalLM(config)


def _nllb(text: list[str], folder: Path) -> tuple[Any, Any]:
    vocabulary, merges = _merges(text, ["<s>", "<pad>", "</s>", "<unk>"])
    for code in (*NLLB_CODES, "<mask>"):
        vocabulary[code] = len(vocabulary)
    tokenizer = NllbTokenizer(vocab=vocabulary, merges=merges)
    return tokenizer, M2M100ForConditionalGeneration(_m2m100_config(len(tokenizer)))


def _m2m100_config(rows: int) -> M2M100Config:
    return M2M100Config(vocab_size=rows, decoder_start_token_id=2, **SIZES)


def _t5(text: list[str], folder: Path) -> tuple[Any, Any]:
    _, pieces = _pieces([*text, "translate English to German:"], folder)
    opening = [(token, 0.0) for token in ("<pad>", "</s>", "<unk>")]
    sentinels = [(f"<extra_id_{i}>", 0.0) for i in range(99, -1, -1)]
    tokenizer = T5Tokenizer(vocab=[*opening, *pieces, *sentinels])
    config = T5Config(
        # A multiple of 128, as in the released checkpoints.
        vocab_size=-(-len(tokenizer) // 128) * 128,
        d_model=16,
        d_kv=8,
        d_ff=32,
        num_layers=1,
        num_heads=2,
        initializer_factor=4.0,
        decoder_start_token_id=0,
        task_specific_params={"translation_en_to_de": {"prefix": "translate English to German: "}},
    )
    return tokenizer, T5ForConditionalGeneration(config)


def _bart(text: list[str], folder: Path) -> tuple[Any, Any]:
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    learned = ByteLevelBPETokenizer()
    learned.train_from_iterator(text, vocab_size=450, special_tokens=special, show_progress=False)
    learned.save_model(str(folder))
    tokenizer = BartTokenizer.from_pretrained(folder)
    config = BartConfig(
        vocab_size=len(tokenizer),
        pad_token_id=1,
        bos_token_id=0,
        eos_token_id=2,
        decoder_start_token_id=2,
        forced_eos_token_id=2,
        **SIZES,
    )
    return tokenizer, BartForConditionalGeneration(config)


def _pegasus(text: list[str], folder: Path) -> tuple[Any, Any]:
    """Make a model of a family that has no line in the table of families."""
    _, pieces = _pieces(text, folder)
    opening = [(token, 0.0) for token in ("<pad>", "</s>", "<mask_1>", "<mask_2>")]
    sentinels = [(f"<unk_{i}>", 0.0) for i in range(2, 103)]
    unknown = [("<unk>", 0.0)]
    tokenizer = PegasusTokenizer(vocab=[*opening, *sentinels, *unknown, *pieces])
    config = PegasusConfig(
        vocab_size=len(tokenizer),
        pad_token_id=0,
        eos_token_id=1,
        decoder_start_token_id=0,
        forced_eos_token_id=None,
        **SIZES,
    )
    return tokenizer, PegasusForConditionalGeneration(config)


def _bert(text: list[str], folder: Path) -> tuple[Any, Any]:
    """Make an encoder that reads lower case, saved with its masked language model."""
    special = ["[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    learned = BertWordPieceTokenizer(lowercase=True)
    learned.train_from_iterator(text, vocab_size=350, special_tokens=special, show_progress=False)
    learned.save_model(str(folder))
    tokenizer = BertTokenizer.from_pretrained(folder)
    config = BertConfig(
        # Rows of the matrix beyond the vocabulary stand for nothing.
        vocab_size=len(tokenizer) + 3,
        hidden_size=16,
        num_hidden_layers=3,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=256,
        initializer_range=0.3,
        pad_token_id=0,
    )
    return tokenizer, BertForMaskedLM(config)


MAKERS: dict[str, Callable[[list[str], Path], tuple[Any, Any]]] = {
    "marian": _marian,
    "marian_multilingual": lambda text, folder: _marian(text, folder, (">>deu<<", ">>fra<<")),
    "mbart": _mbart,
    "mbart50": _mbart50,
    "m2m100": _m2m100,
    "nllb": _nllb,
    "t5": _t5,
    "bart": _bart,
    "bert": _bert,
    "pegasus": _pegasus,
    "llama": _llama,
    "qwen": _qwen,
    "gemma": _gemma,
}


@pytest.fixture(scope="session")
def checkpoint(mini_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    """Return a function that makes the checkpoint of a family, once."""
    made: dict[str, Path] = {}
    files = [mini_corpus / f"train.{language}" for language in ("en", "de")]
    text = [line for file in files for line in file.read_text(encoding="utf-8").split("\n") if line]

    def make(family: str) -> Path:
        if family not in made:
            torch.manual_seed(1)
            tokenizer, model = MAKERS[family](text, tmp_path_factory.mktemp(f"{family}-files"))
            folder = tmp_path_factory.mktemp(family)
            tokenizer.save_pretrained(folder)
            model.save_pretrained(folder)
            made[family] = folder
        return made[family]

    return make


@pytest.fixture(scope="session")
def load(checkpoint: Checkpoint) -> Callable[..., PretrainedSubwords]:
    """Return a function that loads the tokenizer of a family, by default from English to German."""

    def from_checkpoint(family: str, **languages: str) -> PretrainedSubwords:
        pair = {"source_language": "en", "target_language": "de"} | languages
        return PretrainedSubwords.from_checkpoint(str(checkpoint(family)), **pair)

    return from_checkpoint
