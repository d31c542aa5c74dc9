r"""Files to lines: split at `\n` and nowhere else, decoded as UTF-8, `.gz` read transparently.

Line k of every tool and every output is the same line. `read_lines` is strict and whole;
`repaired_lines` streams, mends what can be mended and reports it; `decoded_lines` streams and
leaves characters alone, for formats in which a line is not yet a sentence.
"""

import gzip
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from iada.data.formats.findings import Finding, Findings, problem
from iada.errors import DataError

BYTE_ORDER_MARK = "\ufeff"
_BLOCK_BYTES = 1 << 20
_REFUSED = {
    "\r": "a carriage return",
    "\0": "a NUL character",
    BYTE_ORDER_MARK: "a byte order mark",
}
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
_ODD = {symbol: symbol.encode() for symbol in (*_REFUSED, *_SEPARATORS)}
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
    """Whether no character needs a look."""


def read_lines(path: Path) -> list[str]:
    """Read the lines of a UTF-8 file without their line breaks; refuse invisible trouble."""
    raw = read_bytes(path)
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise DataError(f"{path}:{line}: {_bad_utf8(error.start)}") from None
    for symbol, name in _REFUSED.items():
        if symbol in text:
            line = text.count("\n", 0, text.index(symbol)) + 1
            raise DataError(
                f"{path}:{line}: contains {name}, which would become part of a sentence. "
                "Remove the character; lines end in a single line feed."
            )
    lines = text.split("\n")
    # A final line feed ends the last line; it does not begin an empty one.
    return lines[:-1] if lines[-1] == "" else lines


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
