"""JSON without surprises: what the language leaves open is refused.

Numbers that are no numbers (NaN), numbers of thousands of digits, keys given twice, and nesting
so deep that a parser gives up are problems of the text, like a missing bracket.

JSON lines: one document or one sentence pair per line.

A document is `{"id": ..., "source": [...], "target": [...]}`, a sentence pair
`{"document": ..., "source": "...", "target": "..."}`. The language codes may stand for `source`
and `target`. Pairs of one document are consecutive. Empty lines are ignored.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path

from iada.data.documents import ParallelDocument
from iada.data.formats.assembly import Record, group_records
from iada.data.formats.findings import Finding, Findings, problem
from iada.data.formats.lines import (
    BYTE_ORDER_MARK,
    Line,
    bad_line,
    decoded_lines,
    read_bytes,
    repair,
)
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


def read_jsonl(
    file: Path, languages: tuple[str, str], findings: Findings
) -> Iterator[ParallelDocument]:
    """Yield the documents of a file.

    Args:
        file: with one JSON object per line.
        languages: codes that may name the fields of both sides, source first.
        findings: gets what cannot be used.
    """
    return group_records(file, _records(file, languages, findings), findings)


def clean_sentence(
    value: object, file: Path, line: int | None, findings: Findings
) -> tuple[str, Finding | None]:
    """Return a JSON value as a sentence, and why its document cannot be used if so."""
    if not isinstance(value, str):
        message = "a sentence is not text. Sentences are JSON strings."
        return "", problem("malformed_record", file, line, message)
    if has_surrogate(value):
        message = "a sentence holds a lone surrogate, half a character, which cannot be encoded."
        return "", problem("lone_surrogate", file, line, message)
    if "\n" in value:
        message = "a sentence contains a line break. Sentences are single lines: split or join it."
        return "", problem("line_break", file, line, message)
    return repair(value, file, line, findings), None


def _records(file: Path, languages: tuple[str, str], findings: Findings) -> Iterator[Record]:
    for number, line in enumerate(decoded_lines(file, findings), start=1):
        if isinstance(line, str) and not line.strip():
            for tally in (findings.source, findings.target):
                tally.read += 1
                tally.boundaries += 1
            continue
        record = _record(file, number, line, languages, findings)
        findings.source.read += len(record.source)
        findings.target.read += len(record.target)
        yield record


def _record(
    file: Path, number: int, line: Line, languages: tuple[str, str], findings: Findings
) -> Record:
    if not isinstance(line, str):
        return _unusable(number, bad_line(file, number, line))
    try:
        fields = parse_json(line)
    except JsonProblem as found:
        return _unusable(number, problem("malformed_record", file, number, found.message))
    if not isinstance(fields, dict):
        message = "not a JSON object. Each line is a document or a sentence pair."
        return _unusable(number, problem("malformed_record", file, number, message))
    sides = [
        fields.get(name, fields.get(code, _MISSING))
        for name, code in zip(("source", "target"), languages, strict=True)
    ]
    is_whole = any(isinstance(side, list) for side in sides)
    problems: list[Finding] = []
    document = _document_id(file, number, fields, is_whole, problems)
    if is_whole and not all(isinstance(side, list) or side is _MISSING for side in sides):
        message = "has a list on one side only. A document has two lists, a pair two texts."
        problems.append(problem("malformed_record", file, number, message))
    source, target = (_sentences(side, file, number, problems, findings) for side in sides)
    return Record(number, document, source, target, tuple(problems), is_whole)


# No JSON value is a tuple.
_MISSING = ()


def _unusable(number: int, why: Finding) -> Record:
    return Record(number, None, ("",), ("",), (why,))


def _document_id(
    file: Path, line: int, fields: dict[str, object], is_whole: bool, problems: list[Finding]
) -> str | None:
    name = "id" if is_whole else "document"
    # A whole document may do without an id, but not have one that cannot be used.
    if is_whole and name not in fields:
        return None
    document = identifier(fields.get(name))
    if document is None:
        message = f"has no field `{name}` with a text or a whole number."
        problems.append(problem("missing_field", file, line, message))
    return document


def _sentences(
    side: object, file: Path, line: int, problems: list[Finding], findings: Findings
) -> tuple[str, ...]:
    """Return the sentences of one side; what is no list counts as one sentence."""
    if side is _MISSING:
        message = "lacks a side. It needs `source` and `target`, or the two language codes."
        problems.append(problem("missing_field", file, line, message))
        return ("",)
    texts = []
    for value in side if isinstance(side, list) else [side]:
        text, found = clean_sentence(value, file, line, findings)
        texts.append(text)
        if found is not None:
            problems.append(found)
    return tuple(texts)
