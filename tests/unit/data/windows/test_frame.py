"""Frames: the forms of windows by hand, a batch at once, lengths, and what follows a sentence."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iada.config.data import WindowConfig
from iada.data.prepared.store import TokenStore
from iada.data.tokens.subwords import SpecialIds
from iada.data.windows.batch import IGNORED, Collator, Role, without_context
from iada.data.windows.conditions import ContextNoise
from iada.data.windows.frame import Frame
from iada.data.windows.prompt import Prompt
from iada.data.windows.windows import Windows

BOS, EOS, SEP = 1, 2, 4
ENGLISH, GERMAN, PAD = 200, 201, 0
S, X, Y = Role.SPECIAL, Role.CONTEXT, Role.CURRENT
StoreOf = Callable[..., TokenStore]
Pair = tuple[Sequence[int], Sequence[int]]

DOCUMENT: list[Pair] = [([10], [20]), ([11, 12], [21]), ([13], [22, 23]), ([14, 15], [24])]

EACH = Frame(source_end=(EOS,), target_begin=(BOS,), target_end=EOS, separator=SEP, ends="each")
NLLB = Frame(
    source_begin=(ENGLISH,),
    source_end=(EOS,),
    target_begin=(EOS, GERMAN),
    target_end=EOS,
    separator=EOS,
)
MBART = Frame(
    source_end=(EOS, ENGLISH), target_begin=(GERMAN,), target_end=EOS, separator=EOS, ends="each"
)
OPUS = Frame(source_end=(EOS,), target_begin=(PAD,), target_end=EOS, separator=EOS)
# The `</s>` of OPUS models is the first entry of their vocabulary.
FIRST_ENDS = Frame(source_end=(0,), target_begin=(BOS,), target_end=0, separator=SEP)
SOURCE_ONLY = Frame(
    source_end=(EOS,),
    target_begin=(BOS,),
    target_end=EOS,
    separator=SEP,
    target_context=False,
    after=1,
)
NLLB_EACH = Frame(
    source_begin=(ENGLISH,),
    source_end=(EOS,),
    target_begin=(EOS, GERMAN),
    target_end=EOS,
    separator=EOS,
    ends="each",
    after=2,
)
PAIRS = Prompt.of_pieces([BOS, 10], [91, 92], [93], [94], [95, 96], end=EOS)
SCRATCH = Prompt.of_pieces([], [BOS], [SEP], [], end=EOS)
OF_TWO_SIDES = [EACH, NLLB, MBART, OPUS, FIRST_ENDS, SOURCE_ONLY, NLLB_EACH]
FRAMES = [*OF_TWO_SIDES, PAIRS, SCRATCH]


def test_doc2doc_is_the_stock_frame(store_of: StoreOf, special: SpecialIds) -> None:
    config = WindowConfig(context=2)
    plain = Windows(store_of(DOCUMENT), config)
    framed = Windows(store_of(DOCUMENT), config, frame=Frame.stock(special))
    keys = [(0, number) for number in range(len(plain))]
    one, other = (Collator(0)(windows.__getitems__(keys)) for windows in (plain, framed))
    assert one["input_ids"][2].tolist() == [10, SEP, 11, 12, SEP, 13, EOS, 0]
    assert "first_sentence" not in one
    for name in ("input_ids", "attention_mask", "decoder_input_ids", "labels", "source_roles"):
        assert one[name].tolist() == other[name].tolist()  # type: ignore[literal-required]


def test_where_each_sentence_ends_every_one_is_a_sentence_level_example(store_of: StoreOf) -> None:
    window = Windows(store_of(DOCUMENT), WindowConfig(context=2, loss_on="all"), frame=EACH)[0, 2]
    assert window.source_ids.tolist() == [10, EOS, 11, 12, EOS, 13, EOS]
    assert window.source_roles.tolist() == [X, S, X, X, S, Y, S]
    assert window.target_ids.tolist() == [BOS, 20, BOS, 21, BOS, 22, 23]
    assert window.target_roles.tolist() == [S, X, S, X, S, Y, Y]
    assert window.labels.tolist() == [20, EOS, 21, EOS, 22, 23, EOS]


def test_the_label_of_a_given_opening_token_is_outside_the_loss(store_of: StoreOf) -> None:
    everything = WindowConfig(context=1, loss_on="all")
    window = Windows(store_of(DOCUMENT), everything, frame=NLLB)[0, 1]
    assert window.source_ids.tolist() == [ENGLISH, 10, EOS, 11, 12, EOS]
    assert window.source_roles.tolist() == [S, X, S, Y, Y, S]
    assert window.target_ids.tolist() == [EOS, GERMAN, 20, EOS, 21]
    assert window.labels.tolist() == [IGNORED, 20, EOS, 21, EOS]
    current = Windows(store_of(DOCUMENT), WindowConfig(context=1), frame=NLLB)[0, 1]
    assert current.labels.tolist() == [IGNORED, IGNORED, IGNORED, 21, EOS]
    each = Windows(store_of(DOCUMENT), everything, frame=NLLB_EACH)[0, 1]
    assert each.target_ids.tolist() == [EOS, GERMAN, 20, EOS, GERMAN, 21]
    assert each.labels.tolist() == [IGNORED, 20, EOS, IGNORED, 21, EOS]


def test_the_frames_of_mbart_and_opus(store_of: StoreOf) -> None:
    store, config = store_of(DOCUMENT), WindowConfig(context=1)
    window = Windows(store, config, frame=MBART)[0, 1]
    assert window.source_ids.tolist() == [10, EOS, ENGLISH, 11, 12, EOS, ENGLISH]
    assert window.target_ids.tolist() == [GERMAN, 20, GERMAN, 21]
    assert window.labels.tolist() == [IGNORED, IGNORED, 21, EOS]
    window = Windows(store, config, frame=OPUS)[0, 1]
    assert window.source_ids.tolist() == [10, EOS, 11, 12, EOS]
    assert window.target_ids.tolist() == [PAD, 20, EOS, 21]


def test_the_prefix_of_a_translation_is_the_decoder_input_before_it() -> None:
    assert EACH.prefix([[20], [21]]) == [BOS, 20, BOS, 21, BOS]
    assert NLLB.prefix([[20]]) == [EOS, GERMAN, 20, EOS]
    assert NLLB.prefix([]) == [EOS, GERMAN]


def test_a_prompt_holds_pairs_in_one_sequence(store_of: StoreOf) -> None:
    windows = Windows(store_of(DOCUMENT), WindowConfig(context=1), frame=PAIRS)
    window = windows[0, 2]
    ids = [BOS, 10, 91, 92, 11, 12, 93, 21, 94, 95, 96, 91, 92, 13, 93, 22, 23]
    assert window.source_ids.tolist() == window.target_ids.tolist() == ids
    # A piece of the template is special where it stands, and text elsewhere: 10 in the first.
    assert window.source_roles.tolist() == [S] * 4 + [X, X] + [S] * 7 + [Y] + [S] * 3
    assert window.target_roles.tolist() == [S] * 7 + [X] + [S] * 7 + [Y, Y]
    assert windows[0, 0].source_roles.tolist() == [S, S, S, S, Y, S, S]
    assert window.labels.tolist() == [IGNORED] * 14 + [22, 23, EOS]
    everything = Windows(store_of(DOCUMENT), WindowConfig(context=1, loss_on="all"), frame=PAIRS)
    # The translation in the context ends where the template goes on in the input.
    ends = [IGNORED] * 6 + [21, EOS] + [IGNORED] * 6 + [22, 23, EOS]
    assert everything[0, 2].labels.tolist() == ends


def test_a_prompt_to_translate_is_the_window_up_to_the_translation(store_of: StoreOf) -> None:
    window = Windows(store_of(DOCUMENT), WindowConfig(context=1), frame=PAIRS)[0, 2]
    source, prompt = PAIRS.request([[11, 12], [13]], [[21]])
    assert source == []
    assert prompt == window.source_ids.tolist()[:-2]
    # Without one side of the context the other stays, pair by pair.
    assert SCRATCH.request([[10], [11]], []) == ([], [BOS, 10, BOS, 11, SEP])
    assert SCRATCH.request([[11]], [[20]]) == ([], [SEP, 20, BOS, 11, SEP])


@pytest.mark.parametrize("frame", [*FRAMES])
def test_sentences_stand_where_a_frame_says(frame: Frame, store_of: StoreOf) -> None:
    windows = Windows(store_of(DOCUMENT), WindowConfig(context=2), frame=replace(frame, after=0))
    window = windows[0, 3]
    source, target = DOCUMENT[1:], DOCUMENT[1:] if frame.target_context else DOCUMENT[3:]
    places = frame.places([len(s) for s, _ in source], [len(t) for _, t in target], 2)
    for found, (begin, stop) in zip([s for s, _ in source], places[0], strict=True):
        assert window.source_ids[begin:stop].tolist() == found
    for found, (begin, stop) in zip([t for _, t in target], places[1], strict=True):
        assert window.target_ids[begin:stop].tolist() == found


def test_source_context_alone_says_where_the_target_begins(store_of: StoreOf) -> None:
    windows = Windows(store_of(DOCUMENT), WindowConfig(context=2), frame=SOURCE_ONLY)
    window = windows[0, 1]
    assert window.source_ids.tolist() == [10, SEP, 11, 12, SEP, 13, EOS]
    assert window.source_roles.tolist() == [X, S, Y, Y, S, X, S]
    assert window.target_ids.tolist() == [BOS, 21]
    assert window.labels.tolist() == [21, EOS]
    batch = Collator(0)(windows.__getitems__([(0, 0), (0, 3)]))
    assert batch["first_sentence"].tolist() == [0, 2]


def test_following_sentences_stay_in_their_document_and_within_the_limit(
    store_of: StoreOf, caplog: pytest.LogCaptureFixture
) -> None:
    store = store_of(DOCUMENT[:2], DOCUMENT)
    config = WindowConfig(context=1, max_length=7)
    with caplog.at_level(logging.WARNING):
        windows = Windows(store, config, frame=SOURCE_ONLY)
    assert windows.spans.end is not None
    # Sentences 1 to 3 of the second document need 2 + 3 + 2 tokens, 2 to 4 need 3 + 2 + 3.
    assert windows.spans.end.tolist() == [2, 2, 4, 5, 5, 6]
    assert caplog.messages == [
        "1 of 6 windows lost following sentences to fit `windows.max_length` (7 tokens)."
    ]


tokens = st.lists(st.integers(6, 99), min_size=0, max_size=5)
full = st.tuples(*[st.lists(st.integers(6, 99), min_size=1, max_size=5)] * 2)
documents = st.lists(
    st.builds(
        lambda first, others: [first, *others],
        full,
        st.lists(st.tuples(tokens, tokens), max_size=6),
    ),
    min_size=2,
    max_size=3,
)


@settings(max_examples=150, deadline=None)
@given(
    documents,
    st.sampled_from(FRAMES),
    st.integers(1, 3),
    st.integers(1, 3),
    st.sampled_from(["current", "all"]),
    st.booleans(),
    st.integers(9, 40),
)
def test_a_framed_batch_at_once_is_the_same_windows_one_by_one(
    store_of: StoreOf,
    content: list[list[Pair]],
    frame: Frame,
    context: int,
    stride: int,
    loss_on: str,
    noisy: bool,
    max_length: int,
) -> None:
    # A prompt holds both sides, and its template.
    max_length += 25 if isinstance(frame, Prompt) else 0
    config = WindowConfig(context=context, stride=stride, loss_on=loss_on, max_length=max_length)  # type: ignore[arg-type]
    noise = ContextNoise(1, 1) if noisy and frame.after == 0 else None
    windows = Windows(store_of(*content), config, frame=frame, noise=noise)
    keys = [(0, number) for number in range(len(windows))]
    one_by_one = [windows[key] for key in keys]
    lengths = [[len(w.source_ids), len(w.target_ids)] for w in one_by_one]
    assert windows.lengths().tolist() == lengths
    assert np.max(lengths) <= max_length
    assert windows.loss_tokens() == sum(int((w.labels >= 0).sum()) for w in one_by_one)
    one, other = Collator(7)(windows.__getitems__(keys)), Collator(7)(one_by_one)
    assert one.keys() == other.keys()
    assert one["loss_width"] == other["loss_width"]
    for name in one.keys() - {"noise_key", "loss_width"}:
        assert one[name].tolist() == other[name].tolist(), name  # type: ignore[literal-required]


@pytest.mark.parametrize("loss_on", ["current", "all"])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("frame", [None, *OF_TWO_SIDES])
def test_a_batch_without_its_context_is_a_batch_of_windows_that_have_none(
    store_of: StoreOf, special: SpecialIds, frame: Frame | None, stride: int, loss_on: str
) -> None:
    store = store_of(DOCUMENT, DOCUMENT[1:3])
    frame = frame or Frame.stock(special)
    config = WindowConfig(context=2, stride=stride, loss_on=loss_on)  # type: ignore[arg-type]
    windows = Windows(store, config, frame=frame)
    alone = Windows(store, replace(config, context=0), frame=replace(frame, after=0))
    numbers = [(0, number) for number in range(len(windows))]
    batch = Collator(PAD)(windows.__getitems__(numbers))
    found, places = without_context(batch)
    for row, (_, number) in enumerate(numbers):
        expected = alone[0, number]
        source, target = len(expected.source_ids), len(expected.target_ids)
        mask = found["attention_mask"][row]
        assert mask.tolist() == [1] * source + [0] * (len(mask) - source)
        assert found["input_ids"][row, :source].tolist() == expected.source_ids.tolist()
        assert found["source_roles"][row, :source].tolist() == expected.source_roles.tolist()
        assert found["decoder_input_ids"][row, :target].tolist() == expected.target_ids.tolist()
        assert found["target_roles"][row, :target].tolist() == expected.target_roles.tolist()
        assert found["labels"][row, :target].tolist() == expected.labels.tolist()
        assert (found["labels"][row, target:] == IGNORED).all()
        for place, role in enumerate(batch["target_roles"][row].tolist()):
            if role == Role.CURRENT:
                moved = int(places[row, place])
                token = batch["decoder_input_ids"][row, place]
                assert found["decoder_input_ids"][row, moved] == token
        if "first_sentence" in batch:
            assert found["first_sentence"][row] == 0
