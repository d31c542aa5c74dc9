"""Templates of the package, rendered with everything escaped that is not markup of our own."""

from collections.abc import Iterable
from itertools import groupby
from operator import attrgetter
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup


def render(template: str, **values: Any) -> Markup:
    """Fill a template of the package; values are escaped unless they are `Markup`."""
    environment = Environment(
        loader=PackageLoader("iada.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["runs_of"] = _runs_of
    return Markup(environment.get_template(template).render(values))


def _runs_of(items: Iterable[Any], attribute: str) -> list[tuple[Any, list[Any]]]:
    """Gather neighbours that share an attribute; jinja's `groupby` would sort them."""
    return [(value, list(group)) for value, group in groupby(items, key=attrgetter(attribute))]
