"""JSON without surprises: what the language leaves open is refused.

Numbers that are no numbers (NaN), numbers of thousands of digits, keys given twice, and nesting
so deep that a parser gives up are problems of the text, like a missing bracket.
"""

import json
import re
from pathlib import Path

from iada.data.lines import BYTE_ORDER_MARK, read_bytes
from iada.errors import DataError

_SURROGATE = re.compile("[\ud800-\udfff]")
_CONTROL = re.compile("[\0-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


class JsonProblem(Exception):
    """The text is not JSON as we take it."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line
        self.message = message


def parse_json(text: str) -> object:
    """Parse JSON.

    Raises:
        JsonProblem: with the line inside the text, or line 1 where it is unknown.
    """
    try:
        value: object = json.loads(
            text, object_pairs_hook=_without_repetition, parse_constant=_refuse_constant
        )
    except json.JSONDecodeError as error:
        raise JsonProblem(error.lineno, f"not valid JSON ({error.msg}).") from None
    except RecursionError:
        raise JsonProblem(1, "not usable JSON (nested too deeply).") from None
    except ValueError:
        raise JsonProblem(1, "not usable JSON (a number has too many digits).") from None
    return value


def read_json(path: Path) -> object:
    """Read a file that holds one JSON value; `DataError` if it does not."""
    raw = read_bytes(path)
    try:
        text = raw.decode("utf-8").removeprefix(BYTE_ORDER_MARK)
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{path}:{line}: byte {error.start} is not valid UTF-8. Convert the file to UTF-8."
        ) from None
    try:
        return parse_json(text)
    except JsonProblem as found:
        raise DataError(f"{path}:{found.line}: {found.message}") from None


def has_surrogate(text: str) -> bool:
    r"""Tell whether a text holds half a character, as `"\ud800"` does; it cannot be encoded."""
    return not text.isascii() and _SURROGATE.search(text) is not None


def identifier(value: object) -> str | None:
    """Return a text or whole number as the id of a document; None if it cannot be one."""
    if type(value) is int:
        return str(value)
    if not isinstance(value, str) or not value.strip():
        return None
    return None if _CONTROL.search(value) else value


def _without_repetition(pairs: list[tuple[str, object]]) -> dict[str, object]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        raise JsonProblem(1, "not usable JSON (an object has the same key twice).")
    return mapping


def _refuse_constant(name: str) -> object:
    raise JsonProblem(1, f"not usable JSON ({name} is not a JSON number).")
