"""Every augmentation that changes the data trains a model from the command line."""

import json
from pathlib import Path

import pytest
from transformers import AutoModelForSeq2SeqLM

from iada.cli.main import main
from iada.data.tokens.subwords import Subwords

SIZES = (
    *("--model.dim", "32", "--model.feed_forward", "64", "--model.heads", "2"),
    *("--model.encoder_layers", "1", "--model.decoder_layers", "1", "--model.dropout", "0"),
    *("--model.max_positions", "160", "--windows.max_length", "128"),
    *("--train.max_tokens", "1024", "--train.accumulation", "1", "--train.clip_norm", "0"),
    *("--train.max_updates", "60", "--train.validate_every", "20", "--train.log_every", "1"),
    *("--train.warmup_updates", "5", "--train.learning_rate", "5e-3"),
    *("--train.label_smoothing", "0", "--train.patience", "0"),
)
CASES = [
    ("bpe_dropout", "files", ()),
    ("cipher", "prepared", ("--augment.joint_update", "20")),
    ("word_drop", "files", ("--augment.drop", "zero", "--augment.ramp", "10")),
    ("iada_drop_tnorm", "prepared", ("--augment.drop", "zero", "--augment.bpe_dropout", "0.1")),
]


@pytest.mark.slow
@pytest.mark.parametrize(("method", "source", "settings"), CASES)
def test_a_short_training_learns(
    method: str, source: str, settings: tuple[str, ...], mini_corpus: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    data = ["--data.folder", str(mini_corpus), "--subwords.vocabulary_size", "600"]
    flags = ["--method", method, *data, *settings, *SIZES, "--output", str(run)]
    if source == "prepared":
        flags += ["--data.prepared", str(tmp_path / "prepared")]
        assert main(["prepare", *flags, "--workers", "1"]) == 0
    assert main(["train", *flags]) == 0
    lines = (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    dev = [record["dev_nll"] for record in records if "dev_nll" in record]
    assert len(dev) == 3
    assert dev[2] < dev[1] < dev[0]
    terms = [{"original", "perturbed", "agreement"} & record.keys() for record in records]
    first, last = terms[0], [found for found in terms if found][-1]
    expected = {
        "bpe_dropout": ({"original"}, {"original"}),
        "cipher": ({"perturbed"}, {"original", "perturbed", "agreement"}),
        "word_drop": ({"perturbed"}, {"perturbed"}),
    }
    all_terms = ({"original", "perturbed", "agreement"},) * 2
    assert (first, last) == expected.get(method, all_terms)
    model = AutoModelForSeq2SeqLM.from_pretrained(run / "model")
    subwords = Subwords.load(run / "model")
    assert model.config.vocab_size == len(subwords) == 600
    assert (subwords.ciphers is not None) == (method == "cipher")
