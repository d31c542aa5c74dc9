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

from iada.config.data import MAX_LINE_BYTES
from iada.data.formats.findings import Finding, Findings, problem
from iada.errors import DataError

BYTE_ORDER_MARK = "\ufeff"
_UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_BLOCK_BYTES = 1 << 20
MAX_WHOLE_FILE = 200_000_000
"""Largest file, unpacked, in formats that are read whole."""
_FREELY_UNPACKED = 10_000_000
_MAX_EXPANSION = 200
"""Text rarely packs better than 20 to 1. Beyond the bytes above, more than this is a bomb."""
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


def sentence_lines(
    path: Path, findings: Findings, max_bytes: int = MAX_LINE_BYTES
) -> Iterator[str]:
    """Yield the repaired lines of a file; refuse the first one that cannot be decoded."""
    for number, line in enumerate(repaired_lines(path, findings, max_bytes), start=1):
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
    """Read a whole file, unpacked if its name ends in `.gz`.

    Raises:
        DataError: it is missing, damaged, or larger than `MAX_WHOLE_FILE`.
    """
    return b"".join(_limit_size(path, _byte_blocks(path, None)))


def byte_blocks(path: Path) -> Iterator[bytes]:
    """Yield the bytes of a file in blocks, unpacked if its name ends in `.gz`."""
    return _byte_blocks(path, None)


def repaired_lines(
    path: Path, findings: Findings, max_bytes: int = MAX_LINE_BYTES
) -> Iterator[Line]:
    """Yield the lines of a file as sentences can hold them, and report every repair.

    Raises:
        DataError: the file is missing or damaged, or a line has more than `max_bytes`.
    """
    for block in _blocks(path, findings, max_bytes):
        if block.is_plain:
            yield from block.lines
            continue
        for number, line in enumerate(block.lines, start=block.first):
            yield repair(line, path, number, findings) if isinstance(line, str) else line


def decoded_lines(
    path: Path, findings: Findings, max_bytes: int = MAX_LINE_BYTES
) -> Iterator[Line]:
    """Yield the lines of a file unchanged, but for a byte order mark at its start."""
    for block in _blocks(path, findings, max_bytes):
        yield from block.lines


def read_decoded(path: Path, findings: Findings, max_bytes: int) -> list[Line]:
    """Read all lines of a file as `decoded_lines` yields them; a huge file is refused."""
    blocks = _limit_size(path, _byte_blocks(path, max_bytes))
    return [line for block in _decode_blocks(path, blocks, findings) for line in block.lines]


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


def _blocks(path: Path, findings: Findings, max_bytes: int) -> Iterator[_Block]:
    return _decode_blocks(path, _byte_blocks(path, max_bytes), findings)


def _decode_blocks(path: Path, blocks: Iterable[bytes], findings: Findings) -> Iterator[_Block]:
    """Yield the lines in blocks: what is plain costs nothing per line."""
    first, offset = 1, 0
    for data in blocks:
        if offset == 0 and data.startswith(_UTF_16_MARKS):
            raise DataError(
                f"{path} is UTF-16 by its byte order mark. Convert it to UTF-8: `iconv -f UTF-16 "
                "-t UTF-8`."
            )
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


def _byte_blocks(path: Path, max_line: int | None) -> Iterator[bytes]:
    """Yield a file in blocks that end where lines end; no longer line is ever read whole.

    Without a limit blocks end anywhere.
    """
    if not path.is_file():
        raise DataError(f"{path} does not exist or is not a file. Check the folder and file name.")
    lines = 0
    try:
        with path.open("rb") as raw, _unpack(path, raw) as file:
            while data := file.read(_BLOCK_BYTES):
                if max_line is not None:
                    begun = len(data) - data.rfind(b"\n") - 1
                    data += file.readline(max(max_line + 1 - begun, 0)) if begun else b""
                    _refuse_long_lines(path, data, lines, max_line)
                    lines += data.count(b"\n")
                _refuse_bomb(path, file.tell(), raw.tell())
                yield data
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(
            f"{path} is not a whole gzip file ({error}). Copy or pack it again."
        ) from None
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror or error}).") from None


def _refuse_long_lines(path: Path, data: bytes, before: int, max_line: int) -> None:
    # Most blocks are shorter than the longest line, and all their lines with them.
    if len(data) <= max_line:
        return
    for number, line in enumerate(data.removesuffix(b"\n").split(b"\n"), start=before + 1):
        if len(line) > max_line:
            raise DataError(
                f"{path}:{number}: the line has more than {max_line:,} bytes. Is it text with one "
                "sentence per line? If so, raise `data.max_line_bytes`."
            )


def _unpack(path: Path, raw: io.BufferedReader) -> io.BufferedIOBase:
    return gzip.GzipFile(fileobj=raw, mode="rb") if path.suffix == ".gz" else raw


def _refuse_bomb(path: Path, unpacked: int, packed: int) -> None:
    if unpacked > max(_FREELY_UNPACKED, _MAX_EXPANSION * packed):
        raise DataError(
            f"{path} unpacks to more than {_MAX_EXPANSION} times its size ({unpacked:,} bytes from "
            f"{packed:,}), as no text does. Unpack it yourself if you trust it."
        )


def _limit_size(path: Path, blocks: Iterable[bytes]) -> Iterator[bytes]:
    size = 0
    for block in blocks:
        size += len(block)
        if size > MAX_WHOLE_FILE:
            raise DataError(
                f"{path} has more than {MAX_WHOLE_FILE:,} bytes, but this format is read whole. "
                "Split it into smaller files, or convert it to plain text, TSV or JSON lines."
            )
        yield block
