"""JSON lines: one document or one sentence pair per line.

A document is `{"id": ..., "source": [...], "target": [...]}`, a sentence pair
`{"document": ..., "source": "...", "target": "..."}`. The language codes may be used instead of
`source` and `target`. Pairs of one document are consecutive. Empty lines are ignored. In
translation the target field is filled and everything else stays.

JSON is parsed strictly, here and for the other formats that use it: NaN, numbers of thousands of
digits, repeated keys, and nesting too deep for the parser are errors, like a missing bracket.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from iada.data.documents import ParallelDocument
from iada.data.formats.assembly import FillableLine, Record, group_lines, group_records
from iada.data.formats.file_format import CorpusFiles, Format, Piece
from iada.data.formats.findings import Finding, Findings, problem
from iada.data.formats.lines import (
    BYTE_ORDER_MARK,
    Line,
    bad_line,
    decoded_lines,
    read_bytes,
    repair,
    write_lines,
)
from iada.errors import DataError

_SURROGATE = re.compile("[\ud800-\udfff]")
_CONTROL = re.compile("[\0-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


class JsonProblem(Exception):
    """The text is not strict JSON."""

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
    r"""Tell whether a text contains a lone surrogate such as `"\ud800"`, which has no UTF-8."""
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


def read_jsonl(files: CorpusFiles, findings: Findings) -> Iterator[ParallelDocument]:
    """Yield the documents of a file with one JSON object per line."""
    return group_records(files.source, _records(files, findings), findings)


def write_jsonl(files: CorpusFiles, documents: Iterable[ParallelDocument]) -> None:
    """Write one document per line, numbered from 1, with the sides under their language codes."""

    def lines() -> Iterator[str]:
        for number, document in enumerate(documents, start=1):
            sides = (document.source.sentences, document.target.sentences)
            record = {"id": number, **dict(zip(files.languages, sides, strict=True))}
            yield json.dumps(record, ensure_ascii=False)

    write_lines(files.source, lines())


def jsonl_pieces(files: CorpusFiles, findings: Findings) -> Iterator[Piece]:
    """Yield the documents; targets that are complete already are the reference."""

    def fillable(number: int, line: Line) -> FillableLine:
        parsed = _parse_line(files, number, line, findings, needs_target=False)
        if parsed is None:
            return FillableLine(lambda _: "", is_blank=True)
        for found in parsed.problems:
            findings.add(found)

        def render(sentences: Sequence[str]) -> str:
            translation = list(sentences) if parsed.is_whole else sentences[0]
            return json.dumps(parsed.fields | {parsed.target_name: translation}, ensure_ascii=False)

        target = parsed.target
        is_complete = target is not None and len(target) == len(parsed.source)
        return FillableLine(
            render,
            source=parsed.source,
            reference=target if is_complete else None,
            document=parsed.document,
            line=number,
            is_whole=parsed.is_whole,
        )

    lines = decoded_lines(files.source, findings, files.max_line_bytes)
    return group_lines(files.source, (fillable(n, line) for n, line in enumerate(lines, start=1)))


def clean_sentence(
    value: object, file: Path, line: int | None, findings: Findings
) -> tuple[str, Finding | None]:
    """Return a JSON value as a sentence, and the problem if its document cannot be used."""
    if not isinstance(value, str):
        message = "a sentence is not text. Sentences are JSON strings."
        return "", problem("malformed_record", file, line, message)
    if has_surrogate(value):
        message = "a sentence contains a lone surrogate, which cannot be encoded."
        return "", problem("lone_surrogate", file, line, message)
    if "\n" in value:
        message = "a sentence contains a line break. Sentences are single lines: split or join it."
        return "", problem("line_break", file, line, message)
    return repair(value, file, line, findings), None


@dataclass(frozen=True)
class _ParsedLine:
    fields: dict[str, object]
    target_name: str
    source: tuple[str, ...]
    target: tuple[str, ...] | None
    """None if there is none and none is needed."""
    document: str | None = None
    is_whole: bool = False
    problems: tuple[Finding, ...] = ()


def _parse_line(
    files: CorpusFiles, number: int, line: Line, findings: Findings, *, needs_target: bool
) -> _ParsedLine | None:
    """Return the record of a line with its problems; None for an empty line."""
    if isinstance(line, str) and not line.strip():
        return None
    file = files.source
    fields = _parse_object(file, number, line)
    if isinstance(fields, Finding):
        return _ParsedLine({}, "", ("",), ("",), problems=(fields,))
    source_name, target_name = _side_names(fields, files.languages)
    source, target = (fields.get(name, _MISSING) for name in (source_name, target_name))
    if not needs_target and target in (None, [], ""):
        target = _MISSING
    sides = (source, target)
    is_whole = any(isinstance(side, list) for side in sides)
    problems: list[Finding] = []
    document = _document_id(file, number, fields, is_whole, problems)
    if is_whole and not all(isinstance(side, list) or side is _MISSING for side in sides):
        message = "has a list on one side only. A document has two lists, a pair two texts."
        problems.append(problem("malformed_record", file, number, message))
    sentences = _sentences(source, file, number, problems, findings)
    translations = None
    if needs_target or target is not _MISSING:
        translations = _sentences(target, file, number, problems, findings)
    return _ParsedLine(
        fields, target_name, sentences, translations, document, is_whole, tuple(problems)
    )


def _parse_object(file: Path, number: int, line: Line) -> dict[str, object] | Finding:
    if not isinstance(line, str):
        return bad_line(file, number, line)
    try:
        fields = parse_json(line)
    except JsonProblem as found:
        return problem("malformed_record", file, number, found.message)
    if not isinstance(fields, dict):
        message = "not a JSON object. Each line is a document or a sentence pair."
        return problem("malformed_record", file, number, message)
    return fields


def _side_names(fields: dict[str, object], languages: tuple[str, str]) -> tuple[str, str]:
    """Return the names of the source and target fields; the target need not be there."""
    source = "source" if "source" in fields else languages[0]
    has_code = languages[1] in fields
    uses_code = "target" not in fields and (has_code or source != "source")
    return source, languages[1] if uses_code else "target"


def _records(files: CorpusFiles, findings: Findings) -> Iterator[Record]:
    lines = decoded_lines(files.source, findings, files.max_line_bytes)
    for number, line in enumerate(lines, start=1):
        parsed = _parse_line(files, number, line, findings, needs_target=True)
        if parsed is None:
            for tally in (findings.source, findings.target):
                tally.read += 1
                tally.boundaries += 1
            continue
        target = parsed.target or ()
        findings.source.read += len(parsed.source)
        findings.target.read += len(target)
        yield Record(
            number, parsed.document, parsed.source, target, parsed.problems, parsed.is_whole
        )


# No JSON value is a tuple.
_MISSING = ()


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
    """Return the sentences of one side; anything but a list counts as one sentence."""
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


FORMAT = Format(
    names=("*.jsonl",), files="one", read=read_jsonl, write=write_jsonl, pieces=jsonl_pieces
)
