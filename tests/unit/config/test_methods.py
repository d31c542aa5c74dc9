"""The named methods are the paper's systems and the controls, key by key."""

from dataclasses import replace
from typing import Any, Literal

import pytest

from iada.config.method import METHOD_NAMES, AugmentConfig, Method, augmentation
from iada.config.run import RunConfig
from iada.errors import ConfigError


@pytest.mark.parametrize("replacement", ["drop", "replace"])
@pytest.mark.parametrize("measure", ["tnorm", "gnorm", "random"])
def test_iada_learns_from_both_views_and_their_agreement(
    replacement: Literal["drop", "replace"], measure: Literal["tnorm", "gnorm", "random"]
) -> None:
    config = augmentation(f"iada_{replacement}_{measure}")  # type: ignore[arg-type]
    assert (config.measure, config.replacement) == (measure, replacement)
    assert (config.p_context, config.p_current, config.alpha) == (0.1, 0.1, 0.1)
    assert (config.context_direction, config.current_direction) == ("down", "up")
    assert (config.normalize, config.sides) == ("standard", "both")
    weights = (config.weight_original, config.weight_perturbed, config.weight_agreement)
    assert weights == (1.0, 1.0, 1.0)
    assert config.agreement == "symmetric_kl"


def test_doc2doc_never_perturbs() -> None:
    config = augmentation("doc2doc")
    assert not config.perturbs
    assert config.weight_original == 1.0


@pytest.mark.parametrize("replacement", ["drop", "replace"])
def test_word_dropout_learns_from_the_uniformly_perturbed_view_alone(
    replacement: Literal["drop", "replace"],
) -> None:
    config = augmentation("word_drop" if replacement == "drop" else "word_replace")
    assert (config.measure, config.replacement) == ("uniform", replacement)
    assert (config.p_context, config.p_current) == (0.1, 0.1)
    weights = (config.weight_original, config.weight_perturbed, config.weight_agreement)
    assert weights == (0.0, 1.0, 0.0)
    assert not config.learns_from_original


def test_r_drop_has_two_views_of_the_same_tokens() -> None:
    config = augmentation("r_drop")
    assert (config.p_context, config.p_current) == (0.0, 0.0)
    assert config.perturbs
    assert config.weight_agreement == 1.0


def test_coword_drop_touches_the_current_source_sentence_alone() -> None:
    config = augmentation("coword_drop")
    assert (config.measure, config.replacement, config.sides) == ("uniform", "drop", "source")
    assert (config.p_context, config.p_current) == (0.0, 0.1)


def test_simcut_is_the_kl_divergence_of_a_uniformly_cut_view() -> None:
    config = augmentation("simcut")
    assert (config.measure, config.replacement, config.drop) == ("uniform", "drop", "zero")
    assert (config.p_context, config.p_current) == (0.05, 0.05)
    weights = (config.weight_original, config.weight_perturbed, config.weight_agreement)
    assert weights == (1.0, 0.0, 3.0)
    # Gradients flow into both views.
    assert (config.agreement, config.agreement_stop) == ("kl", "none")


@pytest.mark.parametrize("replacement", ["drop", "replace"])
def test_the_uniform_control_differs_from_iada_in_the_measure_alone(
    replacement: Literal["drop", "replace"],
) -> None:
    name: Method = (
        "uniform_drop_all_losses" if replacement == "drop" else "uniform_replace_all_losses"
    )
    assert augmentation(name) == AugmentConfig(measure="uniform", replacement=replacement)


def test_bpe_dropout_learns_from_one_view_that_is_segmented_anew() -> None:
    config = augmentation("bpe_dropout")
    assert config == replace(augmentation("doc2doc"), bpe_dropout=0.1)


def test_cipher_is_cipherdaug() -> None:
    config = augmentation("cipher")
    assert (config.cipher_keys, config.cipher_cased, config.joint_update) == ((1, 2), False, 500)
    # CE + CE + 5 KL, divided by twice the tokens.
    weights = (config.weight_original, config.weight_perturbed, config.weight_agreement)
    assert weights == (0.5, 0.5, 2.5)
    assert config.reads_ciphers
    assert not replace(config, weight_perturbed=0, weight_agreement=0, joint_update=0).reads_ciphers


@pytest.mark.parametrize(
    ("method", "changes", "message"),
    [
        (
            "cipher",
            {"p_context": 0.1},
            r"`augment\.p_context` must be 0 with `augment.cipher_keys`",
        ),
        ("cipher", {"p_current": 0.1}, r"`augment\.p_current` must be 0"),
        ("cipher", {"measure": "gnorm"}, r"`augment\.measure` must be uniform"),
        ("cipher", {"bpe_dropout": 0.1}, r"`augment\.bpe_dropout` must be 0"),
        ("cipher", {"cipher_keys": (1, 1)}, r"`augment\.cipher_keys` must be a list of different"),
        ("cipher", {"cipher_keys": (0,)}, r"`augment\.cipher_keys` must be .* but is \[0\]"),
        ("bpe_dropout", {"bpe_dropout": 1.1}, r"`augment\.bpe_dropout` must be between 0 and 1"),
        ("bpe_dropout", {"joint_update": 3}, r"`augment\.weight_perturbed` must be above 0 with"),
        ("word_drop", {"ramp": 0.0}, r"`augment\.ramp` must be empty, or above 0, but is 0.0"),
        ("word_drop", {"joint_update": -1}, r"`augment\.joint_update` must be 0 or more"),
        ("word_drop", {"alpha_updates": -1}, r"`augment\.alpha_updates` must be 0 or more"),
    ],
)
def test_what_cannot_go_together_is_refused(
    method: Method, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        replace(augmentation(method), **changes)


def test_one_segmentation_serves_both_views_so_importance_and_dropout_go_together() -> None:
    config = replace(augmentation("iada_replace_gnorm"), bpe_dropout=0.1)
    assert config.perturbs


def test_every_name_has_a_method_and_the_default_run_follows_its_own() -> None:
    for name in METHOD_NAMES:
        assert isinstance(augmentation(name), AugmentConfig)  # type: ignore[arg-type]
    assert RunConfig().augment == augmentation(RunConfig().method)
