r"""Lines end at `\n` and nowhere else; what is repaired is reported where it stands."""

import gzip
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iada.data.formats import lines
from iada.data.formats.findings import Findings
from iada.data.formats.lines import (
    BadLine,
    decoded_lines,
    read_bytes,
    read_lines,
    repair,
    repaired_lines,
)
from iada.errors import DataError


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def found(findings: Findings) -> list[tuple[str, str, int | None]]:
    """Kind, severity and line of every finding."""
    return [
        (example.kind, example.severity, example.line)
        for kind in findings.counts
        for example in findings.examples(kind)
    ]


@pytest.mark.parametrize("name", ["a", "a.gz"])
def test_lines_are_the_same_packed_or_not(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name, "eins\n\nzwei\u2028drei\nvier".encode())
    expected = ["eins", "", "zwei\u2028drei", "vier"]
    assert read_lines(path) == expected
    assert list(repaired_lines(path, Findings())) == expected
    assert list(decoded_lines(path, Findings())) == expected


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\n\r\0\ufeff"))),
    st.integers(1, 20),
)
def test_streaming_in_blocks_of_any_size_gives_the_lines_of_the_whole(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], size: int
) -> None:
    path = write(tmp_path_factory.mktemp("lines") / "a", "".join(f"{t}\n" for t in texts).encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "_BLOCK_BYTES", size)
        assert list(repaired_lines(path, Findings())) == texts == read_lines(path)


@pytest.mark.parametrize("content", [b"", b"\n", b"a", b"a\n", b"a\n\n", b"\na"])
def test_a_final_line_feed_ends_the_last_line(tmp_path: Path, content: bytes) -> None:
    path = write(tmp_path / "a", content)
    assert list(decoded_lines(path, Findings())) == read_lines(path)
    assert len(read_lines(path)) == content.count(b"\n") + (content[-1:] not in (b"", b"\n"))


@pytest.mark.parametrize(
    ("line", "repaired", "kind", "severity"),
    [
        ("a\r", "a", "carriage_return", "repair"),
        ("a\rb\r\r", "a b ", "carriage_return", "repair"),
        ("a\0b\0", "ab", "nul", "error"),
        ("a\ufeffb", "a\ufeffb", "byte_order_mark", "warning"),
        *(
            (f"a{symbol}b", f"a{symbol}b", "odd_separator", "warning")
            for symbol in "\v\f\x1c\x1d\x1e\x85\u2028\u2029"
        ),
    ],
)
def test_odd_characters_are_repaired_or_kept_and_always_reported(
    tmp_path: Path, line: str, repaired: str, kind: str, severity: str
) -> None:
    path = write(tmp_path / "a", f"first\nsecond\n{line}\nlast".encode())
    findings = Findings()
    assert list(repaired_lines(path, findings)) == ["first", "second", repaired, "last"]
    assert found(findings) == [(kind, severity, 3)]


def test_several_odd_characters_in_one_line_are_all_reported() -> None:
    findings = Findings()
    text = repair("a\u2028b\u2028c\vd\r", Path("f"), 7, findings)
    assert text == "a\u2028b\u2028c\vd"
    # Once for each character, not for each place.
    assert findings.counts == {"carriage_return": 1, "odd_separator": 2}


def test_a_byte_order_mark_at_the_start_is_removed(tmp_path: Path) -> None:
    path = write(tmp_path / "a", "\ufeffone\n\ufefftwo\n".encode())
    findings = Findings()
    assert list(repaired_lines(path, findings)) == ["one", "\ufefftwo"]
    assert found(findings) == [
        ("byte_order_mark", "repair", 1),
        ("byte_order_mark", "warning", 2),
    ]


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_a_line_that_is_not_utf8_tells_its_byte_in_the_file(tmp_path: Path, mark: bytes) -> None:
    path = write(tmp_path / "a", mark + b"eins\nzwei\nf\xfcnf\nsechs\n")
    one, two, bad, six = decoded_lines(path, Findings())
    assert (one, two, six) == ("eins", "zwei", "sechs")
    assert bad == BadLine(11 + len(mark), "f\ufffdnf")


def test_bytes_are_counted_across_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "_BLOCK_BYTES", 4)
    path = write(tmp_path / "a", b"eins\nzwei\nf\xfcnf\n")
    assert list(decoded_lines(path, Findings()))[2] == BadLine(11, "f\ufffdnf")


def test_lines_are_counted_across_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "_BLOCK_BYTES", 4)
    path = write(tmp_path / "a", b"eins\nzwei\ndrei\r\nvier\r\n")
    findings = Findings()
    list(repaired_lines(path, findings))
    assert [finding.line for finding in findings.examples("carriage_return")] == [3, 4]


def test_characters_are_left_alone_where_lines_are_not_yet_sentences(tmp_path: Path) -> None:
    path = write(tmp_path / "a", b"a\r\nb\0\n")
    findings = Findings()
    assert list(decoded_lines(path, findings)) == ["a\r", "b\0"]
    assert found(findings) == []


def test_a_packed_file_that_was_cut_or_damaged_is_refused(tmp_path: Path) -> None:
    whole = gzip.compress(b"line\n" * 1000, mtime=0)
    path = tmp_path / "a.gz"
    # Cut, no gzip at all, something after the end, an invalid block.
    for content in (whole[:-4], whole[:20], b"line\n", whole + b"rest", whole[:10] + b"\x07"):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"a\.gz is not a whole gzip file .* pack it again"):
            read_bytes(path)


@pytest.mark.parametrize("name", ["absent", "."])
def test_what_is_no_file_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError, match="does not exist or is not a file"):
        list(repaired_lines(tmp_path / name, Findings()))


@pytest.mark.parametrize("block", [4, 1 << 20])
@pytest.mark.parametrize("name", ["a", "a.gz"])
def test_a_line_beyond_the_limit_is_refused_by_its_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, block: int
) -> None:
    monkeypatch.setattr(lines, "_BLOCK_BYTES", block)
    path = write(tmp_path / name, b"eins\nzwei\n123456789\nvier\n")
    assert len(list(decoded_lines(path, Findings(), 9))) == 4
    for limit in (8, 4):
        message = rf"{name}:3: the line has more than {limit} bytes.* `data\.max_line_bytes`"
        with pytest.raises(DataError, match=message):
            list(repaired_lines(path, Findings(), limit))
    with pytest.raises(DataError, match=rf"{name}:1: the line has more than 1 bytes"):
        list(repaired_lines(path, Findings(), 1))


def test_a_file_that_is_read_whole_has_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "MAX_WHOLE_FILE", 10)
    assert read_bytes(write(tmp_path / "a", b"123456789\n")) == b"123456789\n"
    path = write(tmp_path / "b", b"1234\n6789\n1")
    for reading in (read_bytes, lambda path: lines.read_decoded(path, Findings(), 100)):
        with pytest.raises(DataError, match=r"b has more than 10 bytes, but this format is read"):
            reading(path)


LIMITED = """
import resource, sys
from pathlib import Path
from iada.config.data import DataConfig
from iada.data.formats.readers import read_split
from iada.errors import DataError

resource.setrlimit(resource.RLIMIT_AS, (500_000_000, 500_000_000))
name, folder = sys.argv[1:]
try:
    read_split(DataConfig(folder=Path(folder), train=name, boundaries="none"), "train")
except DataError as error:
    print(error)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits of the address space are Linux's")
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("train.{language}", "en:1: the line has more than 4,000,000 bytes"),
        ("train.jsonl", "jsonl:1: the line has more than 4,000,000 bytes"),
        ("train.xml", "xml:1: the line has more than 4,000,000 bytes"),
        ("train.json", "json has more than 200,000,000 bytes"),
        ("train.{language}.gz", "gz unpacks to more than 200 times its size"),
    ],
)
def test_huge_files_are_refused_in_bounded_memory(tmp_path: Path, name: str, expected: str) -> None:
    for language in ("en", "de"):
        path = tmp_path / name.replace("{language}", language)
        if path.suffix == ".gz":
            # 1.5 GB of lines in 1.5 MB.
            packed = gzip.compress((b"a" * 999 + b"\n") * 10_000)
            path.write_bytes(packed * 150)
        else:
            with path.open("wb") as file:
                # A single line of NUL characters that takes no space on the disk.
                file.truncate(201_000_000)
    ran = subprocess.run(
        [sys.executable, "-c", LIMITED, name, str(tmp_path)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert expected in ran.stdout, ran.stderr[-2000:]
