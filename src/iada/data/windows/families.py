"""Frames of pre-trained models: what each family reads around and between sentences.

    family        source                   decoder input          sentences end
    marian        [>>deu<<] x </s>         <pad> y                each
    mbart         x </s> en_XX             de_DE y                once
    mbart50       en_XX x </s>             </s> de_DE y           once
    m2m100        __en__ x </s>            </s> __de__ y          each
    nllb          eng_Latn x </s>          </s> deu_Latn y        each
    nllb_legacy   x </s> eng_Latn          </s> deu_Latn y        each
    t5            [<2de> or prompt] x </s> <pad> y                once
    bart          <s> x </s>               </s> <s> y             once
    other         as its tokenizer writes  start [forced] y       once

With no context this is the sentence-level input of the family, token for token. Between the
sentences of a window there is `</s>`, never a new token: vocabularies, embeddings and exports stay
those of the checkpoint, and every translated sentence ends in the same way, with context or
without.

Marian, M2M100 and NLLB were trained on single sentences, so each sentence of a window is written as
one of them (`each`); a token then stands only where the model has seen it. mBART was pre-trained on
documents whose sentences are separated by `</s>` within one pair of language codes, which is the
form `once`. BART, T5 and its relatives read running text: one opening (for T5 possibly a whole
instruction), `</s>` between sentences.
"""

from dataclasses import dataclass
from typing import Literal

from iada.config.data import WindowConfig
from iada.data.tokens.pretrained_subwords import PretrainedSubwords
from iada.data.tokens.subwords import SubwordEncoding
from iada.data.windows.frame import Frame
from iada.errors import ConfigError, ModelError


@dataclass(frozen=True)
class Family:
    """The form of a family: names of tokens, separated by spaces.

    `source` and `target` are language codes, left out where a model has none; `start` is what opens
    decoder inputs, `prompt` an instruction; `bos` and `eos` are the tokenizer's.
    """

    source_begin: str
    source_end: str
    target_begin: str
    ends: Literal["once", "each"]


FAMILIES = {
    "marian": Family("target", "eos", "start", "each"),
    "mbart": Family("", "eos source", "target", "once"),
    "mbart50": Family("source", "eos", "start target", "once"),
    "m2m100": Family("source", "eos", "start target", "each"),
    "nllb": Family("source", "eos", "start target", "each"),
    "nllb_legacy": Family("", "eos source", "start target", "each"),
    "t5": Family("target prompt", "eos", "start", "once"),
    "bart": Family("bos", "eos", "start bos", "once"),
}
"""The table above; a model of any other family is asked for its own form."""


def pretrained_frame(subwords: PretrainedSubwords) -> Frame:
    """Return the frame of a pre-trained model for its pair of languages."""
    special = subwords.special
    family = FAMILIES.get(subwords.settings.family)
    if family is None:
        return _own_frame(subwords)
    tokens = _tokens(subwords)

    def write(names: str) -> tuple[int, ...]:
        return tuple(i for name in names.split() for i in tokens[name])

    return Frame(
        source_begin=write(family.source_begin),
        source_end=write(family.source_end),
        target_begin=write(family.target_begin),
        target_end=special.eos,
        separator=special.eos,
        ends=family.ends,
        prompt=len(tokens["prompt"]) if "prompt" in family.source_begin.split() else 0,
    )


def encoding_frame(subwords: SubwordEncoding) -> Frame:
    """Return the frame that an encoding asks for: that of its family, or Doc2Doc's."""
    if isinstance(subwords, PretrainedSubwords):
        return pretrained_frame(subwords)
    return Frame.stock(subwords.special)


def check_window_length(windows: WindowConfig, subwords: PretrainedSubwords) -> None:
    """Refuse windows that are longer than what the model can read."""
    limit = subwords.settings.max_length
    if limit is not None and windows.max_length > limit:
        raise ConfigError(
            f"`windows.max_length` is {windows.max_length}, but {subwords.settings.model} reads "
            f"and writes at most {limit} tokens. Set `windows.max_length` to {limit} or less."
        )


def _tokens(subwords: PretrainedSubwords) -> dict[str, tuple[int, ...]]:
    """Return the ids behind the names of `Family`."""
    settings, special = subwords.settings, subwords.special
    codes = {
        side: () if code is None else (subwords.codes[code],)
        for side, code in (("source", settings.source_code), ("target", settings.target_code))
    }
    prompt = subwords.encode([settings.prompt], "source")[0]
    return codes | {
        "bos": (special.bos,),
        "eos": (special.eos,),
        "start": (settings.start,),
        "prompt": tuple(prompt),
    }


def _own_frame(subwords: PretrainedSubwords) -> Frame:
    """Ask a tokenizer what it writes around a sentence."""
    settings, special = subwords.settings, subwords.special
    (plain,) = subwords.encode(["a"], "source")
    written = list(subwords.tokenizer("a")["input_ids"])
    places = [i for i in range(len(written)) if written[i : i + len(plain)] == plain]
    if not plain or not places or written[-1] != special.eos:
        raise ModelError(
            f"The tokenizer of {settings.model} writes a sentence in a form that is not known: "
            f"{' '.join(subwords.pieces(written))}. Only sentences that end in `</s>` are."
        )
    begin, end = written[: places[0]], written[places[0] + len(plain) :]
    forced = () if settings.forced is None else (settings.forced,)
    return Frame(
        source_begin=tuple(begin),
        source_end=tuple(end),
        target_begin=(settings.start, *forced),
        target_end=special.eos,
        separator=special.eos,
    )
