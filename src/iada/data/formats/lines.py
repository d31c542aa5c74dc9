r"""Files to lines and back: split at `\n` and nowhere else, UTF-8, `.gz` handled transparently.

Line k of every tool and every output is the same line. `repaired_lines` streams lines as
sentences can hold them and reports every repair; `decoded_lines` leaves characters alone, for
formats in which a line is not yet a sentence; `read_lines` reads a whole file of sentences and
refuses one that cannot be repaired.
"""

import gzip
import io
import re
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from iada.data.formats.findings import Finding, Findings, problem
from iada.errors import DataError

BYTE_ORDER_MARK = "\ufeff"
_BLOCK_BYTES = 1 << 20
_SEPARATORS = {
    "\v": "a vertical tab",
    "\f": "a form feed",
    "\x1c": "a file separator",
    "\x1d": "a group separator",
    "\x1e": "a record separator",
    "\x85": "a next line character (U+0085)",
    "\u2028": "a line separator (U+2028)",
    "\u2029": "a paragraph separator (U+2029)",
}
_ODD = {symbol: symbol.encode() for symbol in ("\r", "\0", BYTE_ORDER_MARK, *_SEPARATORS)}
_ODD_SYMBOL = re.compile("[" + "".join(_ODD) + "]")


@dataclass(frozen=True)
class BadLine:
    """A line that is not valid UTF-8."""

    offset: int
    """First offending byte, counted from the start of the (unpacked) file."""
    text: str
    """The line with replacement characters."""


Line = str | BadLine


@dataclass(frozen=True)
class _Block:
    first: int
    lines: list[Line]
    is_plain: bool
    """Whether no character needs to be reported."""


def read_lines(path: Path) -> list[str]:
    """Read the lines of a UTF-8 file without their line breaks.

    A byte order mark and carriage returns are removed with a warning.

    Raises:
        DataError: a line cannot be decoded, or contains NUL.
    """
    findings = Findings(refuse=True)
    lines = list(sentence_lines(path, findings))
    findings.warn_of_repairs()
    return lines


def sentence_lines(path: Path, findings: Findings) -> Iterator[str]:
    """Yield the repaired lines of a file; refuse the first one that cannot be decoded."""
    for number, line in enumerate(repaired_lines(path, findings), start=1):
        if isinstance(line, BadLine):
            raise DataError(f"{path}:{number}: {_bad_utf8(line.offset)}")
        yield line


@contextmanager
def open_for_writing(path: Path) -> Iterator[TextIO]:
    """Open a UTF-8 file for writing, packed if its name ends in `.gz`."""
    if path.suffix != ".gz":
        with path.open("w", encoding="utf-8", newline="\n") as file:
            yield file
        return
    # Without the time of day, so that equal text gives equal bytes.
    with (
        gzip.GzipFile(path, "wb", mtime=0) as packed,
        io.TextIOWrapper(packed, encoding="utf-8", newline="\n") as file,
    ):
        yield file


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write lines as they come; memory does not grow with their number."""
    with open_for_writing(path) as file:
        file.writelines(f"{line}\n" for line in lines)


def read_bytes(path: Path) -> bytes:
    """Read a whole file, unpacked if its name ends in `.gz`."""
    return b"".join(_byte_blocks(path))


def repaired_lines(path: Path, findings: Findings) -> Iterator[Line]:
    """Yield the lines of a file as sentences can hold them, and report every repair."""
    for block in _blocks(path, findings):
        if block.is_plain:
            yield from block.lines
            continue
        for number, line in enumerate(block.lines, start=block.first):
            yield repair(line, path, number, findings) if isinstance(line, str) else line


def decoded_lines(path: Path, findings: Findings) -> Iterator[Line]:
    """Yield the lines of a file; of all characters only a byte order mark at its start is lost."""
    for block in _blocks(path, findings):
        yield from block.lines


def repair(text: str, file: Path, line: int | None, findings: Findings) -> str:
    r"""Return the text without carriage returns and NUL; report these and odd separators.

    A carriage return at the end is removed, others become spaces; NUL characters are removed.
    Separators other than `\n` and byte order marks stay.
    """
    if not _ODD_SYMBOL.search(text):
        return text
    if "\r" in text:
        message = (
            "contains a carriage return; it was removed at the end of the line and became a "
            "space elsewhere. Lines end in a single line feed."
        )
        findings.report("carriage_return", file, line, message)
        text = text.removesuffix("\r").replace("\r", " ")
    if "\0" in text:
        message = "contains a NUL character, which was removed. Is the file damaged or UTF-16?"
        findings.report("nul", file, line, message)
        text = text.replace("\0", "")
    if BYTE_ORDER_MARK in text:
        message = "contains a byte order mark inside the text, which was kept."
        findings.add(Finding("byte_order_mark", "warning", file, line, message))
    for symbol in sorted(set(_ODD_SYMBOL.findall(text)) & _SEPARATORS.keys()):
        message = f"contains {_SEPARATORS[symbol]}, at which some tools split lines; it was kept."
        findings.report("odd_separator", file, line, message)
    return text


def bad_line(file: Path, number: int, line: BadLine) -> Finding:
    """Return the problem of a line that cannot be decoded."""
    return problem("bad_utf8", file, number, _bad_utf8(line.offset))


def _bad_utf8(offset: int) -> str:
    return f"byte {offset} is not valid UTF-8. Convert the file to UTF-8."


def _blocks(path: Path, findings: Findings) -> Iterator[_Block]:
    """Yield the lines in blocks: what is plain costs nothing per line."""
    first, offset = 1, 0
    for data in _byte_blocks(path):
        start = len(BYTE_ORDER_MARK.encode()) if _begins_with_mark(data, offset) else 0
        if start:
            message = "begins with a byte order mark, which was removed. Save it without one."
            findings.report("byte_order_mark", path, 1, message)
        lines = _decode(data[start:], offset + start)
        yield _Block(first, lines, not any(symbol in data for symbol in _ODD.values()))
        first += len(lines)
        offset += len(data)


def _begins_with_mark(data: bytes, offset: int) -> bool:
    return offset == 0 and data.startswith(BYTE_ORDER_MARK.encode())


def _decode(data: bytes, offset: int) -> list[Line]:
    try:
        lines: list[Line] = [*data.decode("utf-8").removesuffix("\n").split("\n")]
    except UnicodeDecodeError:
        lines = []
        for raw in data.removesuffix(b"\n").split(b"\n"):
            try:
                lines.append(raw.decode("utf-8"))
            except UnicodeDecodeError as error:
                lines.append(BadLine(offset + error.start, raw.decode("utf-8", "replace")))
            offset += len(raw) + 1
    return lines


def _byte_blocks(path: Path) -> Iterator[bytes]:
    """Yield a file in blocks that end where lines end."""
    if not path.is_file():
        raise DataError(f"{path} does not exist or is not a file. Check the folder and file name.")
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            while data := file.read(_BLOCK_BYTES):
                yield data if data.endswith(b"\n") else data + file.readline()
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(
            f"{path} is not a whole gzip file ({error}). Copy or pack it again."
        ) from None
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror or error}).") from None
