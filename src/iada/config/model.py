"""Architecture, size and regularisation of the model.

An architecture is a row of `ARCHITECTURES`: what its windows look like and which keys it reads,
pure data that the windows, the models and decoding share. Doc2Doc is the stock Transformer.
"""

from dataclasses import dataclass, field, fields
from typing import Literal

from iada.config.base import require
from iada.config.data import WindowConfig
from iada.errors import ConfigError

Architecture = Literal["doc2doc", "flat", "gtrans", "han", "san", "hybrid", "docflat", "causal"]
ContextSides = Literal["encoder", "decoder", "both"]


@dataclass(frozen=True)
class Traits:
    """What an architecture wants of its windows, and which keys of `model` it reads."""

    title: str
    """Name in tables."""
    ends: Literal["once", "each"] = "once"
    """`each` where every sentence of a window is read and written like a single sentence."""
    restarts_positions: bool = False
    """Whether positions begin anew with every sentence."""
    keys: tuple[str, ...] = ()
    """Keys of `model` that it reads, of those that only some architectures know."""
    sides: tuple[ContextSides, ...] = ()
    """Values of `model.context_sides` that it knows; the first is its default."""
    pretrained: bool = False
    """Whether it can be put into a pre-trained model."""
    source_only: tuple[ContextSides, ...] = ()
    """Values of `model.context_sides` with which it reads no context on the target side."""


ARCHITECTURES: dict[Architecture, Traits] = {
    "doc2doc": Traits("Doc2Doc", pretrained=True),
    "flat": Traits(
        "FlatTrans",
        keys=("wide_layers", "after", "context_sides"),
        sides=("encoder",),
        source_only=("encoder",),
        pretrained=True,
    ),
    "gtrans": Traits("G-Transformer", ends="each", keys=("wide_layers",), pretrained=True),
    "han": Traits(
        "HAN",
        ends="each",
        restarts_positions=True,
        keys=("context_sides", "stop_context"),
        sides=("encoder", "decoder", "both"),
        source_only=("encoder",),
    ),
    "san": Traits(
        "SAN",
        ends="each",
        restarts_positions=True,
        keys=("context_sides", "stop_context", "frozen_context", "after"),
        sides=("encoder",),
        source_only=("encoder",),
    ),
    "hybrid": Traits(
        "Hybrid", ends="each", restarts_positions=True, keys=("stop_context", "after")
    ),
    "docflat": Traits("DocFlat", keys=("gate", "far_context")),
    "causal": Traits("Decoder-only", ends="each"),
}


@dataclass(frozen=True, kw_only=True)
class TemplateConfig:
    """What a decoder-only model reads around the sentences of a window.

    Every piece is text and is tokenised once; the name of a special token, such as `<s>`, is that
    token, and `{source_language}` and `{target_language}` stand for the names of the languages.
    """

    opening: str = ""
    """What opens a window, such as an instruction."""
    source: str | None = None
    """What stands before every source sentence: by default `[{source_language}]:`, and `<s>` in
    models that are built from scratch."""
    target: str | None = None
    """What stands before every target sentence: by default ` [{target_language}]:`, and `<sep>` in
    models that are built from scratch."""
    end: str | None = None
    """What stands after every pair but the last: by default a line break, and nothing in models
    that are built from scratch."""
    instruction: str | None = None
    """What stands between the context and the current pair: by default a line that asks for the
    translation, and nothing in models that are built from scratch."""

    def __post_init__(self) -> None:
        rule = "some text: the translation begins after it"
        require(self.target != "", "model.template.target", rule, self.target)


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The paper's Transformer (base): post-norm, sinusoidal positions, one embedding matrix."""

    architecture: Architecture = "doc2doc"
    """How context is read: `doc2doc`, the stock Transformer on the whole window; `flat`
    (FlatTrans), `gtrans` (G-Transformer), `han`, `san`, `hybrid`, `docflat`; `causal`, a
    decoder-only model (Llama) of `decoder_layers` that reads source and target as one sequence."""
    context_sides: ContextSides | None = None
    """Where a context module stands (`han`: encoder, decoder or both); by default the encoder."""
    wide_layers: int | None = None
    """Layers that read the whole window: the lowest encoder layers of `flat` (all but one by
    default), the topmost layers of `gtrans` (two by default)."""
    stop_context: bool | None = None
    """Whether no gradient flows into context states (`han`, `san`, `hybrid`), as in the originals,
    which is the default. GNorm cannot see the importance of context without that gradient."""
    frozen_context: bool | None = None
    """Whether `san` reads context states of the run in `train.start`, which stay what they are, as
    in the original; by default they are those of its own encoder, which learns on."""
    gate: Literal["soft", "hard"] | None = None
    """Gate of `docflat`: `soft` is DocFlat_C, `hard` is DocFlat_D; `soft` by default."""
    far_context: int | None = None
    """Context sentences that `docflat` reads on top of `windows.context`; 12 by default."""
    after: int = 0
    """Source sentences after the current one that are read as context (`flat`, `san`, `hybrid`)."""
    pretrained: str | None = None
    """Folder or hub name of a pre-trained model to start from, with its own tokenizer: an
    encoder-decoder (Marian, mBART, M2M100, NLLB, T5, BART and others) or a decoder-only model
    (Llama, Qwen, Gemma, Mistral and others). The keys of size, dropout and positions below, and
    those of `subwords`, are then the checkpoint's. With `architecture: gtrans` its attentions are
    put into an mBART. With `flat` or `gtrans` and a BERT, that is the encoder, with its own
    tokenizer for the source; the keys are then those of the decoder and of the target."""
    source_code: str | None = None
    """The pre-trained model's own code of the source language, such as `eng_Latn`, where it does
    not follow from `data.source_language`; for a decoder-only model the name in its template."""
    target_code: str | None = None
    """The pre-trained model's own code of the target language, likewise."""
    template: TemplateConfig = field(default_factory=TemplateConfig)
    """What a decoder-only model reads around sentences."""
    dim: int = 512
    """Width of the model."""
    feed_forward: int = 2048
    """Width of the feed-forward layers."""
    heads: int = 8
    """Attention heads; must divide `dim`."""
    encoder_layers: int = 6
    """Number of encoder layers."""
    decoder_layers: int = 6
    """Number of decoder layers."""
    dropout: float = 0.3
    """Dropout on embeddings and sub-layer outputs."""
    attention_dropout: float = 0.0
    """Dropout on attention weights."""
    activation_dropout: float = 0.0
    """Dropout inside the feed-forward layers."""
    max_positions: int = 1024
    """Longest sequence that the model can read or write."""

    def __post_init__(self) -> None:
        for name in ("source_code", "target_code"):
            value = getattr(self, name)
            rule = "empty without `model.pretrained`"
            require(self.pretrained is not None or value is None, f"model.{name}", rule, value)
        for name in ("dim", "feed_forward", "heads", "encoder_layers", "decoder_layers"):
            value = getattr(self, name)
            require(value >= 1, f"model.{name}", "at least 1", value)
        rule = f"a divisor of `model.dim` ({self.dim})"
        require(self.dim % self.heads == 0, "model.heads", rule, self.heads)
        require(self.dim % 2 == 0, "model.dim", "even (sine and cosine positions)", self.dim)
        for name in ("dropout", "attention_dropout", "activation_dropout"):
            value = getattr(self, name)
            require(0 <= value < 1, f"model.{name}", "at least 0 and below 1", value)
        self._check_architecture()

    def _check_architecture(self) -> None:
        names = ARCHITECTURES
        rule = f"one of {', '.join(names)}"
        require(self.architecture in names, "model.architecture", rule, self.architecture)
        defaults = {one.name: one.default for one in fields(self)}
        known = {key for traits in ARCHITECTURES.values() for key in traits.keys}
        for key in sorted(known - {*self.traits.keys}):
            if getattr(self, key) != defaults[key]:
                readers = [name for name, traits in ARCHITECTURES.items() if key in traits.keys]
                raise ConfigError(
                    f"`model.{key}` means nothing to `model.architecture: {self.architecture}`; "
                    f"it belongs to {', '.join(readers)}. Remove the key."
                )
        if self.pretrained is not None and not self.traits.pretrained:
            able = " or ".join(name for name, traits in names.items() if traits.pretrained)
            raise ConfigError(
                f"`model.architecture: {self.architecture}` is built from scratch, but "
                f"`model.pretrained` is {self.pretrained!r}. Remove one of the two keys, or choose "
                f"{able}."
            )
        reads_template = self.architecture == "causal" or self.pretrained is not None
        if self.template != TemplateConfig() and not reads_template:
            raise ConfigError(
                f"`model.template` means nothing to `model.architecture: {self.architecture}`; it "
                "belongs to decoder-only models. Remove the key."
            )
        sides = self.context_sides
        if sides is not None:
            rule = f"{' or '.join(self.traits.sides)} with `{self.architecture}`"
            require(sides in self.traits.sides, "model.context_sides", rule, sides)
        if self.wide_layers is not None and self.pretrained is None:
            layers = min(self.encoder_layers, self.decoder_layers)
            layers = self.encoder_layers if self.architecture == "flat" else layers
            rule = f"between 0 and the number of layers ({layers})"
            require(0 <= self.wide_layers <= layers, "model.wide_layers", rule, self.wide_layers)
        if self.frozen_context:
            rule = "true with `model.frozen_context`: no gradient reaches what is frozen"
            require(self.stops_context, "model.stop_context", rule, self.stop_context)
        far = self.far_context
        require(far is None or far >= 0, "model.far_context", "0 or more", far)
        require(self.after >= 0, "model.after", "0 or more", self.after)

    @property
    def traits(self) -> Traits:
        """What the architecture wants of its windows."""
        return ARCHITECTURES[self.architecture]

    @property
    def sides(self) -> ContextSides:
        """Where the context modules stand."""
        return self.context_sides or (self.traits.sides or ("encoder",))[0]

    @property
    def wide(self) -> int:
        """Number of layers that read the whole window."""
        if self.wide_layers is not None:
            return self.wide_layers
        if self.architecture == "flat":
            return self.encoder_layers - 1
        return min(2, self.encoder_layers, self.decoder_layers)

    @property
    def stops_context(self) -> bool:
        """Whether no gradient flows into context states."""
        return True if self.stop_context is None else self.stop_context

    @property
    def hides_gradients(self) -> bool:
        """Whether some gradient is not that of what is computed: stopped, or of a hard gate."""
        stops = "stop_context" in self.traits.keys and self.stops_context
        return stops or self.gate == "hard"

    @property
    def far(self) -> int:
        """Context sentences on top of `windows.context`."""
        if self.architecture != "docflat":
            return 0
        return 12 if self.far_context is None else self.far_context

    @property
    def target_context(self) -> bool:
        """Whether windows have context on the target side."""
        return not self.traits.source_only or self.sides not in self.traits.source_only


def check_windows(model: ModelConfig, windows: WindowConfig) -> None:
    """Refuse windows that an architecture cannot read.

    Raises:
        ConfigError: saying which, and what to change.
    """
    name = f"`model.architecture: {model.architecture}`"
    if model.architecture in ("doc2doc", "causal"):
        return
    if windows.context == 0:
        raise ConfigError(
            f"{name} reads context, but `windows.context` is 0. Set it to 1 or more, or choose "
            "`model.architecture: doc2doc` for a sentence-level system."
        )
    if windows.strategy == "multires":
        raise ConfigError(
            f"{name} needs a current sentence and its context, but `windows.strategy: multires` "
            "cuts documents without context. Choose `windows.strategy: sliding`."
        )
    if model.after and windows.stride != 1:
        raise ConfigError(
            f"`model.after` needs one current sentence per window, but `windows.stride` is "
            f"{windows.stride}. Set it to 1."
        )
    if model.after and windows.noisy_context:
        raise ConfigError(
            "`model.after` and `windows.noisy_context` do not go together: the noise replaces "
            "sentences before the current one only. Set one of them to 0."
        )
