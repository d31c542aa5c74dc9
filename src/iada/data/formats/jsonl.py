"""JSON lines: one document or one sentence pair per line.

A document is `{"id": ..., "source": [...], "target": [...]}`, a sentence pair
`{"document": ..., "source": "...", "target": "..."}`. The language codes may be used instead of
`source` and `target`, and `data.document_column` and its like name other fields. Pairs of one
document are consecutive. Empty lines are ignored. In translation the target field is filled and
everything else stays.

Two other shapes are recognised by their fields: `{"translation": {"en": ..., "de": ...}}` of
Hugging Face datasets, and `{"doc_id": ..., "src_text": ..., "refs": {...}}` of WMT, whose text has
one segment per line. Pairs that do not name their document are told apart by `data.boundaries`.

JSON is parsed strictly, here and for the other formats that use it: NaN, numbers of thousands of
digits, repeated keys, and nesting too deep for the parser are errors, like a missing bracket.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from iada.data.documents import ParallelDocument
from iada.data.formats.assembly import FillableLine, Record, group_lines, group_records
from iada.data.formats.file_format import HYPOTHESIS, CorpusFiles, Format, Piece
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
from iada.data.formats.text import DocumentCounter, is_separator
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
    lines = _Lines(files, findings, needs_target=True)
    return _read(lines, lines.parse())


def read_objects(
    files: CorpusFiles, objects: Iterable[dict[str, object]], findings: Findings
) -> Iterator[ParallelDocument]:
    """Yield the documents of objects that are those of JSON lines, but come from elsewhere."""
    lines = _Lines(files, findings, needs_target=True)
    # Only a line that separates documents is looked at.
    parsed = (lines.parse_fields(number, "{}", one) for number, one in enumerate(objects, start=1))
    return _read(lines, parsed)


def write_jsonl(files: CorpusFiles, documents: Iterable[ParallelDocument]) -> None:
    """Write one document per line, numbered from 1, with the fields that the files are read with.

    By default the sides are under their language codes.
    """
    identity, *names = files.columns
    paths = [(name or code).split(".") for name, code in zip(names, files.languages, strict=True)]

    def lines() -> Iterator[str]:
        for number, document in enumerate(documents, start=1):
            record: dict[str, object] = {identity or "id": number}
            for path, side in zip(paths, (document.source, document.target), strict=True):
                record = with_value(record, path, list(side.sentences))
            yield json.dumps(record, ensure_ascii=False)

    write_lines(files.source, lines())


def jsonl_pieces(files: CorpusFiles, findings: Findings) -> Iterator[Piece]:
    """Yield the documents; targets that are complete already are the reference."""

    def fill(parsed: "_ParsedLine", sentences: Sequence[str]) -> object:
        return with_value(parsed.fields, parsed.shape.filled, parsed.value_of(sentences))

    lines = _Lines(files, findings, needs_target=False)
    return _pieces(lines, lines.parse(), fill)


def object_pieces(
    files: CorpusFiles, objects: Iterable[dict[str, object]], findings: Findings
) -> Iterator[Piece]:
    """Yield the documents of objects that come from elsewhere.

    Each object is rendered as one line of JSON: a list of the path at which its translation
    belongs, as a list of names, and the translation.
    """

    def fill(parsed: "_ParsedLine", sentences: Sequence[str]) -> object:
        return [list(parsed.shape.filled), parsed.value_of(sentences)]

    lines = _Lines(files, findings, needs_target=False)
    parsed = (lines.parse_fields(number, "{}", one) for number, one in enumerate(objects, start=1))
    return _pieces(lines, parsed, fill)


def _pieces(
    lines: "_Lines",
    parsed_lines: Iterable["_ParsedLine | None"],
    fill: Callable[["_ParsedLine", Sequence[str]], object],
) -> Iterator[Piece]:
    """Yield the documents of records, rendered as the JSON of what `fill` returns."""

    def fillable(parsed: "_ParsedLine | None") -> FillableLine:
        if parsed is None:
            return FillableLine(lambda _: "", is_blank=True)
        for found in parsed.problems:
            lines.findings.add(found)

        def render(sentences: Sequence[str]) -> str:
            return json.dumps(fill(parsed, sentences), ensure_ascii=False)

        target = parsed.target
        is_complete = target is not None and len(target) == len(parsed.source)
        return FillableLine(
            render,
            source=parsed.source,
            reference=target if is_complete else None,
            document=parsed.document,
            line=parsed.number,
            is_whole=parsed.is_whole,
        )

    return group_lines(lines.files.source, map(fillable, parsed_lines))


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
class _Shape:
    """Where a record has its parts: names of fields, outermost first."""

    source: Sequence[str]
    target: Sequence[str]
    filled: Sequence[str]
    """What a translation fills."""
    document: str | None = None
    """None for the usual one: `id` of a document, `document` of a sentence pair."""
    is_numbered: bool = False
    """Whether pairs name no document, so that `data.boundaries` tells documents apart."""
    is_text: bool = False
    """Whether a side is a text with one segment per line, and blank lines between paragraphs."""


def _find_shape(fields: dict[str, object], files: CorpusFiles) -> _Shape:
    document, *names = files.columns
    if "src_text" in fields and names == [None, None]:
        return _wmt_shape(fields, files.reference, document or "doc_id")
    is_pair = isinstance(fields.get("translation"), dict) and names == [None, None]
    if is_pair or any(names):
        source, target = (
            name.split(".") if name else ["translation", code] if is_pair else [code]
            for name, code in zip(names, files.languages, strict=True)
        )
        known = document or next((key for key in ("document", "doc_id") if key in fields), None)
        return _Shape(source, target, target, known, is_numbered=known is None)
    source_name = "source" if "source" in fields else files.languages[0]
    code = files.languages[1]
    uses_code = "target" not in fields and (code in fields or source_name != "source")
    target = [code if uses_code else "target"]
    return _Shape([source_name], target, target, document)


def _wmt_shape(fields: dict[str, object], reference: str | None, document: str) -> _Shape:
    filled = [HYPOTHESIS]
    refs = fields.get("refs")
    target = ["refs", reference or next(iter(refs), "") if isinstance(refs, dict) else ""]
    if reference == HYPOTHESIS:
        target = filled
    elif isinstance(_value_at(fields, target), dict):
        target = [*target, "ref"]
    return _Shape(["src_text"], target, filled, document, is_text=True)


def _value_at(fields: object, path: Sequence[str]) -> object:
    for name in path:
        if not isinstance(fields, dict) or name not in fields:
            return _MISSING
        fields = fields[name]
    return fields


def with_value(fields: object, path: Sequence[str], value: object) -> dict[str, object]:
    """Return a copy of an object with a value at a path."""
    kept = fields if isinstance(fields, dict) else {}
    first, *rest = path
    return {**kept, first: with_value(kept.get(first), rest, value) if rest else value}


@dataclass(frozen=True)
class _ParsedLine:
    number: int
    fields: dict[str, object]
    shape: _Shape
    source: tuple[str, ...]
    target: tuple[str, ...] | None
    """None if there is none and none is needed."""
    document: str | None = None
    is_whole: bool = False
    problems: tuple[Finding, ...] = ()

    def value_of(self, sentences: Sequence[str]) -> object:
        """Return translated sentences as the value of a field."""
        if self.shape.is_text:
            remaining = iter(sentences)
            lines = str(_value_at(self.fields, self.shape.source)).split("\n")
            return "\n".join(next(remaining) if line.strip() else line for line in lines)
        return list(sentences) if self.is_whole else sentences[0]


_UNKNOWN = _Shape((), (), ())


class _Lines:
    """The lines of a file as records."""

    def __init__(self, files: CorpusFiles, findings: Findings, *, needs_target: bool) -> None:
        self.files = files
        self.findings = findings
        self.needs_target = needs_target
        self.counter = DocumentCounter(files.boundaries)

    def parse(self) -> Iterator[_ParsedLine | None]:
        """Yield the record of each line with its problems; None for an empty line."""
        lines = decoded_lines(self.files.source, self.findings, self.files.max_line_bytes)
        for number, line in enumerate(lines, start=1):
            if isinstance(line, str) and _is_boundary(line, self.files):
                self.counter.document_of(line)
                yield None
                continue
            fields = _parse_object(self.files.source, number, line)
            if isinstance(fields, Finding):
                yield _ParsedLine(number, {}, _UNKNOWN, ("",), ("",), problems=(fields,))
            else:
                yield self.parse_fields(number, line, fields)

    def parse_fields(self, number: int, line: Line, fields: dict[str, object]) -> _ParsedLine:
        """Return the record of an object with its problems."""
        file, shape = self.files.source, _find_shape(fields, self.files)
        sides = [_value_at(fields, path) for path in (shape.source, shape.target)]
        if not self.needs_target and sides[1] in (None, [], ""):
            sides[1] = _MISSING
        if shape.is_text:
            sides = [_segments(side) for side in sides]
        is_whole = any(isinstance(side, list) for side in sides)
        problems: list[Finding] = []
        if shape.is_numbered and not is_whole:
            document = self.counter.document_of(line)
        else:
            document = _document_id(file, number, fields, shape.document, is_whole, problems)
        if is_whole and not all(isinstance(side, list) or side is _MISSING for side in sides):
            message = "has a list on one side only. A document has two lists, a pair two texts."
            problems.append(problem("malformed_record", file, number, message))
        source = _sentences(sides[0], file, number, problems, self.findings)
        target = None
        if self.needs_target or sides[1] is not _MISSING:
            target = _sentences(sides[1], file, number, problems, self.findings)
        return _ParsedLine(
            number, fields, shape, source, target, document, is_whole, tuple(problems)
        )


def _is_boundary(line: str, files: CorpusFiles) -> bool:
    """Tell whether a line has no record: it is empty, or the stated boundary."""
    return not line.strip() or is_separator(line, files.boundaries)


def _segments(text: object) -> object:
    return [line for line in text.split("\n") if line.strip()] if isinstance(text, str) else text


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


def _read(lines: _Lines, parsed: Iterable[_ParsedLine | None]) -> Iterator[ParallelDocument]:
    file, findings = lines.files.source, lines.findings
    yield from group_records(file, _records(parsed, findings), findings)
    lines.counter.refuse_unknown_boundaries(file)


def _records(lines: Iterable[_ParsedLine | None], findings: Findings) -> Iterator[Record]:
    for parsed in lines:
        if parsed is None:
            for tally in (findings.source, findings.target):
                tally.read += 1
                tally.boundaries += 1
            continue
        target = parsed.target or ()
        findings.source.read += len(parsed.source)
        findings.target.read += len(target)
        yield Record(
            parsed.number, parsed.document, parsed.source, target, parsed.problems, parsed.is_whole
        )


# No JSON value is a tuple.
_MISSING = ()


def _document_id(
    file: Path,
    line: int,
    fields: dict[str, object],
    field: str | None,
    is_whole: bool,
    problems: list[Finding],
) -> str | None:
    name = field or ("id" if is_whole else "document")
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
