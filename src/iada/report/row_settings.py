"""Which system is a row? Its method, with every augmentation key that the method implies."""

from collections.abc import Mapping
from typing import Any, cast

from iada.analysis.results import Results, Row
from iada.config.files import to_mapping
from iada.config.methods import METHOD_NAMES, Method, augmentation


def complete(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Fill in the augmentation keys of the method, so that equal systems have equal settings."""
    method = settings.get("method")
    if method not in METHOD_NAMES:
        return dict(settings)
    usual = to_mapping(augmentation(cast(Method, method)))
    return {f"augment.{key}": value for key, value in usual.items()} | dict(settings)


def without(settings: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    """Leave out keys, to find the same system at another place of an axis."""
    return {key: value for key, value in settings.items() if key not in keys}


def row_of_method(results: Results, method: str) -> Row | None:
    """Return the row of a method as it is, without changed keys; None if there is none."""
    wanted = complete({"method": method})
    return next((row for row in results.rows if complete(row.settings) == wanted), None)
