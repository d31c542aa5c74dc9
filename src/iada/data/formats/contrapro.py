"""Contrastive sets: ContraPro's own JSON with its folder of documents, and JSON lines.

An item is a sentence pair with its context and wrong variants of the translation. How items are
scored is not decided here: see `iada.evaluation.contrastive`.
"""

from dataclasses import dataclass
from pathlib import Path

from iada.data.documents import Document, ParallelDocument
from iada.data.formats.jsonl import JsonProblem, has_surrogate, identifier, parse_json, read_json
from iada.data.formats.lines import read_lines
from iada.errors import DataError

_LANGUAGES = ("en", "de")


@dataclass(frozen=True)
class ContrastiveItem:
    """A sentence pair with wrong variants of its translation."""

    name: str
    source_context: tuple[str, ...]
    target_context: tuple[str, ...]
    source: str
    reference: str
    variants: tuple[str, ...]
    reference_class: str
    """The pronoun that is right: er, sie or es."""
    distance: int | None
    """Sentences back to the antecedent; 0 is the same sentence, None unknown."""
    intrasegmental: bool | None = None
    """Whether the antecedent is in the same sentence; None unknown."""

    def candidates(self, context: int) -> list[ParallelDocument]:
        """Return the reference and then each variant, with up to `context` sentences before it.

        Where one side has less context than the other, both use the shorter one.
        """
        used = min(len(self.source_context), len(self.target_context), context)
        before_source = self.source_context[len(self.source_context) - used :]
        before_target = self.target_context[len(self.target_context) - used :]
        source = Document(self.name, (*before_source, self.source))
        return [
            ParallelDocument(source, Document(self.name, (*before_target, target)))
            for target in (self.reference, *self.variants)
        ]

    def document(self) -> ParallelDocument:
        """Return the context, as much as both sides have, followed by source and reference."""
        return self.candidates(len(self.source_context))[0]


def read_contrastive(path: Path, documents: Path | None = None) -> list[ContrastiveItem]:
    """Read a contrastive set; either form may be packed (`.gz`).

    Args:
        path: ContraPro's JSON list, or JSON lines (`.jsonl`) with the context inside each item.
        documents: for the JSON list, the folder with the documents, one sentence per line, in the
            folder itself or below it; by default the folder beside the file with the same name.
    """
    if not path.is_file():
        raise DataError(f"{path} does not exist. Give a contrastive set in ContraPro's JSON form.")
    name = path.name.removesuffix(".gz")
    if name.endswith(".jsonl"):
        items = [_from_line(record) for record in _json_lines(path)]
    else:
        records = read_json(path)
        if not isinstance(records, list):
            raise DataError(f"{path}: must hold a list of items, as ContraPro does.")
        folder = _Documents(documents or path.with_name(name).with_suffix(""))
        items = [
            _from_contrapro(_Record.of(f"{path}: item {number}", record), folder)
            for number, record in enumerate(records, start=1)
        ]
    if not items:
        raise DataError(f"{path} holds no item.")
    return items


def read_contrastive_documents(path: Path, documents: Path | None = None) -> list[ParallelDocument]:
    """Read a contrastive set as documents: context, then source and reference.

    Arguments are those of `read_contrastive`.
    """
    return [item.document() for item in read_contrastive(path, documents)]


@dataclass(frozen=True)
class _Record:
    """The fields of an item, each checked when it is asked for."""

    where: str
    fields: dict[str, object]
    number: int = 0

    @classmethod
    def of(cls, where: str, value: object, number: int = 0) -> "_Record":
        if not isinstance(value, dict):
            raise DataError(f"{where} is not in ContraPro's form (not a JSON object).")
        return cls(where, value, number)

    def field(self, name: str) -> object:
        if name not in self.fields:
            raise DataError(f"{self.where} lacks the field {name!r}, which ContraPro has.")
        return self.fields[name]

    def text(self, name: str) -> str:
        return self._checked(name, self.field(name))

    def texts(self, name: str, values: object) -> tuple[str, ...]:
        if not isinstance(values, list):
            raise DataError(f"{self.where}: {name!r} must be a list of texts.")
        return tuple(self._checked(name, value) for value in values)

    def whole_number(self, name: str) -> int | None:
        value = self.fields.get(name)
        if value is not None and type(value) is not int:
            raise DataError(f"{self.where}: {name!r} must be a whole number.")
        return value

    def truth(self, name: str) -> bool | None:
        value = self.fields.get(name)
        if value is not None and type(value) is not bool:
            raise DataError(f"{self.where}: {name!r} must be true, false or null.")
        return value

    def _checked(self, name: str, value: object) -> str:
        if not isinstance(value, str):
            raise DataError(f"{self.where}: {name!r} must be text.")
        if has_surrogate(value) or "\n" in value or "\r" in value:
            raise DataError(
                f"{self.where}: {name!r} holds a line break or a lone surrogate. "
                "Sentences are single lines of UTF-8."
            )
        return value


class _Documents:
    """The folder of context documents: every file in it or below it, by name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # Sorted by depth, so that the folder's own files win over those of its sub-folders.
        paths = sorted(folder.rglob("*"), key=lambda path: (len(path.parts), path), reverse=True)
        self._paths = {path.name.removesuffix(".gz"): path for path in paths if path.is_file()}
        self._lines: dict[Path, list[str]] = {}

    def context(self, where: str, name: str, line: int, current: str) -> tuple[str, ...]:
        """Return the lines before a line, which must be the current sentence."""
        path = self._paths.get(name)
        if path is None:
            raise DataError(
                f"{where} needs {self.folder / name}, which does not exist or is not a file. Give "
                "the folder of the documents that the set was made from."
            )
        if path not in self._lines:
            self._lines[path] = read_lines(path)
        lines = self._lines[path]
        # The published documents and segments differ in white space here and there.
        if not 1 <= line <= len(lines) or _letters(lines[line - 1]) != _letters(current):
            raise DataError(
                f"{path}: line {line} is not the segment that the contrastive set names ({where}). "
                "Use the documents that the set was made from."
            )
        return tuple(lines[: line - 1])


def _letters(text: str) -> str:
    return "".join(text.split())


def _json_lines(path: Path) -> list[_Record]:
    records: list[_Record] = []
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        try:
            value = parse_json(line)
        except JsonProblem as found:
            raise DataError(f"{path}:{number}: {found.message}") from None
        item = len(records) + 1
        records.append(_Record.of(f"{path}:{number}: item {item}", value, item))
    return records


def _from_contrapro(record: _Record, documents: _Documents) -> ContrastiveItem:
    name, line = identifier(record.field("document id")), record.whole_number("segment id")
    if name is None or line is None:
        record.field("segment id")
        raise DataError(
            f"{record.where} is not in ContraPro's form: it needs a 'document id' and a "
            "'segment id' that is a whole number."
        )
    # The original set names the German file.
    name = name.removesuffix(".de")
    source, reference = record.text("src segment"), record.text("ref segment")
    contexts = [
        documents.context(record.where, f"{name}.{language}", line, text)
        for language, text in zip(_LANGUAGES, (source, reference), strict=True)
    ]
    errors = record.field("errors")
    if not isinstance(errors, list) or not all(isinstance(error, dict) for error in errors):
        raise DataError(f"{record.where}: 'errors' must be a list of objects.")
    item = ContrastiveItem(
        name=f"{name}:{line}",
        source_context=contexts[0],
        target_context=contexts[1],
        source=source,
        reference=reference,
        variants=record.texts("contrastive", [error.get("contrastive") for error in errors]),
        reference_class=record.text("ref pronoun").lower(),
        distance=record.whole_number("ante distance"),
        intrasegmental=record.truth("intrasegmental"),
    )
    return _checked_item(record, item)


def _from_line(record: _Record) -> ContrastiveItem:
    item = ContrastiveItem(
        name=identifier(record.fields.get("id")) or str(record.number),
        source_context=record.texts("src_context", record.field("src_context")),
        target_context=record.texts("trg_context", record.field("trg_context")),
        source=record.text("src"),
        reference=record.text("ref"),
        variants=record.texts("contrastive", record.field("contrastive")),
        reference_class=record.text("ref_class"),
        distance=record.whole_number("ante_distance"),
        intrasegmental=record.truth("intrasegmental"),
    )
    return _checked_item(record, item)


def _checked_item(record: _Record, item: ContrastiveItem) -> ContrastiveItem:
    texts = (item.source, item.reference, *item.variants)
    if not item.variants or not all(text.strip() for text in texts):
        raise DataError(
            f"{record.where} needs a source, a reference and at least one variant, none of them "
            "empty."
        )
    return item
