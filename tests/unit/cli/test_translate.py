"""`iada translate`: flags become settings, and the input's form that of the output."""

import io
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from iada.cli.translate import TranslateCommand, parse, run
from iada.config.base import to_mapping, write_yaml
from iada.config.data import DataConfig
from iada.config.decode import DecodeConfig
from iada.config.run import load_run_config
from iada.data.documents import Document
from iada.data.formats.readers import read_split, write_split
from iada.decoding.translator import DocumentTranslator
from iada.errors import ConfigError, DataError, RunError
from iada.evaluation.score_runs import score_run


@pytest.fixture
def folder(trained_run: Path, tmp_path: Path) -> Path:
    return shutil.copytree(trained_run, tmp_path / "run")


def details(output: Path) -> dict[str, object]:
    found = json.loads(output.with_name(f"{output.name}.json").read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


def test_flags_are_parsed() -> None:
    command = parse(["r", "--engine", "prefill", "--precision", "int8", "--n_best", "3"])
    decode = DecodeConfig(engine="prefill", precision="int8", n_best=3)
    assert command == TranslateCommand(run=Path("r"), decode=decode)


def test_every_search_setting_is_a_flag_and_the_run_has_the_defaults(folder: Path) -> None:
    config = folder / "config.yaml"
    saved = config.read_text(encoding="utf-8")
    # Eight hypotheses fit the beam of the run, not the usual one.
    config.write_text(saved.replace("beam: 5", "beam: 9"), encoding="utf-8")
    command = parse(["--no_exact_batches", str(folder), "--n_best", "8", "--length_penalty", "0.5"])
    assert command.decode == DecodeConfig(beam=9, n_best=8, length_penalty=0.5, exact_batches=False)
    assert command.run == folder


@pytest.mark.parametrize(
    ("flags", "engine"),
    [([], "prefill"), (["--engine", "huggingface"], "huggingface"), (["--beam", "1"], "prefill")],
)
def test_flags_win_over_the_run(folder: Path, flags: list[str], engine: str) -> None:
    output = run(parse([str(folder), *flags]))
    assert output == folder / "translations" / "test.de"
    assert details(output)["engine"] == engine
    assert details(output)["beam"] == (1 if "--beam" in flags else 5)


def test_engines_write_the_same_file(folder: Path) -> None:
    written = [
        run(parse([str(folder), "--engine", name, "--output", str(folder / name)])).read_text(
            "utf-8"
        )
        for name in ("prefill", "huggingface")
    ]
    lines = list(zip(*(text.split("\n") for text in written), strict=True))
    assert sum(left == right for left, right in lines) >= 0.99 * len(lines)


@pytest.mark.parametrize(
    "flags",
    [
        ["--target_context", "gold"],
        ["--target_context", "none"],
        ["--source_context", "random"],
        ["--source_context", "none"],
        ["--unit", "window"],
        ["--precision", "int8"],
    ],
    ids=" ".join,
)
def test_every_mode_translates_every_line(
    folder: Path, mini_corpus: Path, flags: list[str]
) -> None:
    output = run(parse([str(folder), "--beam", "2", *flags]))
    source = (mini_corpus / "test.en").read_text(encoding="utf-8").split("\n")
    translated = output.read_text(encoding="utf-8").split("\n")
    assert len(translated) == len(source)
    assert [line == "" for line in source] == [
        line == "" and given == "" for line, given in zip(translated, source, strict=True)
    ]


def test_all_translations_are_written(folder: Path) -> None:
    output = run(parse([str(folder), "--n_best", "2"]))
    best = [line for line in output.read_text(encoding="utf-8").split("\n") if line]
    lines = output.with_name("test.de.nbest.jsonl").read_text(encoding="utf-8").splitlines()
    entries = [json.loads(line)["hypotheses"] for line in lines]
    assert all(len(hypotheses) == 2 for hypotheses in entries)
    assert [hypotheses[0]["text"] for hypotheses in entries if hypotheses[0]["text"]] == best
    assert all(one["score"] >= two["score"] for one, two in entries)


def test_a_table_comes_back_as_a_table(folder: Path, tmp_path: Path) -> None:
    source = tmp_path / "in.tsv"
    source.write_text("document\ten\n1\tGood morning .\n2\tYes .\n", encoding="utf-8")
    output = run(parse([str(folder), "--input", str(source)]))
    assert output == folder / "translations" / "in.tsv"
    header, *rows = output.read_text(encoding="utf-8").splitlines()
    assert header == "document\ten\tde"
    assert [row.split("\t")[:2] for row in rows] == [["1", "Good morning ."], ["2", "Yes ."]]


def test_a_dry_run_counts_any_form(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "in.jsonl"
    source.write_text('{"source": ["a", "b"]}\n{"source": ["c"]}\n', encoding="utf-8")
    run(parse([str(folder), "--input", str(source), "--dry_run"]))
    assert "in.jsonl: 2 lines, 2 documents" in capsys.readouterr().out
    assert not (folder / "translations").exists()


def test_a_finished_translation_is_kept_unless_told_otherwise(folder: Path, tmp_path: Path) -> None:
    source, output = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("Good morning .\n", encoding="utf-8")
    arguments = [str(folder), "--input", str(source), "--output", str(output)]
    output.write_text("precious\n", encoding="utf-8")
    with pytest.raises(RunError, match=r"out\.txt already exists\. Give `--overwrite`"):
        run(parse(arguments))
    assert output.read_text(encoding="utf-8") == "precious\n"
    # An interrupted translation has a journal.
    journal = tmp_path / "out.txt.journal"
    journal.touch()
    run(parse(arguments))
    translated = output.read_text(encoding="utf-8")
    assert translated != "precious\n"
    assert not journal.exists()
    output.write_text("old\n", encoding="utf-8")
    run(parse([*arguments, "--overwrite"]))
    assert output.read_text(encoding="utf-8") == translated


def test_a_minus_is_standard_input_and_output(
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = "Good morning .\n\nYes .\n"
    (tmp_path / "in.txt").write_text(text, encoding="utf-8")
    output = run(parse([str(folder), "--input", str(tmp_path / "in.txt")]))
    expected = output.read_text(encoding="utf-8")
    capsys.readouterr()
    for flags in (["--input", "-", "--output", "-"], ["--input", "-"]):
        stdin = io.TextIOWrapper(io.BytesIO(text.encode()), encoding="utf-8")
        monkeypatch.setattr("sys.stdin", stdin)
        assert run(parse([str(folder), *flags])) == Path("-")
        assert capsys.readouterr().out == expected
    with pytest.raises(ConfigError, match="`--n_best` writes a second file"):
        run(parse([str(folder), "--output", "-", "--n_best", "2"]))


def test_references_without_an_input_are_refused(folder: Path) -> None:
    with pytest.raises(ConfigError, match="`--references` describes a given input"):
        run(parse([str(folder), "--references", "x"]))


def test_gold_context_without_references_is_refused(folder: Path, tmp_path: Path) -> None:
    source = tmp_path / "in.txt"
    source.write_text("Good morning .\n", encoding="utf-8")
    arguments = [str(folder), "--input", str(source), "--target_context", "gold"]
    with pytest.raises(DataError, match="needs a reference"):
        run(parse(arguments))
    reference = tmp_path / "ref.txt"
    reference.write_text("Guten Morgen .\n", encoding="utf-8")
    assert run(parse([*arguments, "--references", str(reference)])).is_file()


def test_prose_is_split_and_its_paragraphs_come_back(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "letter.txt"
    path.write_text("Hello, Felix! My lamp broke. I liked it.\n\nWhere is it?\n", encoding="utf-8")
    output = run(parse([str(folder), "--input", str(path), "--split", "sentences"]))
    assert details(output)["sentences"] == 5
    assert details(output)["documents"] == 1
    lines = output.read_text(encoding="utf-8").split("\n")
    assert [bool(line) for line in lines] == [True, False, True, False]
    sentences = tmp_path / "sentences.txt"
    text = "Hello, Felix!\nMy lamp broke.\nI liked it.\n\nWhere is it?\n"
    sentences.write_text(text, encoding="utf-8")
    one_by_one = run(parse([str(folder), "--input", str(sentences), "--boundaries", "none"]))
    first, second, third, *_ = one_by_one.read_text(encoding="utf-8").split("\n")
    assert lines[0] == f"{first} {second} {third}"


def test_a_sentence_that_is_too_long_is_translated_in_parts(
    folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "long.txt"
    path.write_text("My lamp broke, " * 60 + "\nI liked it.\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"Split the sentence, .*`decode\.on_long: split`"):
        run(parse([str(folder), "--input", str(path)]))
    output = run(parse([str(folder), "--input", str(path), "--on_long", "split", "--beam", "1"]))
    lines = output.read_text(encoding="utf-8").split("\n")
    assert len(lines) == 3
    assert "1 sentences are longer than the model can take (128 tokens)" in caplog.text
    assert caplog.text.count("longer than the model can take") == 1
    translator = DocumentTranslator.load(folder, decode=DecodeConfig(on_long="split", beam=1))
    assert translator.translate(["My lamp broke, " * 60, "I liked it."]) == lines[:2]


@pytest.mark.parametrize("name", ["test.tmx", "test.xlf", "test.po"])
def test_files_of_translation_tools_come_back_filled(
    folder: Path, mini_corpus: Path, tmp_path: Path, name: str
) -> None:
    data = DataConfig(folder=mini_corpus)
    documents = read_split(data, "test")[:2]
    path = tmp_path / name
    if name == "test.po":
        messages = [
            f'#: {number}.page:1\nmsgid "{sentence}"\nmsgstr ""\n'
            for number, document in enumerate(documents)
            for sentence in dict.fromkeys(document.source.sentences)
        ]
        path.write_text("\n".join(messages), encoding="utf-8")
    else:
        empty = [replace(d, target=Document(d.name, ("",) * len(d))) for d in documents]
        write_split(DataConfig(folder=tmp_path, train=name), "train", empty)
    output = run(parse([str(folder), "--input", str(path), "--beam", "1"]))
    read = read_split(DataConfig(folder=output.parent, train=output.name), "train")
    sources = [Document(d.name, d.source.sentences) for d in read]
    translated = DocumentTranslator.load(folder, decode=DecodeConfig(beam=1)).translate(sources)
    # White space around a segment is not part of it.
    expected = [[sentence.strip() for sentence in d.sentences] for d in translated]
    assert [[sentence.strip() for sentence in d.target.sentences] for d in read] == expected
    if name != "test.po":
        assert [d.source.sentences for d in read] == [d.source.sentences for d in documents]


def test_a_test_split_of_a_memory_is_translated_and_scored(folder: Path, mini_corpus: Path) -> None:
    data = DataConfig(folder=mini_corpus)
    written = DataConfig(folder=folder, test="test.tmx", boundaries="none")
    write_split(written, "test", read_split(data, "test")[:2])
    config = folder / "config.yaml"
    changed = replace(load_run_config(config), data=written)
    write_yaml(config, to_mapping(changed))
    scores, _ = score_run(folder)
    assert (folder / "translations" / "test.tmx").is_file()
    assert scores["s_bleu"]


def test_approved_segments_are_kept_and_counted(folder: Path, tmp_path: Path) -> None:
    source, output = tmp_path / "letter.xlf", tmp_path / "out.xlf"
    source.write_text(
        '<xliff version="1.2"><file source-language="en" target-language="de"><body>'
        '<trans-unit id="1" approved="yes"><source>The lamp was new.</source>'
        "<target>Neu war sie.</target></trans-unit>"
        '<trans-unit id="2"><source>It was green.</source></trans-unit></body></file></xliff>',
        encoding="utf-8",
    )
    command = TranslateCommand(run=folder, input=source, output=output, decode=DecodeConfig(beam=1))
    run(command)
    assert "<target>Neu war sie.</target>" in output.read_text(encoding="utf-8")
    assert (details(output)["kept"], details(output)["sentences"]) == (1, 2)
    run(replace(command, overwrite=True, overwrite_targets=True))
    assert "Neu war sie." not in output.read_text(encoding="utf-8")
    assert details(output)["kept"] == 0


def test_an_ensemble_of_a_run_with_itself_translates_what_the_run_translates(
    folder: Path, tmp_path: Path
) -> None:
    source, output = tmp_path / "letter.en", tmp_path / "letter.de"
    source.write_text("The lamp was new.\nIt was green.\n", encoding="utf-8")
    command = TranslateCommand(run=folder, input=source, output=output)
    run(command)
    alone = output.read_text(encoding="utf-8")
    run(replace(command, ensemble=(folder,), overwrite=True))
    assert output.read_text(encoding="utf-8") == alone
    assert (details(output)["models"], details(output)["engine"]) == (2, "prefill")
    parsed = parse([str(folder), "--ensemble", "a", "b", "--input", "c"])
    assert parsed.ensemble == (Path("a"), Path("b"))


def test_markup_is_refused_before_the_model_is_loaded(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DocumentTranslator, "load", None)
    page = tmp_path / "page.html"
    page.write_text("<html><body>Hello</body></html>\n", encoding="utf-8")
    with pytest.raises(DataError, match="it is markup and not plain text"):
        run(parse([str(folder), "--input", str(page), "--processes", "1"]))
