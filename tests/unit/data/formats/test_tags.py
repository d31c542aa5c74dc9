"""Training files of IWSLT: metadata separates talks and is never a sentence."""

from collections.abc import Callable
from typing import Any

import pytest

from iada.errors import DataError

Read = Callable[..., Any]

ENGLISH = """<url>http://www.ted.com/talks/1</url>
<keywords>talks, art</keywords>
<speaker>Ann</speaker>
<talkid>11</talkid>
<title>Ann: Art</title>
<description>About art.</description>
 Thank you so much.
It is <b>true</b> & good.
<reviewer></reviewer>
<translator href="x">Bob</translator>
<url>http://www.ted.com/talks/2</url>
<talkid>12</talkid>
Hello.
"""
GERMAN = ENGLISH.replace("Thank you so much", "Vielen Dank").replace("Hello", "Hallo")
PATTERN = "train.tags.en-de.{language}"


def files(source: str | bytes, target: str | bytes) -> dict[str, str | bytes]:
    return {"train.tags.en-de.en": source, "train.tags.en-de.de": target}


def test_talks_begin_after_their_metadata(read: Read) -> None:
    outcome = read(PATTERN, files(ENGLISH, GERMAN))
    assert outcome.documents == [
        [
            ("Thank you so much.", "Vielen Dank."),
            ("It is <b>true</b> & good.", "It is <b>true</b> & good."),
        ],
        [("Hello.", "Hallo.")],
    ]
    assert outcome.names == ["train.tags.en-de.en:11", "train.tags.en-de.en:12"]
    assert outcome.log == []
    assert outcome.units == [(13, 3, 0, 10)] * 2


def test_talks_without_ids_are_numbered(read: Read) -> None:
    text = "<title>T</title>\na\n<TITLE>U</TITLE>\nb\n"
    assert read(PATTERN, files(text, text)).names == [f"train.tags.en-de.en:{n}" for n in (1, 2)]


def test_an_id_belongs_to_one_talk(read: Read) -> None:
    text = "<talkid>7</talkid>\na\n<url>x</url>\nb\n"
    assert read(PATTERN, files(text, text)).names == [f"train.tags.en-de.en:{n}" for n in (7, 2)]


def test_a_talk_of_uneven_sides_is_left_out(read: Read) -> None:
    outcome = read(PATTERN, files(ENGLISH, GERMAN.replace("Hallo.\n", "Hallo.\nDu.\n")))
    assert [len(document) for document in outcome.documents] == [2]
    assert outcome.places == [("count_mismatch", "train.tags.en-de.en", 13, 3)]


def test_bad_bytes_in_metadata_leave_the_talk_alone(read: Read) -> None:
    target = GERMAN.encode().replace(b"About art", b"\xfcber Kunst")
    outcome = read(PATTERN, files(ENGLISH, target))
    assert len(outcome.documents) == 2
    assert outcome.places == [("bad_utf8", "train.tags.en-de.de", 6, 0)]


def test_bad_bytes_in_a_sentence_take_the_talk_along(read: Read) -> None:
    outcome = read(PATTERN, files(ENGLISH, GERMAN.encode().replace(b"Hallo", b"H\xfcllo")))
    assert len(outcome.documents) == 1
    assert outcome.places == [("bad_utf8", "train.tags.en-de.de", 13, 2)]


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        (
            ENGLISH,
            GERMAN.replace(">12<", ">13<"),
            r"en:13: document 2 is 12, but at .*de:13 it is 13",
        ),
        (ENGLISH, GERMAN[: GERMAN.index("<url>", 9)], r"has 2 documents but .* has 1"),
        (ENGLISH, "<url>x</url>\n", r"en-de\.de holds no sentence"),
        ("a\nb\n", "A\nB\n", r"has no metadata line.*`data\.format: text`"),
    ],
)
def test_talks_that_differ_are_refused(read: Read, source: str, target: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(PATTERN, files(source, target))
