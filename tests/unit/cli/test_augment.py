"""`iada augment` from the outside: files, flags and refusals."""

import json
from pathlib import Path

import pytest
import yaml

from iada.cli.augment import parse, run
from iada.cli.main import main
from iada.config.method import AugmentConfig
from iada.data.formats.readers import read_parallel
from iada.errors import ConfigError, RunError

Capture = pytest.CaptureFixture[str]


def lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").split("\n")


def test_the_run_gives_the_defaults_and_flags_win(trained_run: Path, mini_corpus: Path) -> None:
    flags = ["--output", "o", "--augment.alpha", "0.5", "--data.train", "x.{language}"]
    command = parse([str(trained_run), *flags])
    assert command.data.folder == mini_corpus
    assert command.data.train == "x.{language}"
    # Other toolkits would learn perturbed targets as labels.
    assert command.augment == AugmentConfig(alpha=0.5, sides="source")
    both = parse([str(trained_run), "--output", "o", "--augment.sides", "both"])
    assert both.augment.sides == "both"
    swapped = parse([str(trained_run), "--kind=back_translate", "--output", "o"]).data
    assert (swapped.source_language, swapped.target_language) == ("de", "en")
    assert parse([str(trained_run), "--output", "o"]).data.source_language == "en"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ([], "Give the folder to write"),
        (["--output", "o", "--tag", "<bt>"], "`--tag` marks translations"),
    ],
)
def test_flags_that_make_no_sense_are_refused(
    trained_run: Path, flags: list[str], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        parse([str(trained_run), *flags])


def test_a_run_is_needed(tmp_path: Path, capsys: Capture) -> None:
    assert main(["augment", "--output", "o"]) == 2
    assert "Give the run folder of a model" in capsys.readouterr().err
    assert main(["augment", str(tmp_path), "--output", "o"]) == 2
    assert "is not a run folder" in capsys.readouterr().err
    assert main(["augment", "--help_all"]) == 0
    assert "--augment.alpha" in capsys.readouterr().out


@pytest.mark.parametrize("replacement", ["drop", "replace"])
def test_copies_are_written_line_for_line(
    trained_run: Path, mini_corpus: Path, tmp_path: Path, capsys: Capture, replacement: str
) -> None:
    output = tmp_path / "out"
    arguments = ["augment", str(trained_run), "--output", str(output), "--split", "test"]
    settings = ["--augment.measure", "gnorm", "--augment.replacement", replacement]
    options = ["--copies", "2", "--details", "--augment.p_current", "0.3"]
    options += ["--augment.sides", "both"]
    assert main([*arguments, *settings, *options]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == str(output)
    names = {f"test.{copy}.{kind}" for copy in (1, 2) for kind in ("en", "de", "jsonl")}
    assert {path.name for path in output.iterdir()} == names
    for language in ("en", "de"):
        before = lines(mini_corpus / f"test.{language}")
        copies = [lines(output / f"test.{copy}.{language}") for copy in (1, 2)]
        assert copies[0] != copies[1]
        for copy in copies:
            assert len(copy) == len(before)
            assert [not line for line in copy] == [not line for line in before]
            changed = sum(a != b for a, b in zip(copy, before, strict=True))
            assert 0 < changed < len(before)
            assert (sum("<mask>" in line for line in copy) == changed) == (replacement == "drop")
    documents = read_parallel(output / "test.1.en", output / "test.1.de")
    records = [json.loads(line) for line in lines(output / "test.1.jsonl")[:-1]]
    sentences = [s for document in documents for s in document.source.sentences]
    assert len(records) == len(sentences)
    original = [line for line in lines(mini_corpus / "test.en") if line]
    for record, before, after in zip(records, original, sentences, strict=True):
        side = record["source"]
        assert len(side["tokens"]) == len(side["importance"]) == len(side["probability"])
        assert "".join(side["tokens"]).replace("▁", " ").strip() == before
        assert bool(side["replaced"]) or before == after
        if replacement == "drop":
            assert after.split().count("<mask>") == len(side["replaced"])
            assert all(swap["by"] == "<mask>" for swap in side["replaced"])


def test_the_mask_can_be_another_word_and_a_side_can_stay(
    trained_run: Path, mini_corpus: Path, tmp_path: Path
) -> None:
    output = tmp_path / "out"
    flags = ["--augment.replacement", "drop", "--augment.sides", "source", "--mask_text", "[MASK]"]
    role = ["--role", "context", "--split", "dev"]
    assert main(["augment", str(trained_run), "--output", str(output), *flags, *role]) == 0
    assert (output / "dev.1.de").read_bytes() == (mini_corpus / "dev.de").read_bytes()
    text = (output / "dev.1.en").read_text(encoding="utf-8")
    assert "[MASK]" in text
    # The last sentence of a document is nobody's context.
    before = (mini_corpus / "dev.en").read_text(encoding="utf-8").rstrip("\n").split("\n\n")
    after = text.rstrip("\n").split("\n\n")
    for left, right in zip(before, after, strict=True):
        assert left.split("\n")[-1] == right.split("\n")[-1]


def test_any_format_is_read_and_text_is_written(trained_run: Path, tmp_path: Path) -> None:
    rows = ["document\tsource\ttarget", "a\tHello.\tHallo.", "a\t\tLeer.", "b\tBye.\tTschüss."]
    (tmp_path / "c.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    output = tmp_path / "out"
    flags = ["--data.folder", str(tmp_path), "--data.train", "c.tsv", "--augment.p_current", "0"]
    assert main(["augment", str(trained_run), "--output", str(output), *flags]) == 0
    assert lines(output / "train.1.en") == ["<d>", "Hello.", "", "<d>", "Bye.", ""]
    assert lines(output / "train.1.de") == ["<d>", "Hallo.", "Leer.", "<d>", "Tschüss.", ""]


def test_an_output_is_whole_or_absent_and_never_overwritten(
    trained_run: Path, tmp_path: Path
) -> None:
    (tmp_path / "train.en").write_text("a\n\nb\n", encoding="utf-8")
    (tmp_path / "train.de").write_text("x\n\ny\nz\n", encoding="utf-8")
    output = tmp_path / "out"
    flags = ["--data.folder", str(tmp_path)]
    assert main(["augment", str(trained_run), "--output", str(output), *flags]) == 2
    assert not output.exists()
    (tmp_path / "train.de").write_text("x\n\ny\n", encoding="utf-8")
    assert main(["augment", str(trained_run), "--output", str(output), *flags]) == 0
    assert not output.with_name("out.partial").exists()
    with pytest.raises(RunError, match="already exists"):
        run(parse([str(trained_run), "--output", str(output), *flags]))


@pytest.mark.parametrize("kind", ["perturb", "forward_translate"])
def test_a_dry_run_writes_nothing(
    trained_run: Path, tmp_path: Path, capsys: Capture, kind: str
) -> None:
    output = tmp_path / "out"
    arguments = ["augment", str(trained_run), "--output", str(output), "--kind", kind]
    assert main([*arguments, "--dry_run"]) == 0
    assert "30 documents" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


def test_forward_translation_says_how_to_train_with_it(
    trained_run: Path, tmp_path: Path, capsys: Capture
) -> None:
    for name, text in (("en", "Hello.\n\nBye.\n"), ("de", "Hallo.\n\nTschüss.\n")):
        for split in ("train", "dev"):
            (tmp_path / f"{split}.{name}").write_text(text, encoding="utf-8")
    output = tmp_path / "out"
    flags = ["--kind", "forward_translate", "--beam", "1", "--tag", "<ft>"]
    folders = ["--output", str(output), "--data.folder", str(tmp_path)]
    assert main(["augment", str(trained_run), *flags, *folders]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown == [f"train with --data.folder {output} --subwords.tags '<ft>'", str(output)]
    assert lines(output / "train.en")[4:] == ["<ft> Hello.", "", "<ft> Bye.", ""]
    details = json.loads((output / "synthesis.json").read_text(encoding="utf-8"))
    assert details["plan"]["decode"]["beam"] == 1


def test_inspect_counts_parts_of_speech(trained_run: Path, capsys: Capture) -> None:
    flags = ["--pos", "--measure", "uniform", "--tagger", "gold", "--draws", "3"]
    assert main(["inspect", str(trained_run), *flags]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["measure"], shown["tagger"], shown["draws"]) == ("uniform", "gold", 3)
    for role in ("context", "current"):
        shares = shown[role]["expected"]
        assert sum(shares[tag] for tag in shares if tag != "total") == pytest.approx(100)
        assert shares["NOUN"] == pytest.approx(shown[role]["tokens"]["NOUN"])
    assert main(["inspect", str(trained_run), "--pos", "--source", "a", "--target", "b"]) == 2
    assert "`--pos` counts in the test split" in capsys.readouterr().err


def test_the_defaults_of_the_augmentation_are_the_runs_own(
    trained_run: Path, tmp_path: Path
) -> None:
    config = yaml.safe_load((trained_run / "config.yaml").read_text(encoding="utf-8"))
    config["augment"]["alpha"] = 0.25
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    command = parse([str(tmp_path), "--output", "o"])
    assert command.augment.alpha == 0.25
    assert AugmentConfig().alpha != 0.25
