"""The paper's systems and the controls, each as a named augmentation."""

from typing import Literal, get_args

from iada.config.augment import AugmentConfig, Measure

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
