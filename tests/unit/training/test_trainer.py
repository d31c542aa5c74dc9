from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import PreTrainedTokenizerFast, TrainerCallback, TrainingArguments

from iada.config.data import WindowConfig
from iada.config.method import AugmentConfig, augmentation
from iada.config.model import ModelConfig
from iada.data.prepared.store import Side, TokenStore
from iada.data.tokens.subwords import SpecialIds, Subwords
from iada.data.windows.batch import Collator
from iada.data.windows.sampler import TokenBatchSampler
from iada.data.windows.windows import Windows
from iada.errors import ModelError, RunError
from iada.method.chunks import accumulate_losses
from iada.method.perturbation import Replace
from iada.models.build import build_model
from iada.training.trainer import IadaTrainer, _FiniteCheck

SPECIAL = SpecialIds(pad=0, bos=1, eos=2, unk=3, sep=4, mask=5)
Build = Callable[..., Any]


@pytest.fixture
def windows() -> Windows:
    """Twelve windows of two documents over a vocabulary of 40 ids."""
    sentences = [[6 + (7 * i + j) % 34 for j in range(1 + i % 4)] for i in range(12)]
    store = TokenStore(
        source=Side.of(sentences, SPECIAL.sep),
        target=Side.of(sentences[::-1], SPECIAL.sep),
        document_starts=torch.tensor([0, 6, 12]).numpy(),
        document_names=("first", "second"),
        special=SPECIAL,
    )
    return Windows(store, WindowConfig())


def _arguments(folder: Path, **settings: Any) -> TrainingArguments:
    defaults: dict[str, Any] = {
        "output_dir": str(folder),
        "max_steps": 2,
        "learning_rate": 1e-3,
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
        "remove_unused_columns": False,
        "label_names": ["labels"],
        "use_cpu": True,
    }
    return TrainingArguments(**(defaults | settings))


def _trainer(model: Any, windows: Windows, folder: Path, **settings: Any) -> IadaTrainer:
    sampler = TokenBatchSampler(windows.lengths(), max_tokens=60, seed=1)
    return IadaTrainer(
        model,
        _arguments(folder, **settings),
        augment=AugmentConfig(),
        replacement=Replace(40, SPECIAL.all),
        train_dataset=windows,
        train_sampler=sampler,
        eval_dataset=windows,
        eval_sampler=sampler,
        data_collator=Collator(SPECIAL.pad),
    )


@pytest.mark.parametrize("architecture", ["marian", "bart", "mbart", "m2m100", "t5"])
def test_any_encoder_decoder_trains_unchanged(
    architecture: str, tiny_model: Build, windows: Windows, tmp_path: Path
) -> None:
    model = tiny_model(architecture)
    before = {name: p.detach().clone() for name, p in model.named_parameters() if p.requires_grad}
    trainer = _trainer(model, windows, tmp_path)
    trainer.train()
    logged = [line for line in trainer.state.log_history if "loss" in line]
    assert len(logged) == 2
    for line in logged:
        total = line["original"] + line["perturbed"] + line["agreement"]
        assert line["loss"] == pytest.approx(total, rel=1e-5)
    after = dict(model.named_parameters())
    # Biases of attention keys have no gradient: softmax does not see a constant.
    changed = [not after[name].equal(value) for name, value in before.items()]
    assert sum(changed) > 0.8 * len(changed)


def test_the_tokenizer_says_what_may_replace_a_token(
    tiny_model: Build, windows: Windows, subwords: Subwords, tmp_path: Path
) -> None:
    subwords.save(tmp_path)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(tmp_path)
    settings: dict[str, Any] = {
        "augment": AugmentConfig(),
        "train_dataset": windows,
        "data_collator": Collator(SPECIAL.pad),
    }
    with pytest.raises(ModelError, match="`processing_class` of `IadaTrainer`"):
        IadaTrainer(tiny_model("t5"), _arguments(tmp_path), **settings)
    model = tiny_model("t5")
    model.resize_token_embeddings(len(subwords))
    trainer = IadaTrainer(model, _arguments(tmp_path), processing_class=tokenizer, **settings)
    for replacement in trainer.augmented_objective.replacements.values():
        assert isinstance(replacement, Replace)
        assert not {*replacement.candidates.tolist()} & {*subwords.reserved_ids}


def test_bf16_covers_the_losses_and_not_the_model_alone(
    tiny_model: Build, windows: Windows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    types = []

    def note(*arguments: Any, **named: Any) -> Any:
        types.append(arguments[3].weight.dtype)
        return accumulate_losses(*arguments, **named)

    monkeypatch.setattr("iada.method.fused.accumulate_losses", note)
    trainer = _trainer(tiny_model().float(), windows, tmp_path, bf16=True)
    trainer.train()
    # Two calls for each of two micro-batches at least: GNorm, and the losses of both views.
    assert len(types) >= 4
    assert set(types) == {torch.bfloat16}
    types.clear()
    trainer.evaluate()
    assert set(types) == {torch.float32}


def test_training_lowers_the_validation_nll(
    tiny_model: Build, windows: Windows, tmp_path: Path
) -> None:
    trainer = _trainer(tiny_model(), windows, tmp_path, max_steps=60, learning_rate=1e-2)
    first = trainer.evaluate()["eval_nll"]
    trainer.train()
    assert trainer.evaluate()["eval_nll"] < 0.8 * first


def test_validation_nll_is_the_mean_per_token_without_smoothing_and_noise(
    tiny_model: Build, windows: Windows, tmp_path: Path
) -> None:
    model = tiny_model()
    nll = _trainer(model, windows, tmp_path).evaluate()["eval_nll"]
    batch = Collator(SPECIAL.pad)([windows[0, i] for i in range(len(windows))])
    labels = batch["labels"]
    model.eval()
    with torch.no_grad():
        logits = model(
            input_ids=batch["input_ids"],
            attention_mask=batch["attention_mask"],
            decoder_input_ids=batch["decoder_input_ids"],
        ).logits
    expected = torch.nn.functional.cross_entropy(logits[labels >= 0], labels[labels >= 0])
    assert nll == pytest.approx(expected.item(), rel=1e-9)


def test_the_trainers_own_sampler_serves_a_plain_list_of_windows(
    tiny_model: Build, windows: Windows, tmp_path: Path
) -> None:
    items = [windows[0, i] for i in range(len(windows))]
    trainer = IadaTrainer(
        tiny_model(),
        _arguments(tmp_path, per_device_train_batch_size=4, per_device_eval_batch_size=4),
        augment=AugmentConfig(measure="tnorm"),
        replacement=Replace(40, SPECIAL.all),
        train_dataset=items,
        eval_dataset=items,
        data_collator=Collator(SPECIAL.pad),
    )
    trainer.train()
    assert trainer.state.global_step == 2
    assert trainer.evaluate()["eval_nll"] > 0


def test_a_loss_that_is_not_a_number_stops_the_run(
    tiny_model: Build, windows: Windows, tmp_path: Path
) -> None:
    model = tiny_model()
    with torch.no_grad():
        model.get_input_embeddings().weight[7] = float("nan")
    trainer = _trainer(model, windows, tmp_path, logging_nan_inf_filter=False)
    with pytest.raises(
        RunError, match=r"The loss is nan after update 1\. Begin a new run with a lower"
    ):
        trainer.train()


def _plain_gradient(model: Any, windows: Windows, batches: list[list[Any]]) -> list[torch.Tensor]:
    """Differentiate the mean NLL over all tokens of all batches, with nothing of the trainer."""
    batch = Collator(SPECIAL.pad)([windows[key] for keys in batches for key in keys])
    labels = batch["labels"]
    logits = model(
        input_ids=batch["input_ids"],
        attention_mask=batch["attention_mask"],
        decoder_input_ids=batch["decoder_input_ids"],
    ).logits
    loss = torch.nn.functional.cross_entropy(logits[labels >= 0], labels[labels >= 0])
    parameters = [weight for weight in model.parameters() if weight.requires_grad]
    return list(torch.autograd.grad(loss, parameters))


def test_one_update_of_unequal_micro_batches_has_the_gradient_of_the_mean_over_all_tokens(
    tiny_model: Build, windows: Windows, tmp_path: Path
) -> None:
    # Four micro-batches of different size make one update.
    sampler = TokenBatchSampler(windows.lengths(), max_tokens=60, seed=1)
    batches = [list(keys) for keys in sampler]
    tokens = [Collator(SPECIAL.pad)([windows[k] for k in keys])["labels"] for keys in batches]
    assert len({int((labels >= 0).sum()) for labels in tokens[:4]}) > 1
    model = tiny_model(dropout=False)
    expected = _plain_gradient(tiny_model(dropout=False), windows, batches[:4])

    gradients: list[torch.Tensor] = []

    class Recorder(TrainerCallback):
        def on_pre_optimizer_step(self, *_: Any, **__: Any) -> None:
            parameters = (weight for weight in model.parameters() if weight.requires_grad)
            gradients.extend(weight.grad.clone() for weight in parameters)

    settings = {"max_steps": 1, "gradient_accumulation_steps": 4, "max_grad_norm": 0.0}
    IadaTrainer(
        model,
        _arguments(tmp_path, **settings),
        augment=augmentation("doc2doc"),
        train_dataset=windows,
        train_sampler=sampler,
        data_collator=Collator(SPECIAL.pad),
        label_smoothing=0.0,
        callbacks=[Recorder()],
    ).train()
    for found, wanted in zip(gradients, expected, strict=True):
        # The divisor is rounded to float32.
        torch.testing.assert_close(found, wanted, rtol=1e-7, atol=1e-12)


def test_a_loss_that_is_not_a_number_stops_the_run_long_before_the_next_log_line(
    tiny_model: Build, windows: Windows, tmp_path: Path
) -> None:
    trainer = _trainer(
        tiny_model(), windows, tmp_path, max_steps=1000, logging_steps=1000, learning_rate=1e30
    )
    with pytest.raises(RunError, match=r"The loss or gradient is not finite after update [123]\."):
        trainer.train()
    # The verdict on an update is read when the next one was computed.
    assert trainer.state.global_step <= 4
    assert not trainer.state.log_history


def test_the_update_at_which_the_loss_was_lost_is_named(
    tiny_model: Build, windows: Windows, tmp_path: Path
) -> None:
    model = tiny_model()

    class Break(TrainerCallback):
        """Spoil the weights after the second update."""

        def on_step_end(self, _: Any, state: Any, *__: Any, **___: Any) -> None:
            if state.global_step == 2:
                with torch.no_grad():
                    model.get_input_embeddings().weight.fill_(float("nan"))

    trainer = _trainer(model, windows, tmp_path, max_steps=9, logging_steps=1000)
    trainer.add_callback(Break())
    with pytest.raises(RunError, match=r"not finite after update 3\."):
        trainer.train()


def test_the_host_does_not_wait_for_the_verdict_on_the_update_it_has_just_issued() -> None:
    check = _FiniteCheck()
    check.add(1, torch.tensor(float("inf")), torch.tensor([1.0]))
    with pytest.raises(RunError, match=r"not finite after update 1\."):
        check.add(2, torch.tensor(1.0), torch.tensor([1.0]))
    check.add(3, torch.tensor(1.0), torch.tensor([1.0, float("nan")]))
    with pytest.raises(RunError, match=r"not finite after update 3\."):
        check.read()
    check.read()


@pytest.mark.parametrize("evaluate", [True, False])
def test_no_checkpoint_of_a_model_that_is_not_finite_is_written(
    tiny_model: Build, windows: Windows, tmp_path: Path, evaluate: bool
) -> None:
    model = tiny_model()

    class Break(TrainerCallback):
        """Spoil the weights after the last update: no loss of a training batch can show it."""

        def on_step_end(self, *_: Any, **__: Any) -> None:
            with torch.no_grad():
                model.get_input_embeddings().weight[7] = float("nan")

    settings = {"max_steps": 1, "save_strategy": "steps", "save_steps": 1}
    settings |= {"eval_strategy": "steps", "eval_steps": 1} if evaluate else {}
    trainer = _trainer(model, windows, tmp_path, **settings)
    trainer.add_callback(Break())
    what = "validation NLL is nan" if evaluate else "model is not finite"
    with pytest.raises(RunError, match=f"The {what} after update 1"):
        trainer.train()
    assert not list(tmp_path.glob("checkpoint-*"))
    assert all("eval_nll" not in line for line in trainer.state.log_history)


@pytest.mark.parametrize(
    ("variable", "name"),
    [("ACCELERATE_USE_FSDP", "FSDP"), ("ACCELERATE_USE_DEEPSPEED", "DeepSpeed")],
)
def test_sharded_training_is_refused(
    tiny_model: Build,
    windows: Windows,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
    name: str,
) -> None:
    arguments = _arguments(tmp_path)
    monkeypatch.setenv(variable, "true")
    with pytest.raises(ModelError, match=f"{name} is not supported: training needs whole weights"):
        IadaTrainer(
            tiny_model(),
            arguments,
            augment=AugmentConfig(),
            train_dataset=windows,
            data_collator=Collator(SPECIAL.pad),
        )


def test_several_gpus_in_one_process_are_refused(
    tiny_model: Build, windows: Windows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TrainingArguments, "n_gpu", property(lambda _: 4))
    with pytest.raises(ModelError, match="One process sees 4 GPUs"):
        _trainer(tiny_model(), windows, tmp_path)


def test_the_learning_rate_follows_the_schedule_from_the_first_update(
    tiny_model: Build, windows: Windows, tmp_path: Path
) -> None:
    trainer = _trainer(
        tiny_model(), windows, tmp_path, max_steps=8, warmup_steps=4, learning_rate=1.0
    )
    trainer.train()
    rates = [line["learning_rate"] for line in trainer.state.log_history if "loss" in line]
    expected = [0.25, 0.5, 0.75, 1.0, (4 / 5) ** 0.5, (4 / 6) ** 0.5, (4 / 7) ** 0.5, 0.5**0.5]
    assert rates == pytest.approx(expected)


def test_windows_that_an_architecture_cannot_read_are_refused_at_the_first_batch(
    windows: Windows, tmp_path: Path
) -> None:
    sizes = {"dim": 16, "feed_forward": 16, "heads": 2, "encoder_layers": 1, "decoder_layers": 1}
    config = ModelConfig(architecture="han", **sizes)  # type: ignore[arg-type]
    model = build_model(config, vocabulary_size=40, special=SPECIAL)
    with pytest.raises(ModelError, match=r"HanModel reads .*has `<sep>` between sentences"):
        _trainer(model, windows, tmp_path).train()
