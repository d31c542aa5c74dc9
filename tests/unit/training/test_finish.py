"""What a run leaves: the best checkpoint by NLL or BLEU, or an average that is better; a card."""

import json
import logging
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from safetensors.torch import load_file, save_file
from transformers import TrainerCallback

from iada.config.data import SubwordConfig
from iada.config.run import RunConfig
from iada.config.train import TrainConfig
from iada.data.formats.readers import read_split
from iada.decoding.translator import DocumentTranslator
from iada.errors import ConfigError, DataError, RunError
from iada.evaluation.metrics import document_bleu, sentence_bleu
from iada.evaluation.score_runs import add_scores
from iada.runs.folder import RunFolder
from iada.training.finish import average_weights
from iada.training.train import train

TinyRun = Callable[..., RunConfig]
Read = Callable[[Path], dict[str, bytes]]


def _checkpoint(folder: Path, values: dict[str, Any], width: int = 2) -> Path:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"d_model": width}), encoding="utf-8")
    tensors = {name: torch.tensor(value) for name, value in values.items()}
    save_file(tensors, folder / "model.safetensors")
    return folder


def _weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def _dev_scores(folder: RunFolder, key: str) -> dict[int, float]:
    lines = map(json.loads, folder.metrics_file.read_text(encoding="utf-8").splitlines())
    return {line["update"]: line[key] for line in lines if key in line}


def test_the_average_is_the_mean_of_every_weight(tmp_path: Path) -> None:
    folders = [
        _checkpoint(tmp_path / str(n), {"w": [1.0 * n, 3.0], "count": [7]}) for n in (1, 2, 6)
    ]
    found = average_weights(folders)
    assert found["w"].tolist() == [3.0, 3.0]
    assert found["w"].dtype == torch.float32
    assert found["count"].tolist() == [7]


@pytest.mark.parametrize(
    ("other", "width", "message"),
    [
        ({"w": [1.0]}, 3, "config.json differ"),
        ({"v": [1.0]}, 2, "different weights"),
        ({"w": [1.0, 2.0]}, 2, "w has different shapes"),
    ],
)
def test_checkpoints_of_different_models_are_not_averaged(
    other: dict[str, Any], width: int, message: str, tmp_path: Path
) -> None:
    first = _checkpoint(tmp_path / "1", {"w": [1.0]})
    second = _checkpoint(tmp_path / "2", other, width)
    with pytest.raises(RunError, match=message):
        average_weights([first, second])


def test_the_last_checkpoints_are_kept_and_averaged(
    tiny_run: TinyRun, best_at: Callable[[int], None], caplog: pytest.LogCaptureFixture
) -> None:
    best_at(2)
    config = tiny_run(max_updates=10, keep_checkpoints=1, average=3, average_keep="always")
    with caplog.at_level(logging.INFO, logger="iada"):
        folder = train(config)
    names = [f"checkpoint-{update}" for update in (6, 8, 10)]
    assert {path.name for path in folder.checkpoints.iterdir()} == {"checkpoint-2", *names}
    saved = [_weights(folder.checkpoints / name) for name in names]
    for name, weight in _weights(folder.model).items():
        mean = torch.stack([one[name].double() for one in saved]).mean(dim=0)
        torch.testing.assert_close(weight, mean.float())
    made = json.loads((folder.model / "averaging.json").read_text(encoding="utf-8"))
    assert made["checkpoints"] == names
    assert made["kept"] == "average"
    (line,) = (text for text in caplog.messages if text.startswith("Average of"))
    assert f"dev nll {made['best']['nll']:.4f} (best checkpoint)" in line
    assert f"{made['average']['nll']:.4f} (average)" in line


def test_the_better_of_best_checkpoint_and_average_is_the_model(tiny_run: TinyRun) -> None:
    # The NLL falls from validation to validation, so that the mean of all of them is worse.
    folder = train(tiny_run(average=3, learning_rate=0.03, warmup_updates=1))
    made = json.loads((folder.model / "averaging.json").read_text(encoding="utf-8"))
    scores = _dev_scores(folder, "dev_nll")
    assert made["best"]["nll"] == pytest.approx(min(scores.values()), rel=1e-6)
    assert made["kept"] == ("average" if made["average"]["nll"] < made["best"]["nll"] else "best")
    best = folder.checkpoints / f"checkpoint-{min(scores, key=lambda u: scores[u])}"
    is_best = all(torch.equal(w, _weights(best)[n]) for n, w in _weights(folder.model).items())
    assert is_best == (made["kept"] == "best")
    # No validation of it is among those of the training.
    assert list(scores) == [2, 4, 6]


def test_a_run_killed_before_its_average_was_saved_leaves_the_same(
    tiny_run: TinyRun, read_folder: Read, caplog: pytest.LogCaptureFixture
) -> None:
    settings = {"average": 2, "average_keep": "always"}
    straight, config = train(tiny_run("straight", **settings)), tiny_run("killed", **settings)
    shutil.copytree(straight.path, config.output)
    shutil.rmtree(config.output / "model")
    killed = train(config, resume=True)
    assert read_folder(killed.model) == read_folder(straight.model)
    with caplog.at_level(logging.INFO, logger="iada"):
        train(config, resume=True)
    assert caplog.messages == [f"{killed.path} is finished after 6 updates."]
    # Killed in the middle, it keeps what it needs.
    shutil.rmtree(config.output / "model")
    shutil.rmtree(config.output / "checkpoints" / "checkpoint-6")
    train(config, resume=True)
    assert read_folder(killed.model) == read_folder(straight.model)


def test_a_finished_run_is_averaged_on_request_with_what_it_has(
    tiny_run: TinyRun, caplog: pytest.LogCaptureFixture
) -> None:
    train(tiny_run(keep_checkpoints=2))
    with caplog.at_level(logging.WARNING, logger="iada"):
        folder = train(tiny_run(keep_checkpoints=2, average=5), resume=True)
    assert "`train.average` is 5, but the run has 2 complete checkpoints to average." in caplog.text
    assert folder.config().train.average == 5
    assert (folder.model / "averaging.json").is_file()


@pytest.fixture
def learned_run(trained_run: Path, tmp_path: Path) -> TinyRun:
    """Return a function to configurations that go on from a model which translates a little."""

    def configure(name: str, **settings: Any) -> RunConfig:
        config = RunFolder(trained_run).config()
        defaults = {"start": trained_run, "max_updates": 4, "validate_every": 2, "log_every": 1}
        return replace(
            config,
            output=tmp_path / name,
            subwords=SubwordConfig(vocabulary_size=450),
            train=replace(config.train, start_rate=1.0, **(defaults | settings)),
        )

    return configure


def test_the_best_checkpoint_is_found_by_translation(
    learned_run: TinyRun, mini_corpus: Path
) -> None:
    config = learned_run("run", metric="s_bleu", keep_checkpoints=5)
    folder = train(config)
    scores = {key: _dev_scores(folder, f"dev_{key}") for key in ("nll", "s_bleu", "d_bleu")}
    assert [list(values) for values in scores.values()] == [[2, 4]] * 3
    assert max(scores["s_bleu"].values()) > 0
    checkpoint = folder.last_checkpoint()
    assert checkpoint is not None
    best = max(scores["s_bleu"], key=lambda update: scores["s_bleu"][update])
    assert checkpoint.best.name == f"checkpoint-{best}"

    # What validation computed is what a greedy translation of the documents scores.
    translator = DocumentTranslator.load(folder.path, decode=replace(config.decode, beam=1))
    documents = read_split(config.data, "dev")
    texts = translator.translate([document.source for document in documents])
    references = [document.target for document in documents]
    for key, measure in (("s_bleu", sentence_bleu), ("d_bleu", document_bleu)):
        score = measure(texts, references, language="de").score
        assert score == pytest.approx(scores[key][best], abs=1e-9)


def test_translating_in_between_changes_no_update_and_resumes_exactly(
    learned_run: TinyRun, read_folder: Read
) -> None:
    by_nll = train(learned_run("nll", keep_checkpoints=5))
    config = learned_run("bleu", metric="d_bleu", keep_checkpoints=5)
    by_bleu = train(config)
    name = "checkpoints/checkpoint-4/model.safetensors"
    assert (by_nll.path / name).read_bytes() == (by_bleu.path / name).read_bytes()

    killed = config.output.parent / "killed"
    shutil.copytree(by_bleu.path, killed)
    shutil.rmtree(killed / "model")
    shutil.rmtree(killed / "checkpoints" / "checkpoint-4")
    resumed = train(replace(config, output=killed), resume=True)
    assert read_folder(resumed.model) == read_folder(by_bleu.model)
    assert _dev_scores(resumed, "dev_d_bleu") == _dev_scores(by_bleu, "dev_d_bleu")

    other = replace(config, decode=replace(config.decode, max_length_offset=3))
    with pytest.raises(RunError, match=r"decode\.max_length_offset"):
        train(other, resume=True)


def test_training_stops_when_translations_no_longer_improve(learned_run: TinyRun) -> None:
    # Nothing is 100 points better than the first validation.
    config = learned_run(
        "run", metric="s_bleu", patience=1, min_delta=100.0, max_updates=6, validate_every=1
    )
    assert list(_dev_scores(train(config), "dev_s_bleu")) == [1, 2]


def test_validation_documents_that_cannot_be_translated_are_refused_at_the_start(
    learned_run: TinyRun,
) -> None:
    config = learned_run("run", metric="s_bleu")
    data = config.output.parent / "corpus"
    shutil.copytree(config.data.folder, data)
    words = " ".join(["lamp"] * 200)
    (data / "dev.en").write_text(f"{words}\n", encoding="utf-8")
    (data / "dev.de").write_text("Lampe\n", encoding="utf-8")
    with pytest.raises(DataError, match="tokens but"):
        train(replace(config, data=replace(config.data, folder=data)))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"average": 1}, "`train.average` must be 0, or at least 2"),
        ({"validation_beam": 0}, "beam"),
    ],
)
def test_settings_without_meaning_are_refused(settings: dict[str, int], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        TrainConfig(**settings)  # type: ignore[arg-type]


def test_the_best_checkpoint_translates_while_training_goes_on(learned_run: TinyRun) -> None:
    config = learned_run("run", max_updates=4)
    found = []

    class Look(TrainerCallback):
        def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            translator = DocumentTranslator.load(config.output)
            found.append((state.global_step, translator.translate(["The lamp is new."])))

    folder = train(config, callbacks=[Look()])
    assert [update for update, _ in found] == [2, 4]
    assert found[-1][1] == DocumentTranslator.load(folder.path).translate(["The lamp is new."])


def test_the_card_tells_what_the_run_knows_and_follows_its_scores(
    trained_run: Path, tmp_path: Path
) -> None:
    run = tmp_path / "copy"
    shutil.copytree(trained_run, run)
    card = (run / "model" / "README.md").read_text(encoding="utf-8")
    _, front, text = card.split("---\n", 2)
    fields = yaml.safe_load(front)
    assert fields["language"] == ["en", "de"]
    assert fields["pipeline_tag"] == "translation"
    assert fields["license_name"] == "fill-in"
    assert "| this model | *fill in* |" in text
    assert "s-BLEU" not in text
    assert str(tmp_path) not in card
    assert str(trained_run.parent) not in card

    score = {"score": 12.345, "signature": "nrefs:1|case:mixed"}
    add_scores(RunFolder(run), {"s_bleu": score})
    scored = (run / "model" / "README.md").read_text(encoding="utf-8")
    assert "| s-BLEU | 12.35 |" in scored or "| s-BLEU | 12.34 |" in scored
    assert "- s-BLEU: `nrefs:1|case:mixed`" in scored
    add_scores(RunFolder(run), {}, stale=("s_bleu",))
    assert (run / "model" / "README.md").read_text(encoding="utf-8") == card


def test_the_code_of_the_card_loads_the_model(
    trained_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = trained_run / "model"
    card = (model / "README.md").read_text(encoding="utf-8")
    code = card.partition("```python\n")[2].partition("```")[0]
    exec(code.replace("path or hub name of this folder", str(model)), {})
    (line,) = capsys.readouterr().out.splitlines()
    expected = DocumentTranslator.load(trained_run, engine="huggingface")
    expected = DocumentTranslator(
        expected.model,
        expected.subwords,
        windows=expected.windows,
        decode=replace(expected.decode, beam=1, max_length_offset=60),
    )
    (translation,) = expected.translate(["A sentence to translate."])
    assert json.loads(line.replace("'", '"'))[0].split() == translation.split()
