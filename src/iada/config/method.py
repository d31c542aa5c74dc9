"""Augmentation: how training instances are perturbed, and what is learned from the perturbed view.

The paper's systems and the controls are named augmentations, listed at the end.
"""

from dataclasses import dataclass
from typing import Literal, get_args

from iada.config.base import require

Measure = Literal[
    "tnorm",
    "gnorm",
    "grad_input",
    "context_gradient",
    "surprisal",
    "p_cxmi",
    "embedding_norm",
    "random",
    "uniform",
]
Direction = Literal["up", "down"]


@dataclass(frozen=True, kw_only=True)
class AugmentConfig:
    """Importance-aware data augmentation, with every choice that the paper's tables vary."""

    measure: Measure = "gnorm"
    """Token importance. The paper's: hidden-state norm, gradient norm, a random score, or none
    (uniform). Further: gradient times input; gradient norm of the current sentence's loss at
    context tokens alone; surprisal (target tokens in the loss alone); P-CXMI (tokens of the current
    target sentence alone, in two passes of their own); norm of the embedding. Tokens that a measure
    does not score have the initial probability."""
    unit: Literal["piece", "word"] = "piece"
    """What is scored and drawn: each piece by itself, or words, whose pieces share the mean of
    their scores and are replaced together."""
    replacement: Literal["drop", "replace"] = "replace"
    """What a selected token becomes: nothing (see `drop`), or a random token of the vocabulary."""
    drop: Literal["mask", "zero"] = "mask"
    """What a dropped token leaves: the `<mask>` token, or a zero vector in place of its embedding,
    to which the position is added as always."""
    p_context: float = 0.1
    """Initial replacement probability of context tokens, in [0, 1)."""
    p_current: float = 0.1
    """Initial replacement probability of current-sentence tokens, in [0, 1)."""
    ramp: float | None = None
    """Let both initial probabilities rise to their values: at update u they are at most
    1 - k / (k + exp(u / k)), where k is this number. Without one they are constant."""
    alpha: float = 0.1
    """Spread of the importance scores: how far importance tilts the probabilities."""
    alpha_updates: int = 0
    """Let alpha rise linearly from 0 over this many updates."""
    budget: Literal["free", "matched"] = "free"
    """Let importance change the mean replacement probability, as in the paper's equation, where it
    grows with alpha, or keep it at its initial value in each window, side and role."""
    normalize: Literal["standard", "none", "scale"] = "standard"
    """z-scores times alpha, the raw score, or the raw score times alpha."""
    context_direction: Direction = "down"
    """Important context tokens are replaced less (down) or more (up) often."""
    current_direction: Direction = "up"
    """Important tokens of the current sentence are replaced more (up) or less (down) often."""
    sides: Literal["both", "source", "target"] = "both"
    """Which side's inputs are perturbed. Labels never are."""
    weight_original: float = 1.0
    """Weight of the NLL of the original view."""
    weight_perturbed: float = 1.0
    """Weight of the NLL of the perturbed view."""
    weight_agreement: float = 1.0
    """Weight of the divergence between the two views."""
    agreement: Literal["symmetric_kl", "js", "kl"] = "symmetric_kl"
    """The paper's equation (half the sum of both KL), the true Jensen-Shannon divergence, or the KL
    divergence of the perturbed from the original view alone."""
    agreement_stop: Literal["none", "original"] = "none"
    """Let the agreement's gradient flow into both views, or not into the original one."""
    importance_pass: Literal["reuse", "separate", "lagged"] = "reuse"
    """Measure importance in the training forward pass, in an extra one without dropout, or read it
    off the gradient with which the window was learned when it was last drawn, which costs nothing.
    The last is for GNorm and gradient times input, and the gradient is that of the whole loss that
    flows through the original view, the agreement included."""
    lagged_start: Literal["tnorm", "uniform"] = "tnorm"
    """With `lagged`, importance in windows that have not been drawn before: TNorm, or none."""
    lagged_decay: float = 0.0
    """With `lagged`, weight of the scores that a window has when it gets new ones, in [0, 1): 0
    uses the last draw alone, more a moving average over all draws so far."""
    tnorm_at: Literal["pre_norm", "feed_forward"] = "pre_norm"
    """TNorm reads the input of a stack's last normalisation, or its last feed-forward output."""
    gnorm_smoothing: float = 0.0
    """Label smoothing of the loss whose gradient is GNorm, in [0, 1)."""
    statistics_specials: bool = False
    """Let special tokens enter the mean and deviation of the z-scores (padding never does)."""
    start_update: int = 0
    """First update that perturbs; earlier ones train on the original view alone."""
    joint_update: int = 0
    """First update with all terms; those before it, from `start_update` on, learn from the
    perturbed view alone, whose NLL then carries the weight of both."""
    bpe_dropout: float = 0.0
    """Probability that a merge of the byte-pair encoding is skipped, in [0, 1]. Training windows
    are segmented anew on both sides each time they are drawn; all views share a segmentation."""
    cipher_keys: tuple[int, ...] = ()
    """Keys k of ROT-k ciphers. The perturbed view reads the source enciphered with one of them,
    drawn for each window anew, and the vocabulary is learned from plain and enciphered text."""
    cipher_cased: bool = False
    """Rotate small and capital letters each among themselves, or all letters as one alphabet."""

    def __post_init__(self) -> None:
        for name in ("p_context", "p_current", "gnorm_smoothing", "lagged_decay"):
            value = getattr(self, name)
            require(0 <= value < 1, f"augment.{name}", "at least 0 and below 1", value)
        for name in ("alpha", "weight_original", "weight_perturbed", "weight_agreement"):
            value = getattr(self, name)
            require(value >= 0, f"augment.{name}", "0 or more", value)
        for name in ("start_update", "joint_update", "alpha_updates"):
            value = getattr(self, name)
            require(value >= 0, f"augment.{name}", "0 or more", value)
        ramp = self.ramp
        require(ramp is None or ramp > 0, "augment.ramp", "empty, or above 0", ramp)
        dropout = self.bpe_dropout
        require(0 <= dropout <= 1, "augment.bpe_dropout", "between 0 and 1", dropout)
        require(
            self.weight_original + self.weight_perturbed > 0,
            "augment.weight_original",
            "positive, or `augment.weight_perturbed` must be: agreement alone teaches nothing",
            self.weight_original,
        )
        rule = "above 0 with `augment.joint_update`: its first updates learn from nothing else"
        learned = self.joint_update == 0 or self.weight_perturbed > 0
        require(learned, "augment.weight_perturbed", rule, self.weight_perturbed)
        self._check_cipher()
        if self.importance_pass == "lagged":
            self._check_lagged()

    def _check_lagged(self) -> None:
        where = "with `augment.importance_pass: lagged`"
        measured = self.measure in ("gnorm", "grad_input")
        rule = f"gnorm or grad_input {where}: no other measure is read off the training gradient"
        require(measured, "augment.measure", rule, self.measure)
        rule = f"above 0 {where}: the scores are the gradient of a loss on the original view"
        require(self.weight_original > 0, "augment.weight_original", rule, self.weight_original)
        rule = f"standard {where}: the scale of the training gradient means nothing"
        require(self.normalize == "standard", "augment.normalize", rule, self.normalize)
        for name, reason in (
            ("bpe_dropout", "a window has other pieces at every draw"),
            ("joint_update", "the first updates do not read the original view"),
            ("gnorm_smoothing", "the training loss brings its own smoothing"),
        ):
            value = getattr(self, name)
            require(value == 0, f"augment.{name}", f"0 {where}: {reason}", value)

    def _check_cipher(self) -> None:
        keys = self.cipher_keys
        distinct = len(set(keys)) == len(keys) and all(key >= 1 for key in keys)
        rule = "a list of different numbers from 1 up"
        require(distinct, "augment.cipher_keys", rule, list(keys))
        if not self.reads_ciphers:
            return
        rule = "{} with `augment.cipher_keys`: the enciphered source is the perturbed view"
        require(self.measure == "uniform", "augment.measure", rule.format("uniform"), self.measure)
        for name in ("p_context", "p_current", "bpe_dropout"):
            value = getattr(self, name)
            require(value == 0, f"augment.{name}", rule.format(0), value)

    @property
    def reads_ciphers(self) -> bool:
        """Whether the perturbed view is an enciphered source, not a perturbed one."""
        return bool(self.cipher_keys) and self.perturbs

    @property
    def perturbs(self) -> bool:
        """Whether a perturbed view is needed at all."""
        return self.weight_perturbed > 0 or self.weight_agreement > 0

    @property
    def replaces(self) -> bool:
        """Whether a perturbed view has replaced tokens."""
        return self.p_context > 0 or self.p_current > 0

    @property
    def learns_from_original(self) -> bool:
        """Whether gradients flow through the original view."""
        needs_agreement = self.weight_agreement > 0 and self.agreement_stop == "none"
        return self.weight_original > 0 or needs_agreement


Method = Literal[
    "doc2doc",
    "word_drop",
    "word_replace",
    "iada_drop_tnorm",
    "iada_drop_gnorm",
    "iada_drop_random",
    "iada_replace_tnorm",
    "iada_replace_gnorm",
    "iada_replace_random",
    "r_drop",
    "coword_drop",
    "simcut",
    "uniform_drop_all_losses",
    "uniform_replace_all_losses",
    "bpe_dropout",
    "cipher",
]
METHOD_NAMES: tuple[str, ...] = get_args(Method)


def augmentation(method: Method) -> AugmentConfig:
    """Return the augmentation of a named method."""
    return _METHODS[method]


def _iada(replacement: Literal["drop", "replace"], measure: Measure) -> AugmentConfig:
    return AugmentConfig(measure=measure, replacement=replacement)


def _perturbed_only(
    replacement: Literal["drop", "replace"],
    *,
    p_context: float = 0.1,
    sides: Literal["both", "source", "target"] = "both",
) -> AugmentConfig:
    return AugmentConfig(
        measure="uniform",
        replacement=replacement,
        p_context=p_context,
        sides=sides,
        weight_original=0.0,
        weight_agreement=0.0,
    )


_METHODS: dict[Method, AugmentConfig] = {
    "doc2doc": AugmentConfig(measure="uniform", weight_perturbed=0.0, weight_agreement=0.0),
    "word_drop": _perturbed_only("drop"),
    "word_replace": _perturbed_only("replace"),
    "iada_drop_tnorm": _iada("drop", "tnorm"),
    "iada_drop_gnorm": _iada("drop", "gnorm"),
    "iada_drop_random": _iada("drop", "random"),
    "iada_replace_tnorm": _iada("replace", "tnorm"),
    "iada_replace_gnorm": _iada("replace", "gnorm"),
    "iada_replace_random": _iada("replace", "random"),
    # Two dropout views of the same tokens: the objective without any perturbation.
    "r_drop": AugmentConfig(measure="uniform", p_context=0.0, p_current=0.0),
    "coword_drop": _perturbed_only("drop", p_context=0.0, sides="source"),
    # One-sided KL to a uniformly cut view, with the weight and probability of its authors.
    "simcut": AugmentConfig(
        measure="uniform",
        replacement="drop",
        drop="zero",
        p_context=0.05,
        p_current=0.05,
        weight_perturbed=0.0,
        weight_agreement=3.0,
        agreement="kl",
    ),
    # The control that tells the two-view objective apart from importance.
    "uniform_drop_all_losses": _iada("drop", "uniform"),
    "uniform_replace_all_losses": _iada("replace", "uniform"),
    "bpe_dropout": AugmentConfig(
        measure="uniform", weight_perturbed=0.0, weight_agreement=0.0, bpe_dropout=0.1
    ),
    # CipherDAug divides the sum of both NLLs and five times their divergence by twice the tokens.
    "cipher": AugmentConfig(
        measure="uniform",
        p_context=0.0,
        p_current=0.0,
        weight_original=0.5,
        weight_perturbed=0.5,
        weight_agreement=2.5,
        joint_update=500,
        cipher_keys=(1, 2),
    ),
}
