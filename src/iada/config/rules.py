"""Checks shared by the `__post_init__` of every configuration class."""

from iada.errors import ConfigError


def require(condition: bool, key: str, rule: str, found: object) -> None:
    """Raise a `ConfigError` that names the key, the rule and the value when `condition` fails."""
    if not condition:
        raise ConfigError(f"`{key}` must be {rule}, but is {found!r}.")
