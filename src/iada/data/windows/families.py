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

Decoder-only models read both sides in one sequence, which a template frames (`prompt_frame`). That
of pre-trained ones is the interleaved prompt of Wu et al. (2024): a line `[English]: x [German]: y`
for every pair, and before the last one, where there is context, a line that asks for its
translation. Models built from scratch read `<s> x <sep> y`.
"""

from dataclasses import dataclass
from typing import Literal

from iada.config.data import WindowConfig
from iada.config.model import TemplateConfig
from iada.data.tokens.paired_subwords import PairedSubwords
from iada.data.tokens.pretrained_subwords import PretrainedSubwords
from iada.data.tokens.subwords import SubwordEncoding
from iada.data.windows.frame import Frame
from iada.data.windows.prompt import Prompt
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

_INTERLEAVED = TemplateConfig(
    source="[{source_language}]:",
    target=" [{target_language}]:",
    end="\n",
    instruction="Now translate this {source_language} sentence into {target_language}:\n",
)
_SCRATCH = TemplateConfig(source="<s>", target="<sep>", end="", instruction="")


def pretrained_frame(subwords: PretrainedSubwords, template: TemplateConfig | None = None) -> Frame:
    """Return the frame of a pre-trained model for its pair of languages.

    Args:
        subwords: its tokenizer.
        template: of a decoder-only model; by default the interleaved prompt.
    """
    template = template or TemplateConfig()
    special, settings = subwords.special, subwords.settings
    if subwords.is_causal:
        languages = (str(settings.source_code), str(settings.target_code))
        return prompt_frame(subwords, template, languages)
    if template != TemplateConfig():
        raise ConfigError(
            f"`model.template` is for decoder-only models, but {settings.model} is an "
            "encoder-decoder. Remove the key."
        )
    family = FAMILIES.get(settings.family)
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


def paired_frame(subwords: PairedSubwords, ends: Literal["once", "each"]) -> Frame:
    """Return the frame of a model whose encoder is a BERT and whose decoder is ours.

    once    `[CLS] c [SEP] x [SEP]`          `<s> y`
    each    `[CLS] c [SEP] [CLS] x [SEP]`    `<s> c <s> y`

    Args:
        subwords: both vocabularies.
        ends: whether the window is one text of BERT's, or each of its sentences is.
    """
    special = subwords.special
    return Frame(
        source_begin=(subwords.source_opening,),
        source_end=(subwords.source_end,),
        source_separator=subwords.source_end,
        target_begin=(special.bos,),
        target_end=special.eos,
        separator=special.sep,
        ends=ends,
    )


def prompt_frame(
    subwords: SubwordEncoding, template: TemplateConfig, languages: tuple[str, str]
) -> Prompt:
    """Return the frame of a decoder-only model.

    Args:
        subwords: its encoding, our own or that of a pre-trained model.
        template: what stands around sentences.
        languages: names of source and target in the template.
    """
    defaults = _SCRATCH
    opening: tuple[int, ...] = ()
    stops: tuple[int, ...] = ()
    if isinstance(subwords, PretrainedSubwords):
        defaults, opening, stops = _INTERLEAVED, subwords.opening, subwords.line_breaks

    def write(piece: str) -> list[int]:
        chosen: str | None = getattr(template, piece)
        text = getattr(defaults, piece) if chosen is None else chosen
        for name, language in zip(("source", "target"), languages, strict=True):
            text = text.replace(f"{{{name}_language}}", language)
        return subwords.encode_markup(text)

    return Prompt.of_pieces(
        [*opening, *write("opening")],
        *map(write, ("source", "target", "end", "instruction")),
        end=subwords.special.eos,
        stops=stops,
    )


def check_window_length(
    windows: WindowConfig, subwords: PretrainedSubwords | PairedSubwords
) -> None:
    """Refuse windows that are longer than what the model can read."""
    known = subwords.source if isinstance(subwords, PairedSubwords) else subwords
    settings, limit = known.settings, known.settings.max_length
    if limit is not None and windows.max_length > limit:
        raise ConfigError(
            f"`windows.max_length` is {windows.max_length}, but {settings.model} reads "
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
