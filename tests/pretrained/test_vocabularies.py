"""Tokenizers of pre-trained models: text, special tokens, languages, what replacement draws."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from iada.data.tokens.languages import find_language_code
from iada.data.tokens.pretrained_subwords import PretrainedSubwords, load_subwords
from iada.errors import ConfigError, ModelError

FAMILIES = ("marian", "mbart", "mbart50", "m2m100", "nllb", "t5", "bart", "llama", "qwen", "gemma")
every_family = pytest.mark.parametrize("family", FAMILIES)
Load = Callable[..., PretrainedSubwords]


@every_family
def test_text_comes_back_as_it_was(family: str, load: Load) -> None:
    subwords = load(family)
    for side, text in (("source", "The lamp is new."), ("target", "Die Lampe ist neu.")):
        (ids,) = subwords.encode([text], side)
        assert subwords.decode(ids) == text
        assert not {*ids} & {*subwords.special.all}
    assert subwords.encode(["", "a"], "source")[0] == []


@every_family
def test_text_that_spells_a_special_token_never_becomes_one(family: str, load: Load) -> None:
    subwords = load(family)
    spelled = " ".join(subwords.tokenizer.all_special_tokens[:3])
    (ids,) = subwords.encode([f"a {spelled} b"], "target")
    assert not {*ids} & ({*subwords.special.all} - {subwords.special.unk})


@every_family
def test_a_saved_tokenizer_is_the_same_one(family: str, load: Load, tmp_path: Path) -> None:
    subwords = load(family)
    subwords.save(tmp_path)
    again = load_subwords(tmp_path)
    assert isinstance(again, PretrainedSubwords)
    assert again.settings == subwords.settings
    assert again.special == subwords.special
    assert again.fingerprint() == subwords.fingerprint()
    text = ["The lamp is new.", "Where is it?"]
    assert again.encode(text, "source") == subwords.encode(text, "source")


def test_another_language_gives_another_fingerprint(load: Load) -> None:
    assert load("nllb").fingerprint() != load("nllb", target_language="fr").fingerprint()


@every_family
def test_replacement_draws_text_alone(family: str, load: Load) -> None:
    subwords = load(family)
    drawn = {*range(len(subwords))} - {*subwords.reserved_ids}
    (ids,) = subwords.encode(["The lamp is new."], "source")
    assert {*ids} <= drawn
    pieces = subwords.tokenizer.convert_ids_to_tokens(sorted(drawn))
    assert all(piece in subwords.tokenizer.get_vocab() for piece in pieces)
    marks = ("__", "_XX", "_Latn", "<extra_id", "<0x", "<s>", "</s>", "<pad>", "<mask>", "madeup")
    assert not [piece for piece in pieces if any(mark in piece for mark in marks)]


@pytest.mark.parametrize(("family", "unused"), [("m2m100", 8), ("t5", 62)])
def test_rows_without_a_piece_are_never_drawn(family: str, unused: int, load: Load) -> None:
    subwords = load(family)
    known = {*subwords.tokenizer.get_vocab().values(), *subwords.codes.values()}
    assert len(subwords) - len(known) == unused
    assert ({*range(len(subwords))} - known) <= {*subwords.reserved_ids}


@pytest.mark.parametrize(
    ("family", "source", "target"),
    [
        ("mbart", "en_XX", "de_DE"),
        ("mbart50", "en_XX", "de_DE"),
        ("m2m100", "en", "de"),
        ("nllb", "eng_Latn", "deu_Latn"),
        ("marian", None, None),
        ("marian_multilingual", None, "deu"),
        ("t5", None, None),
        ("bart", None, None),
        ("llama", "English", "German"),
    ],
)
def test_languages_are_found_in_the_vocabulary(
    family: str, source: str | None, target: str | None, load: Load
) -> None:
    settings = load(family).settings
    assert (settings.source_code, settings.target_code) == (source, target)


@pytest.mark.parametrize(
    ("language", "code"),
    [("fa", "pes_Arab"), ("ru", "rus_Cyrl"), ("eng_Latn", "eng_Latn"), ("deu", "deu_Latn")],
)
def test_a_language_may_be_given_in_several_ways(language: str, code: str, load: Load) -> None:
    assert load("nllb", source_language=language, target_language="fr").settings.source_code == code


def test_an_unknown_language_gets_a_list_of_the_known_ones(load: Load) -> None:
    with pytest.raises(ConfigError) as error:
        load("mbart", target_language="xx")
    message = str(error.value)
    assert "`data.target_language` is `xx`" in message
    assert "Set `model.target_code` to one of" in message
    assert "cs_CZ, de_DE, en_XX" in message


def test_a_language_in_two_scripts_must_be_told_apart(load: Load) -> None:
    with pytest.raises(ConfigError, match="several codes for it: zho_Hans, zho_Hant"):
        load("nllb", target_language="zh")
    chosen = load("nllb", target_language="zh", target_code="zho_Hant")
    assert chosen.settings.target_code == "zho_Hant"


def test_codes_match_by_language_and_never_by_chance() -> None:
    known = {"cmn_Hans", "de", "deu_Latn"}
    told = {"key": "k", "model": "m", "instead": "i"}
    assert find_language_code("de", known, **told) == "de"
    assert find_language_code("zh", known, **told) == "cmn_Hans"
    with pytest.raises(ConfigError, match="no language code"):
        find_language_code("d", known, **told)


def test_bytes_and_spaces_are_spelled_as_in_our_own_encoding(load: Load) -> None:
    subwords = load("bart")
    (ids,) = subwords.encode(["a lamp ☃"], "source")
    pieces = subwords.pieces(ids)
    assert "".join(pieces[:-3]).replace("▁", " ").rstrip() == "a lamp"
    assert pieces[-3:] == ["<0xE2>", "<0x98>", "<0x83>"]


def test_a_model_that_writes_nothing_is_refused(tmp_path: Path) -> None:
    described = {"model_type": "bert", "architectures": ["BertForMaskedLM"]}
    (tmp_path / "config.json").write_text(json.dumps(described), encoding="utf-8")
    with pytest.raises(ModelError, match="is a bert model, neither an encoder-decoder"):
        PretrainedSubwords.from_checkpoint(
            str(tmp_path), source_language="en", target_language="de"
        )


def test_a_folder_without_a_checkpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"`model\.pretrained`: .* cannot be loaded"):
        PretrainedSubwords.from_checkpoint(
            str(tmp_path), source_language="en", target_language="de"
        )


def test_a_tokenizer_that_is_larger_than_its_model_is_refused(
    checkpoint: Callable[[str], Path], load: Load, tmp_path: Path
) -> None:
    config = json.loads((checkpoint("bart") / "config.json").read_text(encoding="utf-8"))
    (tmp_path / "config.json").write_text(json.dumps(config | {"vocab_size": 9}), encoding="utf-8")
    AutoTokenizer.from_pretrained(checkpoint("bart")).save_pretrained(tmp_path)
    with pytest.raises(ModelError, match="ids up to 449, but the model only 9 embeddings"):
        PretrainedSubwords.from_checkpoint(
            str(tmp_path), source_language="en", target_language="de"
        )
