"""How the augmentation changes in the course of training."""

import math
from dataclasses import replace

from iada.config.augment import AugmentConfig


def ramped(probability: float, update: int, *, ramp: float) -> float:
    """Return a replacement probability on its way up (Takase & Kiyono).

    A token is kept with probability max(1 - p, k / (k + exp(u / k))).

    Args:
        probability: p, which is reached in the end.
        update: u, the number of updates made.
        ramp: k, the slowness of the rise.
    """
    # The complement of the second term, in a form that cannot overflow.
    return min(probability, 1 / (1 + ramp * math.exp(-update / ramp)))


def settings_at(config: AugmentConfig, update: int) -> AugmentConfig:
    """Return the augmentation as it is at an update.

    Before `joint_update` the perturbed view is learned from alone, and its NLL carries the weight
    of both. With `ramp` the initial probabilities are still on their way up.
    """
    if update < config.joint_update:
        weight = config.weight_original + config.weight_perturbed
        config = replace(config, weight_original=0.0, weight_perturbed=weight, weight_agreement=0.0)
    if config.ramp is not None:
        config = replace(
            config,
            p_context=ramped(config.p_context, update, ramp=config.ramp),
            p_current=ramped(config.p_current, update, ramp=config.ramp),
        )
    return config
