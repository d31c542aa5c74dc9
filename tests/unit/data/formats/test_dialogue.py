"""Dialogues: the speaker decides which text belongs to which side."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from iada.errors import DataError

Read = Callable[..., Any]


def turn(speaker: object, source: object, target: object, number: int = 0) -> dict[str, object]:
    return {"utteranceID": number, "speaker": speaker, "source": source, "target": target}


GOOD = [turn("agent", "Hello.", "Hallo."), turn("customer", "Guten Tag.", "Good day.", 1)]


def files(dialogues: object) -> dict[str, str]:
    return {"t.json": json.dumps(dialogues)}


@pytest.mark.parametrize(
    ("languages", "expected"),
    [
        (("en", "de"), [("Hello.", "Hallo."), ("Good day.", "Guten Tag.")]),
        (("de", "en"), [("Hallo.", "Hello."), ("Guten Tag.", "Good day.")]),
    ],
)
def test_the_speaker_decides_the_side(
    read: Read, languages: tuple[str, str], expected: list[tuple[str, str]]
) -> None:
    source, target = languages
    dialogues = files({"one": GOOD, "two": GOOD[:1]})
    outcome = read("t.json", dialogues, source_language=source, target_language=target)
    assert outcome.documents == [expected, expected[:1]]
    assert outcome.names == ["t.json:one", "t.json:two"]
    assert outcome.log == []
    assert outcome.units == [(3, 3, 0, 0)] * 2


def test_a_blind_target_is_an_empty_side(read: Read) -> None:
    outcome = read("t.json", files({"one": [turn("customer", "Guten Tag.", "")]}))
    assert outcome.documents == [[("", "Guten Tag.")]]
    assert outcome.places == [("empty_one_side", "t.json", None, 0)]


@pytest.mark.parametrize(
    ("dialogue", "kind", "dropped", "message"),
    [
        (
            [turn("robot", "a", "A")],
            "missing_field",
            2,
            "utterance 1 of dialogue 'bad' has no speaker",
        ),
        ([turn(["agent"], "a", "A")], "missing_field", 2, "has no speaker"),
        ([{"speaker": "agent", "source": "a"}], "missing_field", 2, "has no field `target`"),
        (
            [GOOD[0], turn("agent", "a\nb", "A")],
            "line_break",
            4,
            "utterance 2 of dialogue 'bad': a",
        ),
        ([turn("agent", 1, "A")], "malformed_record", 2, "utterance 1 of dialogue 'bad': a"),
        ([turn("agent", "\udfff", "A")], "lone_surrogate", 2, "lone surrogate"),
        (["text"], "malformed_record", 2, "utterance 1 of dialogue 'bad' is not a JSON object"),
        ("text", "malformed_record", 0, "dialogue 'bad' is not a list"),
        ([], "empty_document", 0, "dialogue 'bad' is empty"),
    ],
)
def test_a_dialogue_that_cannot_be_used_is_left_out(
    read: Read, dialogue: object, kind: str, dropped: int, message: str
) -> None:
    outcome = read("t.json", files({"good": GOOD, "bad": dialogue, "end": GOOD}))
    assert outcome.names == ["t.json:good", "t.json:end"]
    assert outcome.places == [(kind, "t.json", None, dropped)]
    assert message in outcome.log[0]["message"]


def test_an_id_that_cannot_be_printed_is_reported(read: Read) -> None:
    outcome = read("t.json", {"t.json": '{"\\ud800": ' + json.dumps(GOOD) + "}"})
    assert outcome.places == [("missing_field", "t.json", None, 4)]
    assert r"the dialogue id '\ud800' cannot be used" in outcome.log[0]["message"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", r"t\.json:1: not valid JSON"),
        (b"{\n\n,}", r"t\.json:3: not valid JSON"),
        (b"[]", r"must hold one JSON object"),
        (b"{}", r"must hold one JSON object"),
        (b'{"a": [], "a": []}', r"the same key twice"),
        (b"[" * 100_000, r"nested too deeply"),
        (b'{"a": NaN}', r"NaN is not a JSON number"),
        (b'{"a": ' + b"1" * 5000 + b"}", r"too many digits"),
        (b'{"a":\n"\xff"}', r"t\.json:2: byte 7 is not valid UTF-8"),
    ],
)
def test_a_file_that_is_no_set_of_dialogues_is_refused(
    read: Read, content: bytes, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        read("t.json", {"t.json": content})


def test_dialogues_have_english_on_one_side(read: Read) -> None:
    with pytest.raises(DataError, match="the languages are fr and de"):
        read("t.json", files({"one": GOOD}), source_language="fr")
