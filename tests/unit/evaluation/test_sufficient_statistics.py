"""Sums of counts give the scores that sacreBLEU gives for the texts themselves."""

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from iada.config.evaluate import EvaluateConfig
from iada.errors import ConfigError
from iada.evaluation.significance import (
    Measurement,
    mean_scores,
    measure_bleu,
    measure_chrf,
    measure_mean,
    tokenizer_for,
)

DEFAULT = EvaluateConfig()
# Few words, so that n-grams match, and empty sentences.
texts = st.lists(st.sampled_from(["a", "b", "Cc", "dd.", ","]), max_size=9).map(" ".join)
pairs = st.lists(st.tuples(texts, texts), min_size=1, max_size=6)


def unzip(found: list[tuple[str, str]]) -> tuple[list[str], list[str]]:
    return [first for first, _ in found], [second for _, second in found]


@settings(max_examples=150, deadline=None)
@given(pairs)
def test_sums_give_the_scores_of_sacrebleu(found: list[tuple[str, str]]) -> None:
    hypotheses, references = unzip(found)
    bleu = measure_bleu([hypotheses], references, DEFAULT).score(0)
    assert bleu == pytest.approx(BLEU().corpus_score(hypotheses, [references]).score, abs=1e-9)
    chrf = measure_chrf([hypotheses], references, DEFAULT).score(0)
    assert chrf == pytest.approx(CHRF().corpus_score(hypotheses, [references]).score, abs=1e-9)


@settings(max_examples=50, deadline=None)
@given(pairs, st.randoms(use_true_random=False))
def test_the_order_of_units_does_not_matter(found: list[tuple[str, str]], random: object) -> None:
    hypotheses, references = unzip(found)
    shuffled = list(found)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    others, their_references = unzip(shuffled)
    for measure in (measure_bleu, measure_chrf):
        one = measure([hypotheses], references, DEFAULT).score(0)
        other = measure([others], their_references, DEFAULT).score(0)
        assert one == other


@settings(max_examples=50, deadline=None)
@given(pairs)
def test_a_corpus_taken_twice_keeps_its_score(found: list[tuple[str, str]]) -> None:
    hypotheses, references = unzip(found)
    once = measure_chrf([hypotheses], references, DEFAULT).score(0)
    twice = measure_chrf([hypotheses * 2], references * 2, DEFAULT).score(0)
    assert twice == pytest.approx(once, abs=1e-9)


@settings(max_examples=50, deadline=None)
@given(pairs, st.data())
def test_a_mask_scores_those_units_alone(found: list[tuple[str, str]], data: st.DataObject) -> None:
    hypotheses, references = unzip(found)
    count = len(found)
    mask = data.draw(st.lists(st.booleans(), min_size=count, max_size=count).filter(any))
    whole = measure_bleu([hypotheses], references, DEFAULT)
    chosen = [pair for pair, inside in zip(found, mask, strict=True) if inside]
    part = measure_bleu([unzip(chosen)[0]], unzip(chosen)[1], DEFAULT)
    assert whole.score(0, np.array(mask)) == part.score(0)


def test_every_system_has_its_own_counts() -> None:
    references = ["a b c d e f", "g h i j k"]
    found = measure_bleu([references, ["a b c d x f", "g h i j k"]], references, DEFAULT)
    assert found.score(0) == pytest.approx(100)
    assert 50 < found.score(1) < 100


def test_means_are_taken_over_all_values_of_all_units() -> None:
    found = measure_mean([[[0.5], [0.1, 0.3]]], "s")
    assert found.score(0) == pytest.approx(100 * 0.9 / 3)
    assert found.signature == "s"
    assert mean_scores(np.zeros((1, 2))).tolist() == [0.0]


@pytest.mark.parametrize(
    ("language", "config", "expected"),
    [
        (None, DEFAULT, "13a"),
        ("de", DEFAULT, "13a"),
        ("zh", DEFAULT, "zh"),
        ("zh_CN", DEFAULT, "zh"),
        ("ZH-Hant", DEFAULT, "zh"),
        ("ja", DEFAULT, "ja-mecab"),
        ("ko", DEFAULT, "ko-mecab"),
        ("zh", EvaluateConfig(tokenizer="char"), "char"),
        ("zh", EvaluateConfig(tokenized=True), "none"),
    ],
)
def test_the_tokeniser_follows_the_language_unless_told(
    language: str | None, config: EvaluateConfig, expected: str
) -> None:
    assert tokenizer_for(language, config) == expected


def test_chinese_is_scored_by_characters() -> None:
    found = measure_bleu([["我喜欢你们的狗"]], ["我喜欢你们的猫"], DEFAULT, language="zh")
    assert "tok:zh" in found.signature
    assert 60 < found.score(0) < 100


@pytest.mark.parametrize("language", ["ja", "ko"])
def test_a_missing_tokeniser_is_named(monkeypatch: pytest.MonkeyPatch, language: str) -> None:
    module = f"sacrebleu.tokenizers.tokenizer_{language}_mecab"
    __import__(module)
    # As if it were not installed, wherever the tests run.
    for name in ("MeCab", "mecab_ko"):
        monkeypatch.setattr(sys.modules[module], name, None, raising=False)
    message = rf"{language}-mecab is not installed.*pip install 'sacrebleu\[{language}\]'"
    with pytest.raises(ConfigError, match=message):
        measure_bleu([["x"]], ["x"], DEFAULT, language=language)


def test_case_and_tokens_can_be_those_of_older_papers() -> None:
    def score(config: EvaluateConfig) -> Measurement:
        return measure_bleu([["The cat, it sat down."]], ["the cat , it sat down ."], config)

    cased = score(DEFAULT)
    lower = score(EvaluateConfig(lowercase=True))
    tokenized = score(EvaluateConfig(lowercase=True, tokenized=True))
    assert lower.score(0) == pytest.approx(100)
    assert cased.score(0) < 100
    assert tokenized.score(0) < cased.score(0)
    assert "case:lc" in lower.signature
    assert "case:lc|eff:no|tok:none" in tokenized.signature


def test_tokenised_text_is_no_reason_to_warn(caplog: pytest.LogCaptureFixture) -> None:
    lines = ["a b c d ."] * 101
    measure_bleu([lines], lines, EvaluateConfig(tokenized=True))
    assert not caplog.records
    measure_bleu([lines], lines, DEFAULT)
    assert "tokenized period" in caplog.text


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tokenized": True, "tokenizer": "13a"}, r"evaluate\.tokenizer"),
        ({"resamples": 0}, r"evaluate\.resamples"),
        ({"seed": 0}, r"evaluate\.seed"),
        ({"comet_python": "python"}, r"evaluate\.comet_python.*together"),
        ({"comet_model": "model"}, r"evaluate\.comet_python.*together"),
        ({"comet_timeout": 0.0}, r"evaluate\.comet_timeout"),
        ({"comet_batch_size": 0}, r"evaluate\.comet_batch_size"),
        ({"slide_window": -1}, r"evaluate\.slide_window"),
        ({"slide_window": 3}, r"evaluate\.slide_window.*without"),
        ({"slide_stride": 2}, r"evaluate\.slide_stride"),
    ],
)
def test_settings_that_contradict_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        EvaluateConfig(**settings)  # type: ignore[arg-type]
