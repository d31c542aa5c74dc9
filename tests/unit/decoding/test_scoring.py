"""The probability of a given translation equals what the model says token by token."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from transformers import PreTrainedModel

from iada.config.data import WindowConfig
from iada.config.decode import DecodeConfig
from iada.config.model import ModelConfig
from iada.data.documents import Document, ParallelDocument
from iada.data.prepared.store import TokenStore
from iada.data.tokens.subwords import Subwords
from iada.data.windows.windows import Windows
from iada.decoding.translator import DocumentTranslator, token_log_probabilities
from iada.errors import ModelError
from iada.models.build import build_model
from iada.models.observation import Observer

ModelFactory = Callable[..., PreTrainedModel]


def parallel(source: list[str], target: list[str]) -> ParallelDocument:
    return ParallelDocument(Document("d", tuple(source)), Document("d", tuple(target)))


DOCUMENTS = [
    parallel(["the cat", "it sat ."], ["die Katze", "sie sah ."]),
    parallel(["the cat sat on the mat ."], ["die Katze sah die Katze ."]),
    parallel(["it", "it", "again !"], ["sie", "die", "sah !"]),
]


@pytest.fixture(scope="module")
def model(subwords: Subwords) -> PreTrainedModel:
    torch.manual_seed(0)
    config = ModelConfig(
        dim=16, feed_forward=32, heads=2, encoder_layers=1, decoder_layers=1, dropout=0.5
    )
    # In training mode and with dropout, which scoring must switch off.
    return build_model(config, vocabulary_size=len(subwords), special=subwords.special).double()


@pytest.fixture
def translator(model: PreTrainedModel, subwords: Subwords) -> DocumentTranslator:
    return DocumentTranslator(model, subwords, windows=WindowConfig(), decode=DecodeConfig())


def direct(model: PreTrainedModel, subwords: Subwords, document: ParallelDocument) -> float:
    """Sum the log-probabilities of the last sentence and `</s>`, one token after the other."""
    special = subwords.special
    *context, current = subwords.encode(document.source.sentences)
    source = [i for ids in context for i in (*ids, special.sep)] + [*current, special.eos]
    *context, current = subwords.encode(document.target.sentences)
    said = [special.bos] + [i for ids in context for i in (*ids, special.sep)]
    total = 0.0
    for token in [*current, special.eos]:
        with torch.inference_mode():
            logits = model.eval()(
                input_ids=torch.tensor([source]), decoder_input_ids=torch.tensor([said])
            ).logits
        total += float(logits[0, -1].log_softmax(dim=-1)[token])
        said.append(token)
    return total


def test_a_score_is_the_sum_over_the_current_tokens_and_the_end(
    translator: DocumentTranslator, model: PreTrainedModel, subwords: Subwords
) -> None:
    expected = [direct(model, subwords, document) for document in DOCUMENTS]
    model.train()
    assert translator.score(DOCUMENTS) == pytest.approx(expected, rel=1e-9)


def test_scores_do_not_depend_on_what_shares_the_batch(translator: DocumentTranslator) -> None:
    together = translator.score(DOCUMENTS)
    backwards = translator.score(DOCUMENTS[::-1])
    alone = [translator.score([document])[0] for document in DOCUMENTS]
    translator.decode = replace(translator.decode, max_tokens=1)
    one_by_one = translator.score(DOCUMENTS)
    for scores in (backwards[::-1], alone, one_by_one):
        assert scores == pytest.approx(together, rel=1e-9)


def test_context_matters_to_a_document_model_and_not_to_a_sentence_model(
    translator: DocumentTranslator, model: PreTrainedModel, subwords: Subwords
) -> None:
    changed = [
        parallel(["the mat", "it sat ."], ["die Katze", "sie sah ."]),
        parallel(["the cat", "it sat ."], ["der Hund", "sie sah ."]),
    ]
    original = DOCUMENTS[0]
    document = translator.score([original, *changed])
    assert len(set(document)) == 3
    sentence = DocumentTranslator(
        model, subwords, windows=WindowConfig(context=0), decode=DecodeConfig()
    )
    first, *others = sentence.score([original, *changed, parallel(["it sat ."], ["sie sah ."])])
    assert others == pytest.approx([first] * 3, rel=1e-9)


@pytest.mark.parametrize(
    "windows",
    [
        WindowConfig(loss_on="all"),
        WindowConfig(stride=2),
        WindowConfig(strategy="multires"),
        WindowConfig(noisy_context=2),
    ],
    ids=["loss on all", "stride", "multires", "noise"],
)
def test_only_the_current_sentence_counts_whatever_the_windows_of_training(
    translator: DocumentTranslator, windows: WindowConfig
) -> None:
    expected = translator.score(DOCUMENTS)
    translator.windows = windows
    assert translator.score(DOCUMENTS) == pytest.approx(expected, rel=1e-12)


def test_the_same_window_may_be_asked_for_twice(model: PreTrainedModel, subwords: Subwords) -> None:
    windows = Windows(TokenStore.build(DOCUMENTS, subwords), WindowConfig())
    pad = subwords.special.pad
    observer = Observer(model)
    found = token_log_probabilities(observer, windows, [4, 0, 4], pad_id=pad, max_tokens=100)
    observer.remove()
    scores = [values.sum() for values in found]
    assert scores[0] == pytest.approx(scores[2], rel=1e-12)
    assert scores[0] != pytest.approx(scores[1])


def test_an_empty_last_sentence_has_no_score(translator: DocumentTranslator) -> None:
    with pytest.raises(ModelError, match="The last sentence of d is empty: no score"):
        translator.score([DOCUMENTS[0], parallel(["it", ""], ["sie", ""])])


def test_scoring_leaves_no_hook_behind(
    translator: DocumentTranslator, model: PreTrainedModel
) -> None:
    before = [len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules()]
    translator.score(DOCUMENTS)
    after = [len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules()]
    assert after == before
