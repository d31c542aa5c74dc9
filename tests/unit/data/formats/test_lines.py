r"""Lines end at `\n` and nowhere else; what is repaired is reported where it stands."""

import gzip
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
