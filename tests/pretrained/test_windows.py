"""What pre-trained models read: windows as written by hand, sentences as the family writes them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import AutoModelForSeq2SeqLM, M2M100ForConditionalGeneration
from transformers.models.m2m_100.modeling_m2m_100 import shift_tokens_right

from iada.config.data import DataConfig, WindowConfig
from iada.config.decode import DecodeConfig
from iada.data.documents import Document, ParallelDocument
from iada.data.formats.readers import read_split
from iada.data.prepared.store import TokenStore
from iada.data.tokens.pretrained_subwords import PretrainedSubwords
from iada.data.windows.batch import Collator, Role
from iada.data.windows.families import pretrained_frame
from iada.data.windows.windows import Windows
from iada.decoding.translator import DocumentTranslator
from iada.errors import ConfigError, DataError, ModelError
from iada.method.importance import importance

FAMILIES = ("marian", "mbart", "mbart50", "m2m100", "nllb", "t5", "bart")
every_family = pytest.mark.parametrize("family", FAMILIES)
Load = Callable[..., PretrainedSubwords]
Checkpoint = Callable[[str], Path]
Pieces = list[str]
PROMPT = "translate English to German: "

DOCUMENTS = [
    ParallelDocument(Document("a", ("The lamp is new.",)), Document("a", ("Die Lampe ist neu.",))),
    ParallelDocument(
        Document("b", ("Good morning, Maria!", "I am writing to you from the garden.")),
        Document("b", ("Guten Morgen, Maria!", "Ich schreibe dir aus dem Garten.")),
    ),
    ParallelDocument(
        Document("c", ("The dog sleeps.", "It is old.", "We see it.")),
        Document("c", ("Der Hund schläft.", "Er ist alt.", "Wir sehen ihn.")),
    ),
]


def _between(sentences: list[Pieces], begin: Pieces, middle: Pieces, end: Pieces) -> Pieces:
    """Write sentences with something before, between and after them."""
    written = [*begin]
    for number, sentence in enumerate(sentences):
        written += [*(middle if number else []), *sentence]
    return written + end


def _write(family: str, source: list[Pieces], target: list[Pieces]) -> tuple[Pieces, Pieces]:
    """Write source and decoder input of a window of a family, by hand."""
    end = "</s>"
    forms: dict[str, tuple[Pieces, Pieces, Pieces, Pieces, Pieces]] = {
        # source: begin, between, end; decoder input: begin, between
        "marian": ([], [end], [end], ["<pad>"], ["<pad>"]),
        "mbart": ([], [end], [end, "en_XX"], ["de_DE"], [end]),
        "mbart50": (["en_XX"], [end], [end], [end, "de_DE"], [end]),
        "m2m100": (["__en__"], [end, "__en__"], [end], [end, "__de__"], [end, "__de__"]),
        "nllb": (["eng_Latn"], [end, "eng_Latn"], [end], [end, "deu_Latn"], [end, "deu_Latn"]),
        "t5": ([], [end], [end], ["<pad>"], [end]),
        "bart": (["<s>"], [end], [end], [end, "<s>"], [end]),
    }
    begin, between, closing, opening, separator = forms[family]
    return _between(source, begin, between, closing), _between(target, opening, separator, [])


def _tokenize(subwords: PretrainedSubwords, text: str) -> Pieces:
    return list(subwords.tokenizer.tokenize(text))


@every_family
@pytest.mark.parametrize("context", [0, 1, 2])
def test_windows_equal_those_written_by_hand(family: str, context: int, load: Load) -> None:
    subwords = load(family)
    frame = pretrained_frame(subwords)
    store = TokenStore.build(DOCUMENTS, subwords)
    windows = Windows(store, WindowConfig(context=context, max_length=120), frame=frame)
    prompt = _tokenize(subwords, PROMPT) if family == "t5" else []
    name = subwords.tokenizer.convert_ids_to_tokens
    number = 0
    for document in DOCUMENTS:
        sides = [
            [_tokenize(subwords, text) for text in side.sentences]
            for side in (document.source, document.target)
        ]
        for current in range(len(document)):
            first = max(0, current - context)
            source, target = (side[first : current + 1] for side in sides)
            expected_source, expected_target = _write(family, source, target)
            window = windows[0, number]
            assert name(window.source_ids.tolist()) == prompt + expected_source
            assert name(window.target_ids.tolist()) == expected_target
            labels = [label for label in window.labels.tolist() if label >= 0]
            assert name(labels) == [*target[-1], "</s>"]
            number += 1
    assert number == len(windows)


@every_family
def test_windows_one_by_one_and_at_once_are_the_same(family: str, load: Load) -> None:
    subwords = load(family)
    store = TokenStore.build(DOCUMENTS, subwords)
    config = WindowConfig(context=2, max_length=120)
    windows = Windows(store, config, frame=pretrained_frame(subwords))
    keys = [(0, number) for number in range(len(windows))]
    collate = Collator(subwords.special.pad)
    batch, one_by_one = collate(windows.__getitems__(keys)), collate([windows[key] for key in keys])
    for name in ("input_ids", "decoder_input_ids", "labels", "source_roles", "target_roles"):
        assert torch.equal(batch[name], one_by_one[name])
    lengths = [[len(w.source_ids), len(w.target_ids)] for w in windows_of(windows)]
    assert windows.lengths().tolist() == lengths


def windows_of(windows: Windows) -> list[Any]:
    return [windows[0, number] for number in range(len(windows))]


@every_family
def test_a_sentence_without_context_is_what_the_family_reads(
    family: str, load: Load, checkpoint: Checkpoint
) -> None:
    subwords = load(family)
    tokenizer, frame = subwords.tokenizer, pretrained_frame(subwords)
    model = AutoModelForSeq2SeqLM.from_pretrained(checkpoint(family))
    store = TokenStore.build(DOCUMENTS, subwords)
    windows = Windows(store, WindowConfig(context=0, max_length=120), frame=frame)
    pairs = [
        pair
        for document in DOCUMENTS
        for pair in zip(document.source.sentences, document.target.sentences, strict=True)
    ]
    for window, (source, target) in zip(windows_of(windows), pairs, strict=True):
        text = PROMPT + source if family == "t5" else source
        encoded = tokenizer(text, text_target=target, return_tensors="pt")
        assert window.source_ids.tolist() == encoded["input_ids"][0].tolist()
        labels = encoded["labels"]
        decoder_input = _shift(model, labels)[0].tolist()
        length = len(window.target_ids)
        assert window.target_ids.tolist() == decoder_input[:length]
        # mBART also predicts its language code after the end; nothing else is left out.
        assert length == len(decoder_input) - (family == "mbart")
        counted = window.labels >= 0
        assert window.labels[counted].tolist() == labels[0, :length][counted].tolist()


def _shift(model: Any, labels: Tensor) -> Tensor:
    """Make decoder inputs from labels with the model's own function."""
    if isinstance(model, M2M100ForConditionalGeneration):
        # The only one that has no method for it.
        return shift_tokens_right(labels, model.config.pad_token_id, 2)
    shifted: Tensor = model.prepare_decoder_input_ids_from_labels(labels)
    return shifted


@every_family
def test_what_frames_a_window_is_special_and_all_else_is_text(family: str, load: Load) -> None:
    subwords = load(family)
    store = TokenStore.build(DOCUMENTS, subwords)
    windows = Windows(store, WindowConfig(max_length=120), frame=pretrained_frame(subwords))
    window = windows[0, len(windows) - 1]
    for ids, roles, sentences in (
        (window.source_ids, window.source_roles, DOCUMENTS[-1].source.sentences),
        (window.target_ids, window.target_roles, DOCUMENTS[-1].target.sentences),
    ):
        *context, current = (_tokenize(subwords, text) for text in sentences)
        name = subwords.tokenizer.convert_ids_to_tokens
        assert name(ids[roles == Role.CURRENT].tolist()) == current
        before = [piece for sentence in context for piece in sentence]
        assert name(ids[roles == Role.CONTEXT].tolist()) == before


def test_only_the_prompt_itself_is_special(load: Load) -> None:
    subwords = load("t5")
    text = Document("d", ("translate English to German:",))
    store = TokenStore.build([ParallelDocument(text, text)], subwords)
    windows = Windows(store, WindowConfig(max_length=120), frame=pretrained_frame(subwords))
    rows = windows.__getitems__([(0, 0)])
    half = (len(rows.source_ids) - 1) // 2
    assert rows.source_ids[:half].tolist() == rows.source_ids[half:-1].tolist()
    assert rows.source_roles.tolist() == [Role.SPECIAL] * half + [Role.CURRENT] * half + [0]


@every_family
def test_greedy_translation_is_that_of_generate(
    family: str, load: Load, checkpoint: Checkpoint, mini_corpus: Path
) -> None:
    decode = DecodeConfig(beam=1, max_length_ratio=0.0, max_length_offset=8)
    translator = DocumentTranslator.from_pretrained(
        checkpoint(family), source_language="en", target_language="de", decode=decode
    )
    documents = [d.source for d in read_split(DataConfig(folder=mini_corpus), "train")]
    sentences = [text for d in documents for text in d.sentences][:100]
    assert len(sentences) == 100
    subwords = load(family)
    tokenizer, special = subwords.tokenizer, subwords.special
    prompt = PROMPT if family == "t5" else ""
    _, opening = _write(family, [], [[]])
    begin = tokenizer.convert_tokens_to_ids(opening)
    model = AutoModelForSeq2SeqLM.from_pretrained(checkpoint(family)).eval()
    generated = model.generate(
        **tokenizer([prompt + text for text in sentences], padding=True, return_tensors="pt"),
        decoder_input_ids=torch.tensor([begin] * len(sentences)),
        decoder_start_token_id=begin[0],
        do_sample=False,
        num_beams=1,
        max_new_tokens=8,
        forced_eos_token_id=None,
        bad_words_ids=[[i] for i in special.all if i != special.eos],
    )
    expected = []
    for row in generated[:, len(begin) :].tolist():
        said = row[: row.index(special.eos)] if special.eos in row else row
        # Random models of bytes say line breaks, which no sentence may hold.
        expected.append(subwords.decode(said).replace("\r", " ").replace("\n", " "))
    found = translator.translate([Document(str(n), (text,)) for n, text in enumerate(sentences)])
    assert [document.sentences[0] for document in found] == expected
    assert len({*expected}) > 5


@every_family
def test_gnorm_is_the_gradient_at_embeddings_given_from_outside(
    family: str, load: Load, checkpoint: Checkpoint
) -> None:
    subwords = load(family)
    store = TokenStore.build(DOCUMENTS, subwords)
    windows = Windows(store, WindowConfig(max_length=120), frame=pretrained_frame(subwords))
    keys = [(0, number) for number in range(len(windows))]
    batch = Collator(subwords.special.pad)(windows.__getitems__(keys))
    model = AutoModelForSeq2SeqLM.from_pretrained(checkpoint(family)).double().eval()
    lookup = model.get_input_embeddings()

    def embedded(ids: Tensor) -> Tensor:
        return lookup(ids).detach().requires_grad_()

    source, target = embedded(batch["input_ids"]), embedded(batch["decoder_input_ids"])
    logits = model(
        inputs_embeds=source,
        attention_mask=batch["attention_mask"],
        decoder_inputs_embeds=target,
        use_cache=False,
    ).logits
    nll = nn.functional.cross_entropy(logits.transpose(1, 2), batch["labels"], reduction="none")
    # The mean of each instance, so that long ones do not look more important.
    per_instance = nll.sum(dim=1) / (batch["labels"] >= 0).sum(dim=1)
    gradients = torch.autograd.grad(per_instance.sum(), [source, target])
    for found, gradient in zip(importance(model, batch, "gnorm"), gradients, strict=True):
        # T5 normalises in float32 whatever the type of its weights.
        torch.testing.assert_close(found, gradient.norm(dim=-1), rtol=1e-5, atol=1e-7)
        assert bool((found > 0).any())


def test_windows_longer_than_the_model_reads_are_refused(checkpoint: Checkpoint) -> None:
    with pytest.raises(ConfigError, match="reads and writes at most 256 tokens") as error:
        DocumentTranslator.from_pretrained(
            checkpoint("bart"), source_language="en", target_language="de", max_length=300
        )
    assert "Set `windows.max_length` to 256 or less" in str(error.value)


def test_a_sentence_too_long_for_the_model_is_refused_with_what_frames_it(
    checkpoint: Checkpoint,
) -> None:
    translator = DocumentTranslator.from_pretrained(
        checkpoint("t5"), source_language="en", target_language="de", max_length=30
    )
    needed = len(translator.frame.source(translator.subwords.encode(["The dog sleeps."])))
    assert needed > 30
    with pytest.raises(DataError, match=f"sentence 1 needs {needed} tokens"):
        translator.translate(["The dog sleeps."])


def test_whole_windows_cannot_be_translated_where_the_end_is_the_separator(
    checkpoint: Checkpoint,
) -> None:
    translator = DocumentTranslator.from_pretrained(
        checkpoint("mbart"),
        source_language="en",
        target_language="de",
        context=1,
        decode=DecodeConfig(beam=1, unit="window"),
    )
    with pytest.raises(ModelError, match="translates sentence by sentence"):
        translator.translate(["A lamp.", "It is new."])


@pytest.mark.parametrize("family", ["marian", "nllb", "mbart"])
def test_documents_are_translated_with_context(family: str, checkpoint: Checkpoint) -> None:
    translator = DocumentTranslator.from_pretrained(
        checkpoint(family),
        source_language="en",
        target_language="de",
        context=2,
        decode=DecodeConfig(beam=2, max_length_ratio=0.0, max_length_offset=5),
    )
    named = Document("a", ("The dog sleeps.", "", "It is old."))
    (first,) = translator.translate([named])
    assert first.name == "a"
    assert len(first) == 3
    assert first.sentences[1] == ""
    assert translator.translate(list(named.sentences)) == list(first.sentences)
