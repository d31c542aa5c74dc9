"""Templates of the package, rendered with everything escaped that is not markup of our own."""

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
    return Markup(environment.get_template(template).render(values))
