"""The examples run as they are, and a batch of the wrong kind is refused with advice."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.warm_processes import WarmProcess
from transformers import AutoModelForSeq2SeqLM, DataCollatorForSeq2Seq, TrainingArguments

import iada
from iada.errors import DataError

ROOT = Path(__file__).parents[2]
Checkpoint = Callable[[str], Path]
PAIR = (["The dog is old.", "It sleeps."], ["Der Hund ist alt.", "Er schläft."])


def _run(name: str, *arguments: Path) -> str:
    process = WarmProcess([str(ROOT / "examples" / name), *map(str, arguments)])
    output, errors = process.communicate()
    assert process.returncode == 0, errors.decode()[-2000:]
    return output.decode()


def test_a_model_is_fine_tuned_in_about_ten_lines(
    checkpoint: Checkpoint, mini_corpus: Path, tmp_path: Path
) -> None:
    _run("fine_tune.py", checkpoint("marian"), mini_corpus, tmp_path / "out")
    trained = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "out").state_dict()
    before = AutoModelForSeq2SeqLM.from_pretrained(checkpoint("marian")).state_dict()
    assert any(not trained[name].equal(tensor) for name, tensor in before.items())
    assert (tmp_path / "out" / "source.spm").is_file()


def test_the_objective_serves_a_loop_of_ones_own(checkpoint: Checkpoint) -> None:
    lines = _run("plain_loop.py", checkpoint("bart")).splitlines()
    losses = [float(line.split(": ")[1]) for line in lines]
    assert len(losses) == 30
    assert losses[-1] < 0.9 * losses[0]


def test_documents_are_translated_and_looked_at(checkpoint: Checkpoint) -> None:
    lines = _run("translate_documents.py", checkpoint("nllb")).splitlines()
    assert lines[2].startswith("eng_Latn")
    assert lines[-1].startswith("</s>")


def test_the_notebook_runs_from_the_first_cell_to_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = ROOT / "examples" / "first_model.ipynb"
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    assert all(not cell.get("outputs") for cell in cells), "commit notebooks without outputs"
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__"}
    smaller = {"UPDATES": 4, "TRAIN_DOCUMENTS": 18, "OTHER_DOCUMENTS": 2}
    for cell in cells:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), f"{path.name}:{cell['id']}", "exec"), names)
            if "parameters" in cell["metadata"].get("tags", []):
                assert smaller.keys() <= names.keys()
                names |= smaller
    assert [update for update, _ in names["curve"].points] == [4]
    assert len(names["translations"]) == 2
    shown = capsys.readouterr().out
    assert "dev NLL" in shown
    assert "nrefs:1" in shown
    assert "CURRENT" in shown


def test_a_batch_without_roles_is_refused_with_what_to_use(
    checkpoint: Checkpoint, tmp_path: Path
) -> None:
    model = AutoModelForSeq2SeqLM.from_pretrained(checkpoint("bart"))
    windows = iada.DocumentWindows([PAIR], checkpoint("bart"), ("en", "de"))
    tokenizer = windows.subwords.tokenizer
    rows = [dict(tokenizer(s, text_target=t)) for s, t in zip(*PAIR, strict=True)]
    trainer = iada.IadaTrainer(
        model,
        TrainingArguments(
            str(tmp_path), max_steps=1, remove_unused_columns=False, report_to="none", use_cpu=True
        ),
        augment=iada.AugmentConfig(),
        train_dataset=rows,
        data_collator=DataCollatorForSeq2Seq(tokenizer, model=model),
        processing_class=tokenizer,
    )
    with pytest.raises(DataError) as error:
        trainer.train()
    message = str(error.value)
    assert "The batch lacks `noise_key`, `source_roles`" in message
    assert "`iada.DocumentWindows`" in message
    assert "`data_collator`" in message


def test_windows_of_lists_are_those_of_documents(checkpoint: Checkpoint) -> None:
    document = iada.ParallelDocument(*(iada.Document("d", tuple(side)) for side in PAIR))
    cut = [
        iada.DocumentWindows([given], checkpoint("t5"), ("en", "de"), context=1)
        for given in (PAIR, document)
    ]
    one, other = (next(windows.batches(max_tokens=200)) for windows in cut)
    assert one["input_ids"].equal(other["input_ids"])
    assert len(list(cut[0].batches(max_tokens=50, epochs=2))) == 2 * len(cut[0].sampler(50))
