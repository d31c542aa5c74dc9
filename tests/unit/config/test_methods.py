"""The named methods are the paper's systems and the controls, key by key."""

from typing import Literal

import pytest

from iada.config.augment import AugmentConfig
from iada.config.methods import METHOD_NAMES, Method, augmentation
from iada.config.run import RunConfig


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


@pytest.mark.parametrize("replacement", ["drop", "replace"])
def test_the_uniform_control_differs_from_iada_in_the_measure_alone(
    replacement: Literal["drop", "replace"],
) -> None:
    name: Method = (
        "uniform_drop_all_losses" if replacement == "drop" else "uniform_replace_all_losses"
    )
    assert augmentation(name) == AugmentConfig(measure="uniform", replacement=replacement)


def test_every_name_has_a_method_and_the_default_run_follows_its_own() -> None:
    for name in METHOD_NAMES:
        assert isinstance(augmentation(name), AugmentConfig)  # type: ignore[arg-type]
    assert RunConfig().augment == augmentation(RunConfig().method)
