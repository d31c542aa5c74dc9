"""Architectures that reduce exactly to simpler models, and what each may and may not read."""

from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import MarianMTModel

from iada.config.model import ModelConfig
from iada.data.tokens.subwords import SpecialIds
from iada.data.windows.batch import Batch
from iada.models.build import build_model
from iada.models.document import read_layout
from iada.models.observation import Observer


def load_sentence_model(model: Any, special: SpecialIds) -> MarianMTModel:
    """Give a model the weights of a random stock model, which is returned; both in float64."""
    config = model.config
    torch.manual_seed(9)
    sizes = ModelConfig(
        dim=config.d_model,
        feed_forward=config.encoder_ffn_dim,
        heads=config.encoder_attention_heads,
        encoder_layers=config.encoder_layers,
        decoder_layers=config.decoder_layers,
        max_positions=config.max_position_embeddings,
    )
    stock = build_model(sizes, vocabulary_size=config.vocab_size, special=special).double().eval()
    found = model.load_state_dict(stock.state_dict(), strict=False)
    assert found.unexpected_keys == []
    return stock


@torch.inference_mode()
def sentence_logits(stock: MarianMTModel, lab: Any, special: SpecialIds) -> list[Tensor]:
    """Translate every sentence of the first document alone."""
    found = []
    for source, target in lab.documents[0]:
        logits = stock(
            input_ids=torch.tensor([[*source, special.eos]]),
            decoder_input_ids=torch.tensor([[special.bos, *target]]),
        ).logits
        found.append(logits[0])
    return found


def set_gate(gate: Any, bias: float) -> None:
    """Fix a gate, whatever it reads."""
    torch.nn.init.zeros_(gate.weight)
    torch.nn.init.constant_(gate.bias, bias)


def context_gradient(model: Any, batch: Batch, roles: str = "source_roles") -> Tensor:
    """Return the gradient of the loss at the embeddings of context tokens."""
    observer = Observer(model)
    observation = observer.forward(batch)
    observer.remove()
    loss = observation.logits.logsumexp(dim=-1).sum()
    stream = 0 if roles == "source_roles" else 1
    (gradient,) = torch.autograd.grad(loss, [observation.embeddings[stream]])
    return gradient[batch[roles] == 1]  # type: ignore[literal-required]


class TestFlat:
    """FlatTrans."""

    def test_without_wide_layers_and_segments_it_is_a_sentence_model(
        self, lab: Any, special: SpecialIds
    ) -> None:
        system = lab.system("flat", {"wide_layers": 0})
        model = system.build(special)
        stock = load_sentence_model(model, special)
        torch.nn.init.zeros_(model.model.encoder.embed_segments.weight)
        model.config.restarts_positions = True
        batch = lab.collate(system.windows(special, lab.documents), [2])
        expected = sentence_logits(stock, lab, special)[2]
        torch.testing.assert_close(lab.logits(model, batch)[0], expected, rtol=0, atol=1e-11)

    @pytest.mark.parametrize("wide", [0, 1, 2])
    def test_context_is_read_through_the_wide_layers_alone(
        self, lab: Any, special: SpecialIds, wide: int
    ) -> None:
        system = lab.system("flat", {"wide_layers": wide})
        batch = lab.collate(system.windows(special, lab.documents), [2])
        gradient = context_gradient(system.build(special), batch)
        assert bool(gradient.any()) == (wide > 0)

    def test_the_prefix_of_a_translation_is_never_context(
        self, lab: Any, special: SpecialIds
    ) -> None:
        batch = lab.collate(lab.system("flat").windows(special, lab.documents), [2])
        assert batch["decoder_input_ids"][0].tolist() == [special.bos, *lab.documents[0][2][1]]
        assert batch["first_sentence"].tolist() == [2]


class TestGTrans:
    """G-Transformer."""

    def test_without_wide_layers_sentences_are_translated_alone(
        self, lab: Any, special: SpecialIds
    ) -> None:
        system = lab.system("gtrans", {"wide_layers": 0})
        model = system.build(special)
        stock = load_sentence_model(model, special)
        model.config.restarts_positions = True
        batch = lab.collate(system.windows(special, lab.documents), [2])
        expected = torch.cat(sentence_logits(stock, lab, special)[:3])
        torch.testing.assert_close(lab.logits(model, batch)[0], expected, rtol=0, atol=1e-11)

    def test_a_gate_on_the_near_side_leaves_other_sentences_out(
        self, lab: Any, special: SpecialIds
    ) -> None:
        system = lab.system("gtrans", {"wide_layers": 2})
        model = system.build(special)
        batch = lab.collate(system.windows(special, lab.documents), [2])
        assert context_gradient(model, batch).any()
        for name, module in model.named_modules():
            if name.endswith("gate"):
                set_gate(module, 60.0)
        for roles in ("source_roles", "target_roles"):
            assert not context_gradient(model, batch, roles).any()

    def test_only_the_far_attentions_and_gates_are_new(self, lab: Any, special: SpecialIds) -> None:
        model = lab.system("gtrans", {"wide_layers": 1}).build(special)
        stock = build_model(lab.system("doc2doc").config, vocabulary_size=40, special=special)
        missing = model.load_state_dict(stock.state_dict(), strict=False).missing_keys
        assert {name.split(".")[5] for name in missing} == {"far", "gate"}


class TestHan:
    """HAN."""

    @pytest.mark.parametrize("sides", ["encoder", "decoder", "both"])
    def test_a_shut_gate_gives_the_sentence_model(
        self, lab: Any, special: SpecialIds, sides: str
    ) -> None:
        system = lab.system("han", {"context_sides": sides})
        model = system.build(special)
        stock = load_sentence_model(model, special)
        windows = system.windows(special, lab.documents)
        expected = sentence_logits(stock, lab, special)
        first = lab.logits(model, lab.collate(windows, [0]))[0]
        # The first sentence has no context at all.
        torch.testing.assert_close(first, expected[0], rtol=0, atol=1e-11)
        last = lab.logits(model, lab.collate(windows, [2]))[0]
        assert not torch.allclose(last[-2:], expected[2][-2:])
        for context in (model.encoder_context, model.decoder_context):
            if context is not None:
                set_gate(context.gate, -1000.0)
        last = lab.logits(model, lab.collate(windows, [2]))[0]
        whole = torch.cat(expected[:3]) if sides != "encoder" else expected[2]
        torch.testing.assert_close(last, whole, rtol=0, atol=1e-11)

    @pytest.mark.parametrize("stop", [True, False])
    def test_context_gets_a_gradient_unless_it_is_stopped(
        self, lab: Any, special: SpecialIds, stop: bool
    ) -> None:
        system = lab.system("han", {"stop_context": stop})
        batch = lab.collate(system.windows(special, lab.documents), [2])
        assert bool(context_gradient(system.build(special), batch).any()) != stop

    def test_the_order_of_context_sentences_does_not_matter(
        self, lab: Any, special: SpecialIds
    ) -> None:
        system = lab.system("han")
        model = system.build(special)
        first, second, third = lab.documents[0][:3]
        one, two = (
            lab.logits(model, lab.collate(system.windows(special, [document]), [2]))
            for document in ([first, second, third], [second, first, third])
        )
        torch.testing.assert_close(one, two, rtol=0, atol=1e-11)

    def test_with_several_current_sentences_each_reads_its_own_context(
        self, lab: Any, special: SpecialIds
    ) -> None:
        """With the loss on all sentences every one of them is a valid example."""
        system = lab.system("han", {"context_sides": "decoder"})
        model = system.build(special)
        wide = lab.logits(model, lab.collate(system.windows(special, lab.documents, stride=5), [0]))
        narrow = system.windows(special, lab.documents)
        start = sum(len(target) + 1 for _, target in lab.documents[0][:3])
        length = len(lab.documents[0][3][1]) + 1
        expected = lab.logits(model, lab.collate(narrow, [3]))[0, -length:]
        # Sentence 3 reads sentences 1 and 2 in both, encoded alone.
        torch.testing.assert_close(wide[0, start : start + length], expected, rtol=0, atol=1e-11)


class TestDocFlat:
    """DocFlat."""

    def test_without_far_context_gate_and_norm_it_is_doc2doc(
        self, lab: Any, special: SpecialIds
    ) -> None:
        system = lab.system("docflat", {"far_context": 0})
        model = system.build(special)
        stock = load_sentence_model(model, special)
        for stack in (model.model.encoder, model.model.decoder):
            set_gate(stack.flat.gate, -1000.0)
            stack.flat.norm = torch.nn.Identity()
        batch = lab.collate(system.windows(special, lab.documents), [2])
        expected = lab.logits(stock, batch)
        torch.testing.assert_close(lab.logits(model, batch), expected, rtol=0, atol=1e-11)

    def test_with_a_shut_gate_far_sentences_are_not_read(
        self, lab: Any, special: SpecialIds
    ) -> None:
        near, wide = (lab.system("docflat", {"far_context": far}, context=1) for far in (0, 3))
        models = [near.build(special), wide.build(special)]
        for model in models:
            load_sentence_model(model, special)
            for stack in (model.model.encoder, model.model.decoder):
                set_gate(stack.flat.gate, -1000.0)
        batches = [
            lab.collate(system.windows(special, lab.documents), [4]) for system in (near, wide)
        ]
        # In a wide window the near part opens with a separator.
        batches[0]["decoder_input_ids"][0, 0] = special.sep
        one, two = (
            lab.logits(model, batch)[0] for model, batch in zip(models, batches, strict=True)
        )
        assert len(two) > len(one)
        length = len(lab.documents[0][4][1]) + 1
        torch.testing.assert_close(two[-length:], one[-length:], rtol=0, atol=1e-11)

    @pytest.mark.parametrize("gate", ["soft", "hard"])
    def test_one_wide_window_is_a_flattened_batch(
        self, lab: Any, special: SpecialIds, gate: str
    ) -> None:
        """Every sentence of a batch attends to the embeddings of the batch up to itself."""
        system = lab.system("docflat", {"far_context": 3, "gate": gate}, context=1)
        model = system.build(special).float()
        windows = system.windows(special, lab.documents)
        encoder = model.get_encoder()
        sources = [[*source, special.sep] for source, _ in lab.documents[0]]
        for number in range(5):
            batch = lab.collate(windows, [number])
            layout = read_layout(model.config, batch["input_ids"], None, None)
            embeddings = encoder.embed_tokens(batch["input_ids"]) * encoder.embed_scale
            found = encoder.flat(embeddings, layout.source, layout)
            expected = flat_batch(encoder, sources[: number + 1], special)
            length = len(sources[number])
            torch.testing.assert_close(found[0, -length:], expected, rtol=0, atol=1e-6)


class TestHybrid:
    """Hybrid."""

    def test_a_gate_on_the_local_side_encodes_sentences_alone(
        self, lab: Any, special: SpecialIds
    ) -> None:
        system = lab.system("hybrid")
        model = system.build(special)
        batch = lab.collate(system.windows(special, lab.documents), [2])
        assert context_gradient(model, batch).any()
        set_gate(model.global_context.gate, 60.0)
        assert not context_gradient(model, batch).any()

    @pytest.mark.parametrize("stop", [True, False])
    def test_the_memory_gets_a_gradient_unless_it_is_stopped(
        self, lab: Any, special: SpecialIds, stop: bool
    ) -> None:
        system = lab.system("hybrid", {"stop_context": stop})
        batch = lab.collate(system.windows(special, lab.documents), [2])
        gradient = context_gradient(system.build(special), batch, "target_roles")
        assert bool(gradient.any()) != stop

    def test_stopping_the_gradient_changes_no_value(self, lab: Any, special: SpecialIds) -> None:
        stopped, flowing = (
            lab.system("hybrid", {"stop_context": stop}).build(special) for stop in (True, False)
        )
        batch = lab.collate(lab.system("hybrid").windows(special, lab.documents))
        one, two = (Observer(model).forward(batch).logits for model in (stopped, flowing))
        torch.testing.assert_close(one, two, rtol=0, atol=1e-11)

    def test_the_memory_is_the_sentence_before(self, lab: Any, special: SpecialIds) -> None:
        """One layer back each: with two layers the third sentence back cannot be reached."""
        system = lab.system("hybrid", context=4)
        model = system.build(special)
        changes = []
        for number in range(4):
            document = [*lab.documents[0]]
            source, target = document[number]
            document[number] = (source, [6 + (token - 5) % 34 for token in target])
            logits = [
                lab.logits(model, lab.collate(system.windows(special, [one]), [4]))[0, -2:]
                for one in (lab.documents[0], document)
            ]
            changes.append(not torch.allclose(*logits))
        assert changes == [False, False, True, True]


def flat_batch(encoder: Any, sentences: list[list[int]], special: SpecialIds) -> Tensor:
    """Compute flat-batch attention, gate and norm of the last sentence as its equations say."""
    rows = [list(sentence) for sentence in sentences]
    rows[-1][-1] = special.eos
    embedded = [encoder.embed_tokens(torch.tensor(row)) * encoder.embed_scale for row in rows]
    flat, last = encoder.flat, len(rows) - 1
    marked = [h + flat.distances.weight[last - s] for s, h in enumerate(embedded)]
    attention = flat.attention
    query = attention.q_proj(marked[-1])
    keys, values = (project(torch.cat(marked)) for project in (attention.k_proj, attention.v_proj))
    heads, size = attention.num_heads, attention.head_dim
    found = []
    for head in range(heads):
        part = slice(head * size, (head + 1) * size)
        scores = query[:, part] @ keys[:, part].T / size**0.5
        found.append(scores.softmax(dim=-1) @ values[:, part])
    attended = attention.out_proj(torch.cat(found, dim=-1))
    share = torch.sigmoid(flat.gate(attended))
    if flat.is_hard:
        share = (share > 0.5).float()
    mixed: Tensor = flat.norm((1 - share) * embedded[-1] + share * attended)
    return mixed
