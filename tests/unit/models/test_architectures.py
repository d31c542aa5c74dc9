"""What holds for every architecture: one class of tests, run on each of them."""

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import AutoModelForSeq2SeqLM

from iada.config.data import WindowConfig
from iada.config.decode import DecodeConfig
from iada.config.method import AugmentConfig
from iada.data.tokens.subwords import SpecialIds
from iada.data.windows.batch import Batch
from iada.data.windows.windows import Windows
from iada.decoding.engines import ENGINES
from iada.decoding.engines.huggingface import HuggingFaceEngine
from iada.decoding.engines.interface import Request
from iada.decoding.engines.prefill import kept_states
from iada.decoding.engines.prefill.engine import PrefillEngine
from iada.decoding.engines.prefill.kept_states import encodes_sentences_alone
from iada.errors import ModelError
from iada.method.importance import importance
from iada.method.objective import AugmentedObjective
from iada.models.build import register_models
from iada.models.observation import Observer


def assert_close(one: Tensor, other: Tensor) -> None:
    torch.testing.assert_close(one, other, rtol=0, atol=1e-11)


class TestEveryArchitecture:
    """Properties that no architecture may break."""

    def test_a_target_token_changes_nothing_before_it(
        self, lab: Any, system: Any, special: SpecialIds
    ) -> None:
        model, batch = system.build(special), lab.collate(system.windows(special, lab.documents))
        before = lab.logits(model, batch)
        ids = batch["decoder_input_ids"].clone()
        place = 2
        changed = (ids[:, place] > 5).nonzero().squeeze(1)
        assert len(changed) > 2
        ids[changed, place] = 6 + (ids[changed, place] - 5) % 34
        after = lab.logits(model, {**batch, "decoder_input_ids": ids})
        assert_close(after[:, :place], before[:, :place])
        assert not torch.allclose(after[changed, place], before[changed, place])

    def test_padding_and_batch_mates_change_nothing(
        self, lab: Any, system: Any, special: SpecialIds
    ) -> None:
        model, windows = system.build(special), system.windows(special, lab.documents)
        together = lab.logits(model, lab.collate(windows))
        for number in range(len(windows)):
            alone = lab.logits(model, lab.collate(windows, [number]))
            assert_close(together[number, : alone.shape[1]], alone[0])

    def test_another_document_is_never_seen(
        self, lab: Any, system: Any, special: SpecialIds
    ) -> None:
        model = system.build(special)
        other = [lab.make_documents(1, (5,))[0], lab.documents[1]]
        one, two = (
            lab.logits(model, lab.collate(system.windows(special, documents), [5, 6, 7]))
            for documents in (lab.documents, other)
        )
        assert_close(one, two)

    def test_context_of_the_own_document_is_seen(
        self, lab: Any, system: Any, special: SpecialIds
    ) -> None:
        model = system.build(special)
        source, target = lab.documents[0][1]
        changed = [*lab.documents[0]]
        changed[1] = ([6 + (token - 5) % 34 for token in source], target)
        one, two = (
            lab.logits(model, lab.collate(system.windows(special, [document]), [2]))
            for document in (lab.documents[0], changed)
        )
        # The last positions are those of the current sentence.
        assert not torch.allclose(one[:, -2:], two[:, -2:])

    def test_windows_without_its_sentence_ends_are_refused(
        self, lab: Any, system: Any, special: SpecialIds
    ) -> None:
        model, batch = system.build(special), lab.collate(system.windows(special, lab.documents))
        model.check_windows(batch)
        no_end = {**batch, "input_ids": batch["input_ids"].masked_fill(batch["input_ids"] == 2, 9)}
        with pytest.raises(ModelError, match=r"but this batch has a source that does not end"):
            model.check_windows(no_end)
        no_opening = {**batch, "decoder_input_ids": batch["decoder_input_ids"].clamp(min=7)}
        with pytest.raises(ModelError, match=r"a decoder input that does not begin with `<s>`"):
            model.check_windows(no_opening)
        stock = Windows(system.windows(special, lab.documents).store, WindowConfig(context=2))
        if system.config.traits.ends == "each":
            with pytest.raises(ModelError, match=r"reads windows like `c </s> x </s>`, but this"):
                model.check_windows(lab.collate(stock))
        else:
            model.check_windows(lab.collate(stock))

    def test_gradients_reach_every_parameter(
        self, lab: Any, system: Any, special: SpecialIds
    ) -> None:
        model, batch = system.build(special), lab.collate(system.windows(special, lab.documents))
        loss = Observer(model).forward(batch).logits.logsumexp(dim=-1).sum()
        loss.backward()
        missing = [
            name
            for name, parameter in model.named_parameters()
            if parameter.requires_grad and (parameter.grad is None or not parameter.grad.any())
        ]
        # A constant added to all keys changes no softmax.
        assert [name for name in missing if not name.endswith("k_proj.bias")] == []

    def test_what_is_saved_is_loaded_bit_by_bit(
        self, lab: Any, system: Any, special: SpecialIds, tmp_path: Path
    ) -> None:
        model = system.build(special).float()
        batch = lab.collate(system.windows(special, lab.documents))
        with warnings.catch_warnings():
            # Sinusoidal positions are not saved; the library warns although it rebuilds them.
            warnings.simplefilter("ignore")
            model.save_pretrained(tmp_path)
        register_models()
        loaded = AutoModelForSeq2SeqLM.from_pretrained(tmp_path, local_files_only=True)
        assert type(loaded) is type(model)
        assert torch.equal(lab.logits(loaded.eval(), batch), lab.logits(model, batch))

    def test_beam_search_with_a_cache_is_that_without(
        self, lab: Any, system: Any, special: SpecialIds, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        model, requests = system.build(special), requests_of(lab, system, special)
        engine = HuggingFaceEngine(model, special, DecodeConfig(beam=3, n_best=3))
        found = engine.search(requests)
        model.generation_config.use_cache = False
        without = engine.search(requests)
        assert len({h.tokens for row in found for h in row}) > 3
        for row, other in zip(found, without, strict=True):
            assert [h.tokens for h in row] == [h.tokens for h in other]
            scores = [[h.score for h in hypotheses] for hypotheses in (row, other)]
            assert scores[0] == pytest.approx(scores[1], abs=1e-5)

    @pytest.mark.parametrize("beam", [1, 3])
    def test_our_search_finds_what_generate_finds(
        self, lab: Any, system: Any, special: SpecialIds, beam: int
    ) -> None:
        model, requests = system.build(special), requests_of(lab, system, special)
        assert ENGINES["prefill"].takes(model)
        assert not ENGINES["ctranslate2"].takes(model)
        config = DecodeConfig(beam=beam, n_best=beam)
        engines = PrefillEngine(model, special, config), HuggingFaceEngine(model, special, config)
        for row, other in zip(*(engine.search(requests) for engine in engines), strict=True):
            assert [h.tokens for h in row] == [h.tokens for h in other]
            scores = [[h.score for h in hypotheses] for hypotheses in (row, other)]
            assert scores[0] == pytest.approx(scores[1], abs=1e-5)

    def test_sentences_decoded_together_are_those_decoded_alone(
        self, lab: Any, system: Any, special: SpecialIds
    ) -> None:
        model, requests = system.build(special), requests_of(lab, system, special)
        engine = HuggingFaceEngine(model, special, DecodeConfig(beam=3))
        together = engine.search(requests)
        alone = [engine.search([request])[0] for request in requests]
        assert [row[0].tokens for row in together] == [row[0].tokens for row in alone]

    def test_decoding_reads_what_training_reads(
        self, lab: Any, system: Any, special: SpecialIds
    ) -> None:
        """The score of a hypothesis is the log-probability that a training window gives it."""
        model, windows = system.build(special), system.windows(special, lab.documents)
        engine = HuggingFaceEngine(model, special, DecodeConfig(beam=1, length_penalty=0.0))
        (request,) = requests_of(lab, system, special)[2:3]
        (hypothesis,) = engine.search([request])[0]
        batch = lab.collate(windows, [2])
        ids = torch.tensor([[*request.prefix, *hypothesis.tokens]])
        logits = lab.logits(model, {**batch, "decoder_input_ids": ids})[0].log_softmax(dim=-1)
        labels = [*hypothesis.tokens, special.eos]
        start = len(request.prefix) - 1
        total = sum(float(logits[start + i, label]) for i, label in enumerate(labels))
        assert request.source == tuple(batch["input_ids"][0].tolist())
        assert hypothesis.score == pytest.approx(total, abs=1e-4)

    def test_it_learns_eight_sentences_by_heart(
        self, lab: Any, system: Any, special: SpecialIds
    ) -> None:
        model = system.build(special).float()
        batch = lab.collate(system.windows(special, lab.documents))
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        observer = Observer(model)
        labels = batch["labels"][batch["labels"] >= 0]
        for _ in range(120):
            optimizer.zero_grad()
            logits = observer.forward(batch).logits
            loss = torch.nn.functional.cross_entropy(logits, labels)
            loss.backward()
            optimizer.step()
        assert (logits.argmax(dim=-1) == labels).all()

    def test_gnorm_is_the_gradient_at_the_embeddings(
        self, lab: Any, system: Any, special: SpecialIds
    ) -> None:
        """Finite differences along the gradient give its norm."""
        model, batch = (
            system.build(special),
            lab.collate(system.windows(special, lab.documents), [2, 3]),
        )
        observer = Observer(model)
        observation = observer.forward(batch)
        labels = batch["labels"][batch["labels"] >= 0]
        loss = torch.nn.functional.cross_entropy(observation.logits, labels, reduction="sum")
        gradients = torch.autograd.grad(loss, observation.embeddings)
        measured = importance(model, batch, "gnorm")
        observer.remove()
        for stream, place in ((0, (0, 0)), (0, (1, 4)), (1, (0, 1))):
            norm = gradients[stream][place].norm()
            # The measure is that of the mean over a window's labels.
            labels_of_row = int((batch["labels"][place[0]] >= 0).sum())
            expected = float(norm) / labels_of_row
            assert float(measured[stream][place]) == pytest.approx(expected, rel=1e-6)
            if norm == 0 or system.config.hides_gradients:
                continue
            step = 1e-5 * gradients[stream][place] / norm
            values = [nll(lab, model, batch, stream, place, sign * step) for sign in (1, -1)]
            slope = (values[0] - values[1]) / 2e-5
            assert slope == pytest.approx(float(norm), rel=1e-4)

    def test_tnorm_reads_the_topmost_state_of_each_stack(
        self, lab: Any, system: Any, special: SpecialIds
    ) -> None:
        model, batch = system.build(special), lab.collate(system.windows(special, lab.documents))
        observer = Observer(model)
        inputs: list[Tensor] = []
        handles = [
            stack.layers[-1].final_layer_norm.register_forward_pre_hook(
                lambda _, values: inputs.append(values[0].detach())
            )
            for stack in (model.get_encoder(), model.get_decoder())
        ]
        states = observer.forward(batch).states
        for handle in handles:
            handle.remove()
        observer.remove()
        for state, expected in zip(states, inputs, strict=True):
            assert torch.equal(state, expected)

    def test_importance_without_tilt_is_the_uniform_control(
        self, lab: Any, system: Any, special: SpecialIds
    ) -> None:
        batch = lab.collate(system.windows(special, lab.documents))
        losses = []
        for measure in ("gnorm", "tnorm", "uniform"):
            model = system.build(special).train()
            config = AugmentConfig(measure=measure, alpha=0.0, p_context=0.4, p_current=0.4)  # type: ignore[arg-type]
            torch.manual_seed(3)
            losses.append(AugmentedObjective(model, config)(batch).total)
        assert torch.equal(losses[0], losses[2])
        assert torch.equal(losses[1], losses[2])


def encoded_tokens(engine: PrefillEngine, requests: list[Request]) -> tuple[Any, int]:
    """Search one sentence after the other; count the tokens that the encoder reads."""
    counts: list[int] = []

    def count(_: Any, given: tuple[Any, ...], __: Any) -> None:
        counts.append(int(given[1].sum()))

    handle = engine.model.encoder.register_forward_pre_hook(count, with_kwargs=True)
    found = [engine.search([request])[0] for request in requests]
    handle.remove()
    return found, sum(counts)


KEEPING = ["han-encoder", "han-decoder", "han-joint", "san-online", "san-offline"]


def test_sentences_that_are_encoded_alone_are_encoded_once(
    lab: Any, system: Any, special: SpecialIds, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = system.build(special)
    if not ENGINES["prefill"].takes(model):
        return
    assert encodes_sentences_alone(model) == (system.name in KEEPING)
    requests = requests_of(lab, system, special)
    config = DecodeConfig(beam=3, n_best=3)
    found, read = encoded_tokens(PrefillEngine(model, special, config), requests)
    plain = PrefillEngine(model, special, config)
    plain.model.encode_window = model.encode_window
    expected, all_read = encoded_tokens(plain, requests)
    assert all_read == sum(len(request.source) for request in requests)
    once = sum(len(source) + 1 for source, _ in lab.documents[0])
    assert read == (once if system.name in KEEPING else all_read)
    monkeypatch.setattr(kept_states, "KEPT_TOKENS", 0)
    few, read_again = encoded_tokens(PrefillEngine(model, special, config), requests)
    assert read_again == all_read
    for row, other, third in zip(found, expected, few, strict=True):
        assert [h.tokens for h in row] == [h.tokens for h in other] == [h.tokens for h in third]
        scores = [[h.score for h in hypotheses] for hypotheses in (row, other, third)]
        assert scores[0] == pytest.approx(scores[1], abs=1e-5)
        assert scores[2] == pytest.approx(scores[1], abs=1e-5)


def requests_of(lab: Any, system: Any, special: SpecialIds) -> list[Request]:
    """Ask for the sentences of the first document, with its own target side as context."""
    frame, windows = system.frame(special), system.windows(special, lab.documents)
    found = []
    for number in range(5):
        context = system.context + frame.far_context
        before = lab.documents[0][max(0, number - context) : number]
        prefix = frame.prefix([target for _, target in before] if frame.target_context else [])
        window = windows[0, number]
        found.append(
            Request(
                tuple(window.source_ids.tolist()),
                tuple(prefix),
                6,
                inputs={"first_sentence": window.first_sentence or 0},
            )
        )
    return found


def nll(
    lab: Any, model: Any, batch: Batch, stream: int, place: tuple[int, int], step: Tensor
) -> float:
    """Return the summed NLL with one embedding moved."""
    stack = (model.get_encoder(), model.get_decoder())[stream]

    def move(_: Any, __: Any, output: Tensor) -> Tensor:
        moved = output.clone()
        moved[place] += step
        return moved

    handle = stack.get_input_embeddings().register_forward_hook(move)
    logits = lab.logits(model, batch)
    handle.remove()
    labels = batch["labels"]
    return float(
        torch.nn.functional.cross_entropy(logits[labels >= 0], labels[labels >= 0], reduction="sum")
    )
