"""CipherDAug's loss: two sources, one target, the terms of the objective."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from iada.config.method import augmentation
from iada.data.windows.batch import Batch
from iada.method.objective import AugmentedObjective

Build = Callable[..., Any]
CIPHER = augmentation("cipher")
AFTER = 500


@pytest.fixture
def two_views(batch: Batch) -> Batch:
    """A batch whose enciphered source is longer than its plain one."""
    ids = batch["input_ids"]
    wider = torch.cat([ids.clone(), torch.zeros(3, 2, dtype=torch.int64)], dim=1)
    ordinary = wider >= 6
    wider[ordinary] = 6 + (wider[ordinary] + 5) % 34
    wider[0, -2:] = torch.tensor([30, 2])
    batch["cipher_input_ids"] = wider
    batch["cipher_attention_mask"] = (wider != 0).long()
    return batch


def objective(model: Any, **settings: Any) -> AugmentedObjective:
    smoothing = settings.pop("label_smoothing", 0.1)
    return AugmentedObjective(model, replace(CIPHER, **settings), label_smoothing=smoothing)


@pytest.mark.parametrize("computation", ["fused", "plain"])
def test_the_loss_is_both_nlls_and_five_times_the_divergence_over_twice_the_tokens(
    computation: Any, tiny_model: Build, two_views: Batch
) -> None:
    model = tiny_model(dropout=False)
    losses = AugmentedObjective(model, CIPHER, label_smoothing=0.0, computation=computation)(
        two_views, update=AFTER
    )
    chosen = two_views["labels"] >= 0
    labels = two_views["labels"][chosen]
    logs = []
    for prefix in ("", "cipher_"):
        logits = model(
            input_ids=two_views[f"{prefix}input_ids"],  # type: ignore[literal-required]
            attention_mask=two_views[f"{prefix}attention_mask"],  # type: ignore[literal-required]
            decoder_input_ids=two_views["decoder_input_ids"],
        ).logits
        logs.append(logits[chosen].log_softmax(dim=-1))
    plain, cipher = logs
    nlls = [-log.gather(1, labels[:, None]).sum() for log in (plain, cipher)]
    forth = (plain.exp() * (plain - cipher)).sum()
    back = (cipher.exp() * (cipher - plain)).sum()
    total = (nlls[0] + nlls[1] + 5 * 0.5 * (forth + back)) / (2 * len(labels))
    assert (losses.total / losses.count).item() == pytest.approx(total.item(), rel=1e-9)
    assert losses.original is not None
    assert losses.perturbed is not None
    assert losses.agreement is not None
    assert losses.original.item() == pytest.approx(nlls[0].item())
    assert losses.perturbed.item() == pytest.approx(nlls[1].item())
    assert losses.agreement.item() > 0


def test_the_first_updates_learn_from_the_enciphered_source_alone(
    tiny_model: Build, two_views: Batch
) -> None:
    model = tiny_model(dropout=False)
    early = objective(model)(two_views, update=AFTER - 1)
    late = objective(model)(two_views, update=AFTER)
    assert early.original is None
    assert early.agreement is None
    assert early.perturbed is not None
    assert late.perturbed is not None
    assert early.total.item() == pytest.approx(late.perturbed.item())
    assert early.total.item() == pytest.approx(early.perturbed.item())


def test_an_unenciphered_view_agrees_with_the_plain_one(
    tiny_model: Build, two_views: Batch
) -> None:
    two_views["cipher_input_ids"] = two_views["input_ids"].clone()
    two_views["cipher_attention_mask"] = two_views["attention_mask"].clone()
    losses = objective(tiny_model(dropout=False))(two_views, update=AFTER)
    assert losses.original is not None
    assert losses.perturbed is not None
    assert losses.agreement is not None
    assert losses.agreement.item() == pytest.approx(0, abs=1e-12)
    assert losses.perturbed.item() == pytest.approx(losses.original.item(), rel=1e-12)


def test_the_divergence_is_the_same_with_the_views_exchanged(
    tiny_model: Build, two_views: Batch
) -> None:
    exchanged: Batch = {
        **two_views,
        "input_ids": two_views["cipher_input_ids"],
        "attention_mask": two_views["cipher_attention_mask"],
        "cipher_input_ids": two_views["input_ids"],
        "cipher_attention_mask": two_views["attention_mask"],
    }
    found = []
    for batch in (two_views, exchanged):
        losses = objective(tiny_model(dropout=False))(batch, update=AFTER)
        assert losses.agreement is not None
        found.append(losses.agreement.item())
    assert found[0] == pytest.approx(found[1], rel=1e-12)
    assert found[0] > 0


def test_gradients_flow_through_both_sources(tiny_model: Build, two_views: Batch) -> None:
    model = tiny_model(dropout=False)
    objective(model)(two_views, update=AFTER).total.backward()
    gradient = model.get_encoder().get_input_embeddings().weight.grad
    for name in ("input_ids", "cipher_input_ids"):
        used = two_views[name][two_views[name] >= 6].unique()  # type: ignore[literal-required]
        assert (gradient[used].abs().sum(dim=1) > 0).all()


def test_validation_reads_the_plain_source(tiny_model: Build, two_views: Batch) -> None:
    model = tiny_model().eval()
    with_view = objective(model)(two_views)
    bare: Batch = {**two_views}
    del bare["cipher_input_ids"], bare["cipher_attention_mask"]
    assert objective(model)(bare).total.item() == with_view.total.item()
    with pytest.raises(ValueError, match="no enciphered source"):
        objective(tiny_model())(bare)
