"""SAN: sparsemax, softmax by segment, and the context module against loops over its equations."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from iada.data.tokens.subwords import SpecialIds
from iada.models.document import read_layout
from iada.models.san import segment_softmax, sparsemax

vectors = st.lists(st.floats(-3, 3), min_size=1, max_size=6)
TRUE = torch.tensor(True)


@settings(deadline=None)
@given(vectors, st.floats(-5, 5))
def test_sparsemax_is_on_the_simplex_and_does_not_mind_a_shift(
    values: list[float], shift: float
) -> None:
    scores = torch.tensor(values, dtype=torch.float64)
    found = sparsemax(scores, TRUE)
    assert float(found.sum()) == pytest.approx(1)
    assert (found >= 0).all()
    torch.testing.assert_close(sparsemax(scores + shift, TRUE), found, rtol=0, atol=1e-9)


def test_sparsemax_by_hand() -> None:
    # Largest 0.8, threshold (0.8 + 0.6 - 1) / 2 = 0.2: the third, 0.1, gets nothing.
    found = sparsemax(torch.tensor([0.8, 0.1, 0.6], dtype=torch.float64), TRUE)
    assert found.tolist() == pytest.approx([0.6, 0.0, 0.4])
    assert found[1] == 0


def test_sparsemax_leaves_points_of_the_simplex_where_they_are() -> None:
    point = torch.tensor([[0.2, 0.5, 0.3], [0.0, 1.0, 0.0]], dtype=torch.float64)
    torch.testing.assert_close(sparsemax(point, TRUE), point)


def test_what_is_not_visible_gets_nothing() -> None:
    scores = torch.tensor([5.0, 1.0, 0.9], dtype=torch.float64)
    found = sparsemax(scores, torch.tensor([False, True, True]))
    assert found.tolist() == pytest.approx([0.0, 0.55, 0.45])
    assert sparsemax(scores, torch.tensor([False, False, True])).tolist() == [0.0, 0.0, 1.0]


def test_the_gradient_of_sparsemax() -> None:
    torch.manual_seed(0)
    scores = torch.randn(4, 5, dtype=torch.float64, requires_grad=True)
    visible = torch.rand(4, 5) > 0.3
    visible[:, 0] = True
    assert torch.autograd.gradcheck(lambda values: sparsemax(values, visible), scores)


def test_softmax_within_segments() -> None:
    scores = torch.tensor([1.0, 2.0, 3.0, 4.0, 9.0], dtype=torch.float64)[None, None, None]
    numbers, words = torch.tensor([[0, 0, 1, 1, 1]]), torch.tensor([[1, 1, 1, 1, 0]]).bool()
    found = segment_softmax(scores, numbers, words, 3)[0, 0, 0]
    low, high = torch.tensor([1.0, 2.0], dtype=torch.float64).softmax(dim=0).tolist()
    assert found.tolist() == pytest.approx([low, high, low, high, 0.0])


def context_by_loops(module: Any, states: Tensor, sentences: Any, offline: bool) -> Tensor:
    """Compute the module position by position, head by head, as its equations say."""
    numbers, words = sentences.numbers[0].tolist(), sentences.words[0].tolist()
    size = states.shape[-1] // module.heads
    result = states[0].clone()
    for position, h in enumerate(states[0]):
        own = numbers[position]
        others = {
            s: [i for i, n in enumerate(numbers) if n == s and words[i]] for s in sorted({*numbers})
        }
        chosen = {
            s: places
            for s, places in others.items()
            if places and (s != own if offline else s < own)
        }
        if not chosen:
            continue
        heads = []
        for head in range(module.heads):
            part = slice(head * size, (head + 1) * size)
            means = [states[0, places].mean(dim=0) for places in chosen.values()]
            scores = torch.stack(
                [
                    module.sentence_query(h)[part] @ module.sentence_key(mean)[part] / size**0.5
                    for mean in means
                ]
            )
            total = torch.zeros(size, dtype=states.dtype)
            for share, places in zip(sparsemax(scores, TRUE), chosen.values(), strict=True):
                x = states[0, places]
                inside = module.word_key(x)[:, part] @ module.word_query(h)[part] / size**0.5
                total = total + share * inside.softmax(dim=0) @ module.value(x)[:, part]
            heads.append(total)
        v = module.out(torch.cat(heads))
        fed = module.fc2(torch.relu(module.fc1(module.attention_norm(v))))
        c = module.feed_norm(fed)
        gate = torch.sigmoid(module.gate_state(h) + module.gate_context(c))
        result[position] = gate * h + (1 - gate) * c
    return result


@pytest.mark.parametrize("after", [0, 2])
@torch.inference_mode()
def test_the_context_module_is_its_equations(lab: Any, special: SpecialIds, after: int) -> None:
    system = lab.system("san", {"after": after})
    model = system.build(special)
    batch = lab.collate(system.windows(special, lab.documents), [2])
    layout = read_layout(model.config, batch["input_ids"], None, batch["first_sentence"])
    torch.manual_seed(1)
    states = torch.randn(1, batch["input_ids"].shape[1], 16, dtype=torch.float64)
    found = model.encoder_context(states, layout.source)
    expected = context_by_loops(model.encoder_context, states, layout.source, after > 0)
    torch.testing.assert_close(found[0], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("after", "reads"), [(0, False), (2, True)])
def test_the_future_is_read_offline_only(
    lab: Any, special: SpecialIds, after: int, reads: bool
) -> None:
    system = lab.system("san", {"after": after})
    model = system.build(special)
    changed = [*lab.documents[0]]
    changed[3] = ([7, 8, 9], changed[3][1])
    one, two = (
        lab.logits(model, lab.collate(system.windows(special, [document]), [2]))
        for document in (lab.documents[0], changed)
    )
    assert torch.allclose(one, two) != reads


def test_an_open_gate_gives_the_sentence_model(lab: Any, special: SpecialIds) -> None:
    system = lab.system("san")
    model = system.build(special)
    batch = lab.collate(system.windows(special, lab.documents), [2])
    source, target = lab.documents[0][2]
    before = lab.logits(model, batch)
    torch.nn.init.constant_(model.encoder_context.gate_state.bias, 1000.0)
    after = lab.logits(model, batch)
    assert not torch.allclose(before, after)
    single = {
        "input_ids": torch.tensor([[*source, special.eos]]),
        "attention_mask": torch.ones(1, len(source) + 1, dtype=torch.long),
        "decoder_input_ids": torch.tensor([[special.bos, *target]]),
    }
    torch.testing.assert_close(after, lab.logits(model, single), rtol=0, atol=1e-11)


def test_frozen_context_is_that_of_the_encoder_that_was_loaded(
    lab: Any, special: SpecialIds
) -> None:
    live, system = lab.system("san"), lab.system("san", {"frozen_context": True})
    model = system.build(special)
    batch = lab.collate(system.windows(special, lab.documents))
    other = live.build(special)
    other.load_state_dict(model.state_dict(), strict=False)
    assert not torch.allclose(lab.logits(model, batch), lab.logits(other, batch))
    model.keep_stage_one()
    assert torch.equal(lab.logits(model, batch), lab.logits(other, batch))
    # The encoder learns on, the context does not; and it never drops anything.
    states: list[Tensor] = []
    model.stage_one.register_forward_hook(lambda _, __, out: states.append(out.last_hidden_state))
    model.train()
    for _ in range(2):
        with torch.no_grad():
            model.model.encoder.layers[0].fc1.weight.mul_(2.0)
        lab.logits(model, batch)
    assert torch.equal(states[0], states[1])
    assert not any(parameter.requires_grad for parameter in model.stage_one.parameters())
