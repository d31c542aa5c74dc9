"""Decoder-only models: windows against a reference by hand, search against plain `generate`."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from transformers import AutoModelForCausalLM

from iada.config.data import DataConfig, WindowConfig
from iada.config.decode import DecodeConfig
from iada.config.model import TemplateConfig
from iada.data.documents import Document, ParallelDocument
from iada.data.formats.readers import read_split
from iada.data.prepared.store import TokenStore
from iada.data.tokens.pretrained_subwords import PretrainedSubwords
from iada.data.windows.batch import Collator, Role
from iada.data.windows.document_windows import DocumentWindows
from iada.data.windows.families import pretrained_frame
from iada.data.windows.windows import Windows, describe_window
from iada.decoding.engines.causal import CausalEngine
from iada.decoding.translator import DocumentTranslator
from iada.errors import ConfigError, DataError, ModelError
from iada.evaluation.cxmi import context_use
from iada.method.importance import importance

FAMILIES = ("llama", "qwen", "gemma")
every_family = pytest.mark.parametrize("family", FAMILIES)
Load = Callable[..., PretrainedSubwords]
Checkpoint = Callable[[str], Path]
Ids = list[int]
OPENING = {"llama": ["<s>"], "qwen": [], "gemma": ["<bos>"]}
END = {"llama": "</s>", "qwen": "<|endoftext|>", "gemma": "<eos>"}

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


def _text(subwords: PretrainedSubwords, text: str) -> Ids:
    """Tokenize text by hand; Llama writes the space before the first word itself."""
    led = text if subwords.tokenizer.__class__.__name__ == "LlamaTokenizer" else f" {text}"
    return list(subwords.tokenizer(led, add_special_tokens=False)["input_ids"])


def _prompt(
    family: str, subwords: PretrainedSubwords, source: Sequence[str], target: Sequence[str]
) -> Ids:
    """Write pairs as lines `[English]: x [German]: y`, the last one open."""
    name = subwords.tokenizer.convert_tokens_to_ids
    ids = [name(token) for token in OPENING[family]]
    asks = "Now translate this English sentence into German:\n"
    before_source, before_target, end, instruction = (
        subwords.tokenizer(text, add_special_tokens=False)["input_ids"]
        for text in ("[English]:", " [German]:", "\n", asks)
    )
    for number, sentence in enumerate(source):
        if number == len(target) > 0:
            ids += instruction
        ids += [*before_source, *_text(subwords, sentence), *before_target]
        if number < len(target):
            ids += [*_text(subwords, target[number]), *end]
    return ids


@every_family
@pytest.mark.parametrize("context", [0, 1, 2])
def test_windows_equal_those_written_by_hand(family: str, context: int, load: Load) -> None:
    subwords = load(family)
    store = TokenStore.build(DOCUMENTS, subwords)
    config = WindowConfig(context=context, max_length=400)
    windows = Windows(store, config, frame=pretrained_frame(subwords))
    end = subwords.tokenizer.convert_tokens_to_ids(END[family])
    number = 0
    for document in DOCUMENTS:
        source, target = document.source.sentences, document.target.sentences
        for current in range(len(document)):
            first = max(0, current - context)
            prompt = _prompt(family, subwords, source[first : current + 1], target[first:current])
            said = _text(subwords, target[current])
            window = windows[0, number]
            assert window.source_ids.tolist() == prompt + said
            assert window.target_ids.tolist() == prompt + said
            expected = [-100] * (len(prompt) - 1) + [*said, end]
            assert window.labels.tolist() == expected
            number += 1
    assert number == len(windows)


@every_family
@pytest.mark.parametrize("loss_on", ["current", "all"])
def test_windows_one_by_one_and_at_once_are_the_same(family: str, loss_on: Any, load: Load) -> None:
    subwords = load(family)
    store = TokenStore.build(DOCUMENTS, subwords)
    config = WindowConfig(context=2, max_length=400, loss_on=loss_on)
    windows = Windows(store, config, frame=pretrained_frame(subwords))
    keys = [(0, number) for number in range(len(windows))]
    collate = Collator(subwords.special.pad)
    batch, one_by_one = collate(windows.__getitems__(keys)), collate([windows[key] for key in keys])
    for name in ("input_ids", "attention_mask", "labels", "source_roles", "target_roles"):
        assert torch.equal(batch[name], one_by_one[name])
    lengths = [[len(windows[key].source_ids)] * 2 for key in keys]
    assert windows.lengths().tolist() == lengths
    assert int((batch["labels"] >= 0).sum()) == windows.loss_tokens()


@every_family
def test_only_sentences_are_text_and_every_translation_ends_alike(family: str, load: Load) -> None:
    subwords = load(family)
    store = TokenStore.build(DOCUMENTS, subwords)
    config = WindowConfig(max_length=400, loss_on="all")
    windows = Windows(store, config, frame=pretrained_frame(subwords))
    window = windows[0, len(windows) - 1]
    for roles, sentences in (
        (window.source_roles, DOCUMENTS[-1].source.sentences),
        (window.target_roles, DOCUMENTS[-1].target.sentences),
    ):
        *context, current = (_text(subwords, text) for text in sentences)
        assert window.source_ids[roles == Role.CURRENT].tolist() == current
        before = [piece for sentence in context for piece in sentence]
        assert window.source_ids[roles == Role.CONTEXT].tolist() == before
    ended = [
        [*_text(subwords, text), subwords.special.eos] for text in DOCUMENTS[-1].target.sentences
    ]
    assert window.labels[window.labels >= 0].tolist() == [i for one in ended for i in one]
    assert "window of sentence" in describe_window(window, subwords)


def test_a_template_of_ones_own_frames_the_sentences(load: Load) -> None:
    subwords = load("qwen")
    template = TemplateConfig(
        opening="Into {target_language}.\n",
        source="<|im_start|>user",
        target="<|im_end|>",
        end="",
        instruction="",
    )
    frame = pretrained_frame(subwords, template)
    store = TokenStore.build(DOCUMENTS, subwords)
    windows = Windows(store, WindowConfig(context=1, max_length=400), frame=frame)
    name = subwords.tokenizer.convert_tokens_to_ids
    plain = subwords.tokenizer("Into German.\n")["input_ids"]
    user = [name("<|im_start|>"), *subwords.tokenizer("user")["input_ids"]]
    expected = [*plain]
    for source, target in zip(
        DOCUMENTS[1].source.sentences, DOCUMENTS[1].target.sentences, strict=True
    ):
        said = _text(subwords, target)
        expected += [*user, *_text(subwords, source), name("<|im_end|>"), *said]
    assert windows[0, 2].source_ids.tolist() == expected


def test_an_encoder_decoder_has_no_template(load: Load) -> None:
    with pytest.raises(ConfigError, match=r"is an encoder-decoder\. Remove the key"):
        pretrained_frame(load("bart"), TemplateConfig(opening="Translate."))


@every_family
@pytest.mark.parametrize("beam", [1, 3])
def test_translation_is_that_of_generate(
    family: str, beam: int, load: Load, checkpoint: Checkpoint, mini_corpus: Path
) -> None:
    decode = DecodeConfig(beam=beam, max_length_ratio=0.0, max_length_offset=8)
    translator = DocumentTranslator.from_pretrained(
        checkpoint(family), source_language="en", target_language="de", decode=decode
    )
    assert translator.engine.name == "causal"
    documents = [d.source for d in read_split(DataConfig(folder=mini_corpus), "train")]
    sentences = [text for d in documents for text in d.sentences][: 100 if beam == 1 else 20]
    subwords = load(family)
    special = subwords.special
    ends = [special.eos, *subwords.line_breaks]
    model = AutoModelForCausalLM.from_pretrained(checkpoint(family)).eval()
    expected = []
    for text in sentences:
        prompt = torch.tensor([_prompt(family, subwords, [text], [])])
        generated = model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            do_sample=False,
            num_beams=beam,
            max_new_tokens=9,
            eos_token_id=ends,
            pad_token_id=special.pad,
            suppress_tokens=[i for i in special.all if i != special.eos],
            logits_processor=[_EndAfter(prompt.shape[1] + 8, special.eos)],
        )[0, prompt.shape[1] :].tolist()
        said = next(generated[: place + 1] for place, i in enumerate(generated) if i in ends)
        expected.append(subwords.decode(said).partition("\n")[0].rstrip())
    found = translator.translate([Document(str(n), (text,)) for n, text in enumerate(sentences)])
    assert [d.sentences[0].rstrip() for d in found] == [_one_line(text) for text in expected]
    assert len({*expected}) > 5


class _EndAfter:
    """Allow the end alone from a length on."""

    def __init__(self, length: int, end: int) -> None:
        self.length, self.end = length, end

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        if input_ids.shape[1] < self.length:
            return scores
        only = torch.full_like(scores, -torch.inf)
        only[:, self.end] = scores[:, self.end]
        return only


def _one_line(text: str) -> str:
    return text.replace("\r", " ").replace("\0", " ").rstrip()


@every_family
def test_beams_share_one_reading_of_the_prompt(
    family: str, checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    decode = DecodeConfig(beam=4, max_length_ratio=0.0, max_length_offset=6)
    translator = DocumentTranslator.from_pretrained(
        checkpoint(family),
        source_language="en",
        target_language="de",
        context=2,
        decode=decode,
    )
    engine = translator.engine
    assert isinstance(engine, CausalEngine)
    read: list[int] = []
    lookup = translator.model.get_input_embeddings()
    lookup.register_forward_hook(lambda _, inputs, __: read.append(inputs[0].numel()))
    documents = [document.source for document in DOCUMENTS]
    shared, once = translator.translate(documents), sum(read)
    read.clear()
    monkeypatch.setattr(engine, "reads_once", False)
    assert translator.translate(documents) == shared
    # Prompts are much longer than translations, and four beams read them four times.
    assert sum(read) > 2.5 * once


@every_family
def test_context_is_the_models_own_translations(family: str, checkpoint: Checkpoint) -> None:
    decode = DecodeConfig(beam=1, max_length_ratio=0.0, max_length_offset=5)
    translator = DocumentTranslator.from_pretrained(
        checkpoint(family), source_language="en", target_language="de", context=2, decode=decode
    )
    prompts: list[tuple[int, ...]] = []
    engine = translator.engine
    search = engine.search

    def recording(requests: Any) -> Any:
        prompts.extend(request.prefix for request in requests)
        assert all(request.source == () for request in requests)
        return search(requests)

    engine.search = recording  # type: ignore[method-assign]
    sentences = DOCUMENTS[2].source.sentences
    said = translator.translate(list(sentences))
    subwords = translator.subwords
    assert isinstance(subwords, PretrainedSubwords)
    assert list(prompts[-1]) == _prompt(family, subwords, sentences, said[:2])


@every_family
def test_gnorm_is_the_gradient_at_embeddings_given_from_outside(
    family: str, load: Load, checkpoint: Checkpoint
) -> None:
    subwords = load(family)
    store = TokenStore.build(DOCUMENTS, subwords)
    windows = Windows(store, WindowConfig(max_length=400), frame=pretrained_frame(subwords))
    keys = [(0, number) for number in range(len(windows))]
    batch = Collator(subwords.special.pad)(windows.__getitems__(keys))
    # Gemma masks with the smallest number of its type and takes the softmax in float32, where that
    # of float64 is minus infinity.
    dtype = torch.float32 if family == "gemma" else torch.float64
    model = AutoModelForCausalLM.from_pretrained(checkpoint(family), dtype=dtype).eval()
    embedded = model.get_input_embeddings()(batch["input_ids"]).detach().requires_grad_()
    logits = model(inputs_embeds=embedded, attention_mask=batch["attention_mask"]).logits
    nll = nn.functional.cross_entropy(logits.transpose(1, 2), batch["labels"], reduction="none")
    per_instance = nll.sum(dim=1) / (batch["labels"] >= 0).sum(dim=1)
    (gradient,) = torch.autograd.grad(per_instance.sum(), [embedded])
    (found,) = importance(model, batch, "gnorm")
    torch.testing.assert_close(found, gradient.norm(dim=-1), rtol=1e-3, atol=1e-5)
    assert bool((found > 0).any())


@every_family
def test_scores_are_those_of_the_model_itself(
    family: str, load: Load, checkpoint: Checkpoint
) -> None:
    translator = DocumentTranslator.from_pretrained(
        checkpoint(family), source_language="en", target_language="de", context=2
    )
    scores = translator.score(DOCUMENTS)
    subwords = load(family)
    model = AutoModelForCausalLM.from_pretrained(checkpoint(family)).eval()
    for document, score in zip(DOCUMENTS, scores, strict=True):
        *before, last = document.target.sentences
        prompt = _prompt(family, subwords, document.source.sentences, before)
        said = [*_text(subwords, last), subwords.special.eos]
        with torch.no_grad():
            logits = model(torch.tensor([prompt + said])).logits[0, len(prompt) - 1 : -1]
        expected = logits.log_softmax(dim=-1).gather(1, torch.tensor(said)[:, None]).sum()
        assert score == pytest.approx(expected.item(), rel=1e-4)
    use = context_use(translator, DOCUMENTS)
    assert [sentence.context for sentence in use] == [0, 0, 1, 0, 1, 2]
    assert use[0].cxmi == pytest.approx(0.0, abs=1e-4)
    assert abs(use[-1].cxmi) > 1e-3


def test_replacement_draws_pieces_of_the_corpus_alone(checkpoint: Checkpoint) -> None:
    windows = DocumentWindows(DOCUMENTS, checkpoint("qwen"), ("en", "de"), max_length=400)
    drawn = {*range(len(windows.subwords))} - {*windows.subwords.reserved_ids}
    store = windows.store
    seen = {*store.source.ids.tolist(), *store.target.ids.tolist()}
    assert drawn == seen - {windows.subwords.special.eos}
    assert len(drawn) < 0.5 * len(windows.subwords)


def test_text_that_a_model_without_unknown_tokens_cannot_hold_is_refused(
    load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    subwords = load("qwen")
    # With its special tokens spelled out, as tokenizers do on request, all text can be held.
    (ids,) = subwords.encode(["a <|endoftext|> b"])
    assert subwords.decode(ids) == "a <|endoftext|> b"
    monkeypatch.setattr(
        type(subwords.tokenizer), "__call__", lambda *_, **__: {"input_ids": [[5, 450]]}
    )
    with pytest.raises(DataError, match="has no token for unknown text"):
        subwords.encode(["a"])


def test_a_piece_with_a_line_break_ends_a_translation(checkpoint: Checkpoint) -> None:
    decode = DecodeConfig(beam=2, max_length_ratio=0.0, max_length_offset=6)
    translator = DocumentTranslator.from_pretrained(
        checkpoint("gemma"), source_language="en", target_language="de", decode=decode
    )
    (newline,) = translator.subwords.encode_markup("\n")
    translator.model.lm_head.weight.data[newline] = 0.0
    engine = translator.engine
    assert isinstance(engine, CausalEngine)
    assert newline in engine.ends
    with torch.no_grad():
        # Nothing but a line break is ever likely.
        translator.model.lm_head.weight.mul_(1e-4)
        states = torch.ones(1, translator.model.config.hidden_size)
        translator.model.lm_head.weight[newline] = states[0]
    translator.model.lm_head.register_forward_pre_hook(lambda _, inputs: (inputs[0].abs(),))
    assert translator.translate(["The lamp is new."]) == [""]


def test_a_decoder_only_model_is_searched_by_its_own_engine(checkpoint: Checkpoint) -> None:
    decode = DecodeConfig(beam=1, engine="huggingface")
    with pytest.raises(
        ModelError, match="takes an encoder-decoder, but this is a LlamaForCausalLM"
    ):
        DocumentTranslator.from_pretrained(
            checkpoint("llama"), source_language="en", target_language="de", decode=decode
        )
    with pytest.raises(ModelError, match="takes a decoder-only model, but this is a Bart"):
        DocumentTranslator.from_pretrained(
            checkpoint("bart"),
            source_language="en",
            target_language="de",
            decode=replace(decode, engine="causal"),
        )
