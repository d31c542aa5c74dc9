"""PO catalogues: read as documents, and filled without losing anything."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polib
import pytest

from iada.data.formats.file_format import CorpusFiles
from iada.data.formats.readers import file_pieces
from iada.errors import DataError

Read = Callable[..., Any]
HEADER = (
    'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=UTF-8\\n"\n"Language: de\\n"\n'
    '"Plural-Forms: nplurals=2; plural=(n != 1);\\n"\n'
)
CATALOGUE = f"""# Translators: keep me.
{HEADER}
#. A heading.
#: a.page:3
msgctxt "title"
msgid "Files"
msgstr "Dateien"

#: a.page:7
msgid "Open a file.\\nClose it."
msgstr "Öffnen Sie eine Datei.\\nSchließen Sie sie."

#: b.page:2
#, fuzzy
msgid "Save"
msgstr "Sichere"

#: b.page:4
msgid "%d file"
msgid_plural "%d files"
msgstr[0] "%d Datei"
msgstr[1] "%d Dateien"

#~ msgid "old"
#~ msgstr "alt"
"""


def test_messages_of_one_file_are_a_document(read: Read) -> None:
    outcome = read("t.po", {"t.po": CATALOGUE})
    assert outcome.documents == [
        [
            ("Files", "Dateien"),
            ("Open a file.", "Öffnen Sie eine Datei."),
            ("Close it.", "Schließen Sie sie."),
        ],
        [("Save", ""), ("%d file", "%d Datei"), ("%d files", "%d Dateien")],
    ]
    assert outcome.names == ["t.po:a.page", "t.po:b.page"]
    # A fuzzy message counts as not translated.
    assert [found["kind"] for found in outcome.log] == ["empty_one_side"]


def test_a_catalogue_without_references_is_one_document(read: Read) -> None:
    content = HEADER + '\nmsgid "a"\nmsgstr "A"\n\nmsgid "b"\nmsgstr "B"\n'
    assert read("t.po", {"t.po": content}).documents == [[("a", "A"), ("b", "B")]]


def test_another_number_of_lines_counts_as_missing(read: Read) -> None:
    content = HEADER + '\nmsgid "a\\nb"\nmsgstr "A"\n\nmsgid "c"\nmsgstr "C"\n'
    outcome = read("t.po", {"t.po": content})
    assert outcome.documents == [[("a", ""), ("b", ""), ("c", "C")]]
    assert "segment_mismatch" in [found["kind"] for found in outcome.log]


def translate(path: Path, content: str) -> str:
    path.write_text(content, encoding="utf-8")
    lines: list[str] = []
    for piece in file_pieces("po", CorpusFiles(path))():
        sentences = [] if piece.document is None else piece.document.sentences
        lines += piece.render([f"<{sentence}>" for sentence in sentences])
    return "".join(f"{line}\n" for line in lines)


def test_a_catalogue_is_filled_and_keeps_everything_else(tmp_path: Path) -> None:
    output = translate(tmp_path / "t.po", CATALOGUE)
    (tmp_path / "out.po").write_text(output, encoding="utf-8")
    before, after = polib.pofile(str(tmp_path / "t.po")), polib.pofile(str(tmp_path / "out.po"))
    assert (after.header, after.metadata) == (before.header, before.metadata)
    kept = ("msgid", "msgid_plural", "msgctxt", "comment", "occurrences", "flags", "obsolete")
    for old, new in zip(before, after, strict=True):
        assert [getattr(old, name) for name in kept] == [getattr(new, name) for name in kept]
    assert [entry.msgstr for entry in after] == [
        "<Files>",
        "<Open a file.>\n<Close it.>",
        "<Save>",
        "",
        "alt",
    ]
    assert after[3].msgstr_plural == {0: "<%d file>", 1: "<%d files>"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "has no `msgid`"),
        ("/etc/hostname", "has no `msgid`"),
        ('msgid "a"\nmsgstr "A"\nnonsense\n', r"t\.po is not a PO file \(.*line 3"),
        (b'msgid "\xff"\nmsgstr "a"\n', "byte 7 is not valid UTF-8"),
        (HEADER, "holds no sentence"),
    ],
)
def test_what_is_no_catalogue_is_refused(read: Read, content: str | bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read("t.po", {"t.po": content})


def test_a_missing_library_is_named(read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "polib", None)
    with pytest.raises(DataError, match=r"pip install 'iada\[formats\]'"):
        read("t.po", {"t.po": CATALOGUE})


def test_messages_that_are_translated_stand_unless_told_otherwise(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "t.po"
    path.write_text(CATALOGUE, encoding="utf-8")
    first, second, whole = file_pieces("po", CorpusFiles(path, keeps_targets=True))()
    assert first.kept == ("Dateien", "Öffnen Sie eine Datei.", "Schließen Sie sie.")
    assert second.kept == (None, "%d Datei", "%d Dateien")
    first.render(["x"] * 3)
    second.render(["x"] * 3)
    catalogue = polib.pofile("\n".join(whole.render([])))
    texts = ["Dateien", "Öffnen Sie eine Datei.\nSchließen Sie sie.", "x"]
    assert [entry.msgstr for entry in catalogue][:3] == texts
    assert catalogue[3].msgstr_plural == {0: "%d Datei", 1: "%d Dateien"}
    # The fuzzy one is replaced.
    assert "(kept_target, 3)" in caplog.text
    assert "(replaced_target, 1)" in caplog.text
