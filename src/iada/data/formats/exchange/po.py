"""PO, the message catalogues of gettext, by polib (`pip install 'iada[formats]'`).

Messages in a row that come from the same file (`#: page.xml:12`) are a document; without such lines
the catalogue is one. Each line of a message is a sentence. A message with a plural has the singular
and the plural one after the other. Messages that are fuzzy or not translated count as empty on the
target side; obsolete ones are no messages.

In translation every `msgstr` is filled and all else stays, but lines are wrapped anew. Messages
that are translated and not fuzzy stand where the translations of a file are to be kept.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from iada.data.documents import Document, ParallelDocument
from iada.data.formats.assembly import Record, group_records
from iada.data.formats.file_format import CorpusFiles, Format, Piece, report_target
from iada.data.formats.findings import Finding, Findings
from iada.data.formats.lines import BYTE_ORDER_MARK, read_bytes, repair
from iada.errors import DataError


def read_po(files: CorpusFiles, findings: Findings) -> Iterator[ParallelDocument]:
    """Yield the documents of a catalogue.

    Raises:
        DataError: the file is not a catalogue, or polib is not installed.
    """
    return group_records(files.source, _records(files.source, findings), findings)


def po_pieces(files: CorpusFiles, findings: Findings) -> Iterator[Piece]:
    """Yield the documents of a catalogue; the last piece writes the whole file."""
    catalogue = _parse(files.source)
    messages = _messages(files.source, catalogue, findings)
    for number, group in enumerate(_documents(messages), start=1):
        yield _piece(f"{files.source.name}:{number}", files, group, findings)
    yield Piece(lambda _: str(catalogue).removesuffix("\n").split("\n"))


@dataclass(frozen=True)
class _Message:
    entry: Any
    """`polib.POEntry`."""
    source: tuple[str, ...]
    """Lines of the message, and then those of its plural."""
    target: tuple[str, ...]
    """As many; all empty if they do not correspond."""

    @property
    def singular(self) -> int:
        """Number of lines that are not of the plural."""
        return self.entry.msgid.count("\n") + 1 if self.entry.msgid else 0

    @property
    def document(self) -> str:
        """File that the message comes from."""
        return self.entry.occurrences[0][0] if self.entry.occurrences else ""

    def fill(self, sentences: Sequence[str]) -> None:
        """Put in the translation."""
        texts = "\n".join(sentences[: self.singular]), "\n".join(sentences[self.singular :])
        if not self.entry.msgid_plural:
            self.entry.msgstr = texts[0]
            return
        # Languages have one form or several: the last ones are plurals.
        forms = sorted(self.entry.msgstr_plural) or [0, 1]
        self.entry.msgstr_plural = {form: texts[min(form, 1)] for form in forms}


def _piece(
    name: str, files: CorpusFiles, messages: Sequence[_Message], findings: Findings
) -> Piece:
    stands = [files.keeps_targets and message.entry.translated() for message in messages]
    for message, stays in zip(messages, stands, strict=True):
        if message.entry.msgstr or any(message.entry.msgstr_plural.values()):
            report_target(files, message.entry.linenum, findings, stands=stays)

    def render(sentences: Sequence[str]) -> list[str]:
        remaining = iter(sentences)
        for message, stays in zip(messages, stands, strict=True):
            filled = [next(remaining) for _ in message.source]
            if not stays:
                message.fill(filled)
        return []

    source = tuple(line for message in messages for line in message.source)
    target = tuple(line for message in messages for line in message.target)
    reference = Document(name, target) if all(target) else None
    kept = tuple(
        line if stays else None
        for message, stays in zip(messages, stands, strict=True)
        for line in message.target
    )
    return Piece(render, Document(name, source), reference, kept if any(stands) else ())


def _records(path: Path, findings: Findings) -> Iterator[Record]:
    for group in _documents(_messages(path, _parse(path), findings)):
        source = tuple(line for message in group for line in message.source)
        target = tuple(line for message in group for line in message.target)
        findings.source.read += len(source)
        findings.target.read += len(target)
        yield Record(
            group[0].entry.linenum, group[0].document or None, source, target, is_whole=True
        )


def _documents(messages: Sequence[_Message]) -> Iterator[list[_Message]]:
    return ([*group] for _, group in groupby(messages, key=lambda message: message.document))


def _messages(path: Path, catalogue: Any, findings: Findings) -> list[_Message]:
    return [
        _Message(entry, *_sides(path, entry, findings))
        for entry in catalogue
        if not entry.obsolete and entry.msgid
    ]


def _sides(path: Path, entry: Any, findings: Findings) -> tuple[tuple[str, ...], tuple[str, ...]]:
    sources, targets = [entry.msgid], [entry.msgstr]
    if entry.msgid_plural:
        forms = entry.msgstr_plural
        sources.append(entry.msgid_plural)
        targets = [forms.get(0, ""), forms.get(1, forms.get(0, ""))]
    source = _lines(path, entry, sources, findings)
    target = _lines(path, entry, targets, findings)
    if entry.fuzzy or [text.count("\n") for text in sources] != [t.count("\n") for t in targets]:
        if any(target) and not entry.fuzzy:
            message = "the translation has another number of lines; it counts as missing."
            findings.add(Finding("segment_mismatch", "warning", path, entry.linenum, message))
        target = ("",) * len(source)
    return source, target


def _lines(path: Path, entry: Any, texts: Sequence[str], findings: Findings) -> tuple[str, ...]:
    lines = (line for text in texts for line in text.split("\n"))
    return tuple(repair(line, path, entry.linenum, findings) for line in lines)


def _parse(path: Path) -> Any:
    """Return the `polib.POFile`."""
    try:
        import polib
    except ImportError:
        raise DataError(
            f"{path} is read by polib, which is not installed: `pip install 'iada[formats]'`."
        ) from None
    raw = read_bytes(path)
    try:
        text = raw.decode("utf-8").removeprefix(BYTE_ORDER_MARK)
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}: byte {error.start} is not valid UTF-8. Convert the file to UTF-8."
        ) from None
    # Without a line break polib would take the text for the name of a file.
    if "msgid" not in text or "\n" not in text:
        raise DataError(f"{path} has no `msgid`, so it is no PO file. Check its name and format.")
    try:
        return polib.pofile(text.replace("\r\n", "\n"))
    except (OSError, ValueError) as error:
        raise DataError(f"{path} is not a PO file ({error}). Check it with `msgfmt -c`.") from None


FORMAT = Format(names=("*.po", "*.pot"), files="one", read=read_po, pieces=po_pieces)
