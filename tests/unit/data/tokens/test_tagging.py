"""Tags before source sentences: special tokens there, text everywhere else."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

from iada.config.data import DataConfig, SubwordConfig, WindowConfig
from iada.data.documents import Document, ParallelDocument
from iada.data.prepared.encoding import Workers, pretokenized
from iada.data.prepared.prepare import Preparation, prepare
from iada.data.prepared.prepared_corpus import PreparedCorpus
from iada.data.prepared.store import TokenStore
from iada.data.tokens.pretokenize import Moses, split_tag
from iada.data.tokens.subwords import Subwords, train_subwords
from iada.data.tokens.words import WordEncoder
from iada.data.windows.batch import Role
from iada.data.windows.windows import Windows
from iada.errors import ConfigError
from iada.method.perturbation import Replace

SENTENCES = ["the cat sat on the mat .", "der Hund sah die Katze .", "she saw it , again !"] * 3


@pytest.fixture(scope="module")
def tagged() -> Subwords:
    return train_subwords(SENTENCES, vocabulary_size=332, tags=("<bt>", "<ft>"))


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("<bt> the cat", ("<bt>", "the cat")),
        ("<bt>", (None, "<bt>")),
        ("<bt> ", (None, "<bt> ")),
        ("<bt>the cat", (None, "<bt>the cat")),
        (" <bt> the cat", (None, " <bt> the cat")),
        ("the <bt> cat", (None, "the <bt> cat")),
        ("<bt>  cat", ("<bt>", " cat")),
        ("<bt> <bt> cat", ("<bt>", "<bt> cat")),
        ("<ft> cat", (None, "<ft> cat")),
        ("", (None, "")),
    ],
)
def test_only_a_tag_with_a_space_after_it_is_one(
    sentence: str, expected: tuple[str | None, str]
) -> None:
    assert split_tag(sentence, ("<bt>",)) == expected


def test_tags_are_special_tokens_after_the_others(tagged: Subwords, subwords: Subwords) -> None:
    assert tagged.tags == {"<bt>": 6, "<ft>": 7}
    assert tagged.special.all == (0, 1, 2, 3, 4, 5, 6, 7)
    assert tagged.pieces([6, 7, 8, 263]) == ["<bt>", "<ft>", "<0x00>", "<0xFF>"]
    # The text is learned as without tags, and the size counts them.
    assert len(tagged) == len(subwords) + 2
    assert tagged.pieces(range(264, 332)) == subwords.pieces(range(262, 330))
    assert subwords.tags == {}


def test_a_tag_begins_a_source_sentence_and_nothing_else(tagged: Subwords) -> None:
    plain, *rest = tagged.encode(["the cat", "<bt> the cat", "<ft> the cat"], "source")
    assert rest == [[6, *plain], [7, *plain]]
    for side in ("target", None):
        (ids,) = tagged.encode(["<bt> the cat"], side)
        assert not set(ids) & set(tagged.special.all)
        assert tagged.decode(ids) == "<bt> the cat"
    assert tagged.encode([], "source") == []


def test_special_tokens_vanish_in_decoding(tagged: Subwords) -> None:
    assert tagged.decode(tagged.encode(["<bt> the cat"], "source")[0]) == "the cat"


TEXT = st.text(st.characters(exclude_characters="▁\n", exclude_categories=["Cs"]), max_size=12)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["", "<bt> ", "<ft> ", "<bt>", " <bt> "]), TEXT)))
def test_word_by_word_gives_the_same_tokens(tagged: Subwords, parts: list[tuple[str, str]]) -> None:
    sentences = [before + text for before, text in parts]
    for side in ("source", "target"):
        expected = [i for ids in tagged.encode(sentences, side) for i in (*ids, 4)]
        assert WordEncoder(tagged).encode(sentences, side).tolist() == expected


def test_a_saved_encoding_keeps_its_tags(tagged: Subwords, tmp_path: Path) -> None:
    tagged.save(tmp_path)
    again = Subwords.load(tmp_path)
    assert again.tags == tagged.tags
    assert again.special == tagged.special
    (ids,) = tagged.encode(["<bt> the cat"], "source")
    assert AutoTokenizer.from_pretrained(tmp_path)("<bt> the cat")["input_ids"] == [*ids, 2]


def test_moses_does_not_see_the_tag() -> None:
    moses = Moses("en", "de")
    subwords = train_subwords(SENTENCES, vocabulary_size=331, moses=moses, tags=("<bt>",))
    plain, marked = subwords.encode(["the cat.", "<bt> the cat."], "source")
    assert marked == [6, *plain]


@pytest.mark.parametrize("moses", [None, Moses("en", "de")])
def test_tags_are_no_text_to_learn_from(moses: Moses | None) -> None:
    document = ParallelDocument(
        Document("d", ("<bt> the cat", "a cat")), Document("d", ("<bt> die Katze", "Katze"))
    )
    texts = list(pretokenized([document], moses, Workers(1), tags=("<bt>",)))
    assert texts[:2] == ["the cat", "a cat"]
    # On the target side it is text.
    assert "bt" in texts[2]
    assert next(pretokenized([document], None, Workers(1))) == "<bt> the cat"


def test_a_tag_is_never_perturbed_and_never_drawn(tagged: Subwords) -> None:
    document = ParallelDocument(
        Document("d", ("<bt> the cat sat", "<bt> she saw it")), Document("d", ("der Hund", "Katze"))
    )
    windows = Windows(TokenStore.build([document], tagged), WindowConfig(context=1))
    for window in (windows[0, 1], windows.__getitems__([(0, 1)])):
        roles = window.source_roles[window.source_ids == 6]
        assert roles.tolist() == [Role.SPECIAL, Role.SPECIAL]
        others = ~np.isin(window.source_ids, tagged.special.all)
        assert (window.source_roles[others] != Role.SPECIAL).all()
    candidates = Replace(len(tagged), tagged.reserved_ids).candidates
    assert not torch.isin(candidates, torch.tensor(tagged.special.all)).any()


@pytest.mark.parametrize(
    "tags", [("bt",), ("<b t>",), ("<>",), ("<0x41>",), ("<bt>", "<bt>"), ("",), ("<bt>\n",)]
)
def test_a_name_that_no_vocabulary_can_hold_is_refused(tags: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError, match=r"`subwords\.tags` must be names in angle brackets"):
        SubwordConfig(tags=tags)


def test_the_name_of_another_special_token_is_refused() -> None:
    with pytest.raises(ConfigError, match="names <sep>, which every vocabulary has"):
        train_subwords(SENTENCES, vocabulary_size=330, tags=("<sep>",))


def test_a_prepared_corpus_knows_its_tags(mini_corpus: Path, tmp_path: Path) -> None:
    data = DataConfig(folder=mini_corpus)
    settings = SubwordConfig(vocabulary_size=450, tags=("<bt>",))
    prepared = prepare(Preparation(data, settings, tmp_path / "prepared", workers=1))
    assert prepared.subwords().tags == {"<bt>": 6}
    prepared.check_settings(data, settings)
    with pytest.raises(Exception, match=r"subwords\.tags is \['<bt>'\] in the prepared corpus"):
        prepared.check_settings(data, SubwordConfig(vocabulary_size=450))


def test_a_folder_from_before_there_were_tags_has_none(mini_corpus: Path, tmp_path: Path) -> None:
    data, settings = DataConfig(folder=mini_corpus), SubwordConfig(vocabulary_size=450)
    prepared = prepare(Preparation(data, settings, tmp_path / "prepared", workers=1))
    old = {k: v for k, v in prepared.manifest["settings"].items() if k != "subwords.tags"}
    before = PreparedCorpus(prepared.path, dict(prepared.manifest) | {"settings": old})
    before.check_settings(data, settings)
    with pytest.raises(Exception, match=r"subwords\.tags is \[\] in the prepared corpus"):
        before.check_settings(data, SubwordConfig(vocabulary_size=450, tags=("<bt>",)))
