import math
from typing import Any, get_args, get_type_hints

import pytest
import torch
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast

from iada.config.method import AugmentConfig
from iada.data.tokens.subwords import Subwords
from iada.errors import ModelError
from iada.method.perturbation import (
    REPLACEMENTS,
    Drop,
    Keep,
    Replace,
    Vocabulary,
    Zero,
    make_replacement,
    perturb,
    word_start_table,
)
from iada.seeding import generator

IDS = torch.arange(6, 26).reshape(2, 10)


def test_probability_zero_is_the_identity_and_one_changes_everything() -> None:
    ids, selected = perturb(IDS, torch.zeros(2, 10), Drop(5), generator=generator(1))
    assert ids.equal(IDS)
    assert not selected.any()
    ids, selected = perturb(IDS, torch.ones(2, 10), Drop(5), generator=generator(1))
    assert ids.eq(5).all()
    assert selected.all()


def test_only_selected_positions_change_and_the_input_is_left_alone() -> None:
    before = IDS.clone()
    ids, selected = perturb(IDS, torch.full((2, 10), 0.5), Drop(5), generator=generator(3))
    assert IDS.equal(before)
    assert ids[selected].eq(5).all()
    assert ids[~selected].equal(IDS[~selected])
    assert 0 < int(selected.sum()) < 20


def test_zero_keeps_the_tokens_and_selects_those_that_mask_would() -> None:
    p = torch.full((2, 10), 0.5)
    ids, selected = perturb(IDS, p, Zero(), generator=generator(3))
    assert ids.equal(IDS)
    assert selected.equal(perturb(IDS, p, Drop(5), generator=generator(3))[1])


def test_the_same_generator_gives_the_same_noise() -> None:
    p, replace = torch.full((2, 10), 0.5), Replace(50, {0, 1})
    first = perturb(IDS, p, replace, generator=generator(1, "perturb", 2))
    again = perturb(IDS, p, replace, generator=generator(1, "perturb", 2))
    other = perturb(IDS, p, replace, generator=generator(1, "perturb", 3))
    assert first[0].equal(again[0])
    assert not first[0].equal(other[0])


def test_the_empirical_rate_is_within_four_standard_deviations() -> None:
    count, p = 200_000, 0.1
    ids = torch.zeros(1, count, dtype=torch.int64)
    _, selected = perturb(ids, torch.full((1, count), p), Drop(5), generator=generator(7))
    assert abs(selected.double().mean().item() - p) < 4 * math.sqrt(p * (1 - p) / count)


def test_replacements_are_uniform_over_ordinary_ids_and_never_special() -> None:
    vocabulary, special, count = 60, {0, 1, 2, 17, 59}, 1_000_000
    drawn = Replace(vocabulary, special)(
        torch.zeros(count, dtype=torch.int64), generator=generator(11)
    )
    histogram = torch.bincount(drawn, minlength=vocabulary).double()
    assert histogram[sorted(special)].eq(0).all()
    ordinary = torch.tensor([i for i in range(vocabulary) if i not in special])
    expected = count / len(ordinary)
    chi_squared = ((histogram[ordinary] - expected).square() / expected).sum().item()
    # 54 degrees of freedom: mean 54, standard deviation sqrt(108); 4 of them.
    assert chi_squared < 54 + 4 * math.sqrt(108)
    assert drawn.dtype == torch.int64


def test_a_vocabulary_of_specials_alone_is_refused() -> None:
    with pytest.raises(ValueError, match="no ordinary token"):
        Replace(3, {0, 1, 2})


def test_every_replacement_that_can_be_configured_is_in_the_table() -> None:
    hints = get_type_hints(AugmentConfig)
    kinds = {*get_args(hints["replacement"])} - {"drop"} | {*get_args(hints["drop"])}
    assert REPLACEMENTS.keys() == kinds


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"replacement": "drop"}, Drop(5)),
        ({"replacement": "drop", "drop": "zero"}, Zero()),
        ({"p_context": 0.0, "p_current": 0.0}, Keep()),
    ],
)
def test_the_configuration_chooses_the_replacement(
    settings: dict[str, Any], expected: object, subwords: Subwords
) -> None:
    vocabulary = Vocabulary.of_tokenizer(subwords)
    assert make_replacement(AugmentConfig(**settings), vocabulary) == expected


def test_our_own_encoding_draws_all_but_specials_and_bytes(subwords: Subwords) -> None:
    replacement = make_replacement(AugmentConfig(), Vocabulary.of_tokenizer(subwords))
    assert isinstance(replacement, Replace)
    assert replacement.candidates.tolist() == list(range(6 + 256, len(subwords)))


def test_a_further_replacement_is_a_class_and_a_line_in_the_table(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Shift:
        def __call__(self, ids: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
            return ids + 1

    monkeypatch.setitem(REPLACEMENTS, "shift", lambda vocabulary: Shift())
    config = AugmentConfig(replacement="shift")  # type: ignore[arg-type]
    replacement = make_replacement(config, Vocabulary(owner="test", size=50))
    ids, _ = perturb(IDS, torch.ones(2, 10), replacement, generator=generator(1))
    assert ids.equal(IDS + 1)


@pytest.fixture
def foreign_tokenizer() -> PreTrainedTokenizerFast:
    """Ids 0 to 9; 2 is a byte piece, 6 to 8 are added tokens, and no token has the id 5."""
    pieces = {"<pad>": 0, "<unk>": 1, "<0x41>": 2, "a": 3, "b": 4, "c": 9}
    pieces |= {"</s>": 6, "<extra_id_0>": 7, "deu_Latn": 8}
    tokenizer = Tokenizer(models.WordLevel(pieces, unk_token="<unk>"))
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        unk_token="<unk>",
        eos_token="</s>",
        extra_special_tokens=["<extra_id_0>", "deu_Latn"],
    )


def test_a_foreign_tokenizer_draws_no_sentinels_language_codes_or_unknowns(
    foreign_tokenizer: PreTrainedTokenizerFast,
) -> None:
    vocabulary = Vocabulary.of_tokenizer(foreign_tokenizer)
    replacement = make_replacement(AugmentConfig(), vocabulary)
    assert isinstance(replacement, Replace)
    assert replacement.candidates.tolist() == [3, 4, 9]
    # Rows of the embedding matrix end where the model says.
    limited = make_replacement(AugmentConfig(), vocabulary.limited_to(9))
    assert isinstance(limited, Replace)
    assert limited.candidates.tolist() == [3, 4]
    with pytest.raises(ModelError, match="names no mask token"):
        make_replacement(AugmentConfig(replacement="drop"), vocabulary)


def test_our_saved_encoding_read_by_transformers_draws_the_same(
    subwords: Subwords, tmp_path: Any
) -> None:
    subwords.save(tmp_path)
    loaded = Vocabulary.of_tokenizer(PreTrainedTokenizerFast.from_pretrained(tmp_path))
    own = Vocabulary.of_tokenizer(subwords)
    assert (loaded.size, loaded.reserved_ids, loaded.mask_id) == (
        own.size,
        own.reserved_ids,
        own.mask_id,
    )


def test_the_first_piece_decides_for_its_word() -> None:
    heads = torch.arange(10).div(3, rounding_mode="floor").mul(3).expand(2, 10)
    p = torch.full((2, 10), 0.5)
    _, alone = perturb(IDS, p, Drop(5), generator=generator(3))
    ids, selected = perturb(IDS, p, Drop(5), generator=generator(3), heads=heads)
    assert selected.equal(alone.gather(1, heads))
    assert ids[selected].eq(5).all()
    # Positions 0 to 2, 3 to 5 and so on share their fate; not all words do.
    assert selected[:, :9].reshape(2, 3, 3).float().var(dim=2).eq(0).all()
    assert 0 < int(selected.sum()) < 20


def test_words_begin_with_a_space_or_with_punctuation(subwords: Subwords) -> None:
    table = word_start_table(AugmentConfig(unit="word"), Vocabulary.of_tokenizer(subwords))
    assert table is not None
    assert len(table) == len(subwords)
    (ids,) = subwords.encode(["the cat's mat."])
    pieces = subwords.pieces(ids)
    words: list[str] = []
    for piece, begins in zip(pieces, table[ids].tolist(), strict=True):
        words.append(piece) if begins else words.append(words.pop() + piece)
    # The apostrophe is spelled in bytes, which continue a word: the corpus had none.
    assert words == ["▁the", "▁cat<0x27>s", "▁mat", "."]
    assert word_start_table(AugmentConfig(), Vocabulary.of_tokenizer(subwords)) is None


def test_words_need_a_tokenizer() -> None:
    vocabulary = Vocabulary(owner="ThisModel", size=10)
    with pytest.raises(
        ModelError, match=r"`augment\.unit: word` needs .* which ThisModel does not"
    ):
        word_start_table(AugmentConfig(unit="word"), vocabulary)
