"""FlatTrans and G-Transformer on BERT: its encoder and tokenizer, a decoder and pieces of ours."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, BertModel

from iada.cli.main import main
from iada.config.base import to_mapping
from iada.config.data import DataConfig, SubwordConfig, WindowConfig
from iada.config.decode import DecodeConfig
from iada.config.method import AugmentConfig, Method, augmentation
from iada.config.model import ModelConfig
from iada.config.run import RunConfig
from iada.config.train import LoraConfig, TrainConfig
from iada.data.documents import Document
from iada.data.tokens.paired_subwords import PairedSubwords, WordPieces
from iada.data.tokens.pretrained_subwords import load_subwords
from iada.data.windows.batch import Batch, Collator, Role
from iada.decoding.translator import DocumentTranslator, load_model
from iada.errors import ConfigError, ModelError
from iada.experiments.definitions import build_experiment
from iada.experiments.plan import Ranges
from iada.method.importance import importance
from iada.method.objective import AugmentedObjective
from iada.method.perturbation import Vocabulary, make_replacement, perturb
from iada.models.bert import BertDocumentModel, GatedBertAttention
from iada.models.gtrans import GatedAttention
from iada.models.pretrained import build_shape, start_model
from iada.report.paper import MAIN
from iada.runs.corpus import Corpus, load_corpus
from iada.training.train import train

Checkpoint = Callable[[str], Path]
both = pytest.mark.parametrize("architecture", ["flat", "gtrans"])


def _config(
    output: Path,
    corpus: Path,
    checkpoint: Path,
    architecture: Any,
    method: Method = "iada_replace_gnorm",
    **train_keys: Any,
) -> RunConfig:
    keys: dict[str, Any] = {"max_updates": 6, "validate_every": 3, "keep_checkpoints": 5}
    return RunConfig(
        output=output,
        method=method,
        augment=augmentation(method),
        data=DataConfig(folder=corpus),
        subwords=SubwordConfig(vocabulary_size=400),
        windows=WindowConfig(max_length=200, context=2),
        model=ModelConfig(
            pretrained=str(checkpoint),
            architecture=architecture,
            wide_layers=1,
            dim=24,
            feed_forward=32,
            heads=2,
            decoder_layers=2,
            max_positions=256,
        ),
        train=TrainConfig(
            max_tokens=1024,
            accumulation=1,
            warmup_updates=2,
            learning_rate=0.003,
            **(keys | train_keys),
        ),
        decode=DecodeConfig(beam=2, max_length_ratio=0.5, max_length_offset=4),
    )


def _started(
    architecture: str, checkpoint: Checkpoint, mini_corpus: Path, folder: Path
) -> tuple[Corpus, BertDocumentModel]:
    config = _config(folder, mini_corpus, checkpoint("bert"), architecture)
    corpus = load_corpus(config)
    torch.manual_seed(5)
    model: BertDocumentModel = start_model(config, corpus.subwords)
    return corpus, model.eval()


def _batch(corpus: Corpus, *sentences: int) -> Batch:
    """Return windows of the first validation document by the number of their sentence."""
    collate = Collator(corpus.subwords.special.pad)
    return collate(corpus.dev.__getitems__([(0, number) for number in sentences]))


def _logits(model: Any, batch: Batch, **further: Any) -> torch.Tensor:
    names = ("input_ids", "attention_mask", "decoder_input_ids", "first_sentence")
    inputs: dict[str, Any] = {name: batch[name] for name in names if name in batch}
    found: torch.Tensor = model(**inputs, use_cache=False, **further).logits
    return found


def _set_gates(model: BertDocumentModel, bias: float) -> None:
    """Let every gate choose the near attention (a large bias) or the far one (a small one)."""
    for module in model.modules():
        if isinstance(module, GatedAttention | GatedBertAttention):
            module.gate.weight.data.zero_()
            module.gate.bias.data.fill_(bias)


# Two vocabularies


@both
def test_windows_are_those_of_each_side_s_own_tokenizer(
    architecture: str, checkpoint: Checkpoint, mini_corpus: Path, tmp_path: Path
) -> None:
    corpus, _ = _started(architecture, checkpoint, mini_corpus, tmp_path)
    subwords = corpus.subwords
    assert isinstance(subwords, PairedSubwords)
    first, stock = subwords.source_begins, AutoTokenizer.from_pretrained(checkpoint("bert"))
    lines = (mini_corpus / "dev.en").read_text(encoding="utf-8").split("\n")[:3]
    window = corpus.dev[0, 2]
    ids = [i - first for i in window.source_ids.tolist()]
    cls, sep = stock.cls_token_id, stock.sep_token_id
    texts = stock(lines, add_special_tokens=False)["input_ids"]
    if architecture == "flat":
        expected = [cls, *texts[0], sep, *texts[1], sep, *texts[2], sep]
    else:
        expected = [i for text in texts for i in (cls, *text, sep)]
    assert ids == expected
    # Without context it is what BERT reads of a single sentence.
    assert [i - first for i in corpus.dev[0, 0].source_ids.tolist()] == stock(lines[0])["input_ids"]
    special = window.source_roles == Role.SPECIAL
    assert {ids[i] for i in special.nonzero()[0]} == {cls, sep}
    assert int(window.target_ids.max()) < first
    has_context = bool((window.target_roles == Role.CONTEXT).any())
    assert has_context == (architecture == "gtrans")
    # A batch is its windows.
    batch = _batch(corpus, 2)
    assert batch["input_ids"][0].tolist() == window.source_ids.tolist()
    assert batch["source_roles"][0].tolist() == window.source_roles.tolist()


def test_the_vocabularies_are_saved_and_loaded(
    checkpoint: Checkpoint, mini_corpus: Path, tmp_path: Path
) -> None:
    corpus, _ = _started("flat", checkpoint, mini_corpus, tmp_path)
    corpus.subwords.save(tmp_path / "saved")
    loaded = load_subwords(tmp_path / "saved")
    assert isinstance(loaded, PairedSubwords)
    assert loaded.special == corpus.subwords.special
    assert len(loaded) == len(corpus.subwords)
    for side, text in (("source", "The Lamp isn't [SEP] new ☃."), ("target", "Die Lampe ist neu.")):
        ids = corpus.subwords.encode([text, ""], side)
        assert loaded.encode([text, ""], side) == ids
        assert ids[1] == []
    assert loaded.decode(ids[0]) == "Die Lampe ist neu."
    source = loaded.encode(["The lamp is [SEP] new ☃."], "source")[0]
    # What spells a special token is text; what no piece spells is unknown.
    assert loaded.source_end not in source
    assert {*source} & {*loaded.special.all} == {loaded.source_begins + loaded.source.settings.unk}
    assert loaded.joined(loaded.encode(["The lamp is new."], "source")[0]) == "the lamp is new ."
    own = AutoTokenizer.from_pretrained(tmp_path / "saved")
    assert own.decode(own("Die Lampe ist neu.", add_special_tokens=False)["input_ids"])
    (tmp_path / "saved" / "source_tokenizer.json").write_text("{}", encoding="utf-8")
    with pytest.raises(ModelError, match=r"source_tokenizer\.json .* cannot be read"):
        load_subwords(tmp_path / "saved")


def test_replacements_stay_in_the_vocabulary_of_their_side(
    checkpoint: Checkpoint, mini_corpus: Path, tmp_path: Path
) -> None:
    corpus, _ = _started("flat", checkpoint, mini_corpus, tmp_path)
    subwords = corpus.subwords
    assert isinstance(subwords, PairedSubwords)
    vocabulary, first = Vocabulary.of_tokenizer(subwords), subwords.source_begins
    ids = torch.tensor([[300] * 400, [first + 200] * 400])
    always = torch.ones(ids.shape)
    for kind in ("replace", "drop"):
        replacement = make_replacement(AugmentConfig(measure="gnorm", replacement=kind), vocabulary)
        drawn, _ = perturb(ids, always, replacement, generator=torch.Generator().manual_seed(1))
        assert int(drawn[0].max()) < first <= int(drawn[1].min())
        if kind == "drop":
            assert subwords.pieces(drawn[:, 0].tolist()) == ["<mask>", "[MASK]"]
            continue
        assert not {*drawn.flatten().tolist()} & {*subwords.reserved_ids}
        assert len({*drawn[0].tolist()}) > 50
        assert len({*drawn[1].tolist()}) > 50
    # Rows of BERT's matrix that stand for no piece are never drawn.
    assert {*range(len(subwords) - 3, len(subwords))} <= {*subwords.reserved_ids}


def test_a_checkpoint_that_is_no_bert_or_lacks_what_is_needed_is_refused(
    checkpoint: Checkpoint, mini_corpus: Path, tmp_path: Path
) -> None:
    with pytest.raises(ModelError, match=r"is a t5 model, not a BERT"):
        WordPieces.from_checkpoint(str(checkpoint("t5")))
    with pytest.raises(ModelError, match=r"`model\.architecture: flat` can be put into a BERT"):
        load_corpus(_config(tmp_path, mini_corpus, checkpoint("mbart"), "flat"))
    config = _config(tmp_path, mini_corpus, checkpoint("bert"), "gtrans")
    plain = replace(config, model=ModelConfig(pretrained=str(checkpoint("bert"))))
    with pytest.raises(ModelError, match=r"A BERT can be the encoder of .*flat` or `gtrans`"):
        load_corpus(plain)
    long = replace(config, windows=WindowConfig(max_length=300))
    with pytest.raises(ConfigError, match=r"reads and writes at most 256 tokens"):
        load_corpus(long)
    short = replace(config, model=replace(config.model, max_positions=100))
    with pytest.raises(ConfigError, match=r"`windows\.max_length` must be at most 100"):
        load_corpus(short)
    wide = replace(config, model=replace(config.model, wide_layers=3))
    with pytest.raises(ConfigError, match=r"`model\.wide_layers` must be between 0 and .* \(2\)"):
        start_model(wide, load_corpus(config).subwords)
    with pytest.raises(ConfigError, match=r"`train\.lora\.rank` must be 0 with new attentions"):
        _config(tmp_path, mini_corpus, checkpoint("bert"), "flat", lora=LoraConfig(rank=2))
    folder = tmp_path / "one-segment"
    shutil.copytree(checkpoint("bert"), folder)
    settings = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    text = json.dumps(settings | {"type_vocab_size": 1})
    (folder / "config.json").write_text(text, encoding="utf-8")
    flat = _config(tmp_path, mini_corpus, folder, "flat")
    with pytest.raises(ModelError, match=r"knows one segment alone"):
        start_model(flat, load_corpus(flat).subwords)


# What the models compute


@both
def test_a_sentence_alone_is_read_as_bert_reads_it(
    architecture: str, checkpoint: Checkpoint, mini_corpus: Path, tmp_path: Path
) -> None:
    corpus, model = _started(architecture, checkpoint, mini_corpus, tmp_path)
    stock = BertModel.from_pretrained(checkpoint("bert"), add_pooling_layer=False).eval()
    _set_gates(model, 1e4)
    batch = _batch(corpus, 0)
    ids = batch["input_ids"] - model.source_begins
    with torch.no_grad():
        expected = stock(ids, batch["attention_mask"]).last_hidden_state
        found = model.get_encoder()(batch["input_ids"], batch["attention_mask"]).last_hidden_state
    torch.testing.assert_close(found, expected)
    loaded = {name.removeprefix("model.encoder.bert.") for name in model.loaded_names()}
    assert loaded == {name for name, _ in stock.named_parameters()}


@both
def test_only_wide_layers_see_other_sentences(
    architecture: str, checkpoint: Checkpoint, mini_corpus: Path, tmp_path: Path
) -> None:
    config = _config(tmp_path, mini_corpus, checkpoint("bert"), architecture)
    corpus = load_corpus(config)
    batch = _batch(corpus, 2)
    context = batch["source_roles"] == Role.CONTEXT
    assert bool(context.any())
    changed = batch.copy()
    changed["input_ids"] = torch.where(context, batch["input_ids"].max(), batch["input_ids"])
    current = batch["labels"][0] >= 0
    seen = []
    for wide in (0, 1):
        narrow = replace(config, model=replace(config.model, wide_layers=wide))
        torch.manual_seed(5)
        model = start_model(narrow, corpus.subwords).eval()
        with torch.no_grad():
            logits = [_logits(model, one)[0, current] for one in (batch, changed)]
        seen.append(not torch.equal(*logits))
    assert seen == [False, True]


@both
def test_nothing_depends_on_padding_on_the_batch_or_on_what_comes_later(
    architecture: str, checkpoint: Checkpoint, mini_corpus: Path, tmp_path: Path
) -> None:
    corpus, model = _started(architecture, checkpoint, mini_corpus, tmp_path)
    with torch.no_grad():
        alone = _logits(model, _batch(corpus, 0))[0]
        together = _logits(model, _batch(corpus, 2, 0))[1]
        torch.testing.assert_close(together[: len(alone)], alone)
        batch = _batch(corpus, 2)
        later = batch.copy()
        later["decoder_input_ids"] = batch["decoder_input_ids"].clone()
        later["decoder_input_ids"][:, -3:] = 300
        before, after = _logits(model, batch)[0, :-3], _logits(model, later)[0, :-3]
    torch.testing.assert_close(before, after)


@both
@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_it_is_saved_and_loaded_bit_by_bit(
    architecture: str,
    implementation: str,
    checkpoint: Checkpoint,
    mini_corpus: Path,
    tmp_path: Path,
) -> None:
    corpus, model = _started(architecture, checkpoint, mini_corpus, tmp_path)
    model.save_pretrained(tmp_path / "saved")
    loaded = load_model(tmp_path / "saved").eval()
    assert type(loaded) is type(model)
    batch = _batch(corpus, 2, 0)
    with torch.no_grad():
        assert torch.equal(_logits(loaded, batch), _logits(model, batch))
        other = AutoModelForSeq2SeqLM.from_pretrained(
            tmp_path / "saved", attn_implementation=implementation
        ).eval()
        assert other.get_encoder().bert.config._attn_implementation == implementation
        torch.testing.assert_close(_logits(other, batch), _logits(model, batch))
    weights, saved = model.state_dict(), loaded.state_dict()
    assert weights.keys() == saved.keys()
    assert all(torch.equal(saved[name], value) for name, value in weights.items())
    shape = build_shape(
        _config(tmp_path, mini_corpus, checkpoint("bert"), architecture), corpus.subwords
    )
    counted = [sum(one.numel() for one in each.parameters()) for each in (shape, model)]
    assert counted[0] == counted[1]


@both
def test_every_parameter_gets_a_gradient_and_checkpointing_changes_none(
    architecture: str,
    checkpoint: Checkpoint,
    mini_corpus: Path,
    tmp_path: Path,
    recompute_layers: Callable[[Any], None],
) -> None:
    corpus, model = _started(architecture, checkpoint, mini_corpus, tmp_path)
    objective = AugmentedObjective(model, augmentation("doc2doc"), label_smoothing=0.0)
    assert objective.projection is not None
    batch, found = _batch(corpus, 2, 3), []
    for recomputes in (False, True):
        if recomputes:
            recompute_layers(model)
            model.train()
            for module in model.modules():
                if isinstance(module, torch.nn.Dropout):
                    module.p = 0.0
            for layer in model.model.decoder.layers:
                layer.dropout = 0.0
            model.model.decoder.dropout = 0.0
        model.zero_grad()
        objective(batch).total.backward()
        learned = ((name, one) for name, one in model.named_parameters() if one.requires_grad)
        found.append({name: one.grad for name, one in learned})
    assert [name for name, one in found[0].items() if one is None] == []
    for name, gradient in found[0].items():
        torch.testing.assert_close(found[1][name], gradient, msg=name)


# Importance


@both
def test_importance_is_that_of_embeddings_given_by_hand(
    architecture: str, checkpoint: Checkpoint, mini_corpus: Path, tmp_path: Path
) -> None:
    corpus, model = _started(architecture, checkpoint, mini_corpus, tmp_path)
    batch = _batch(corpus, 2)
    source, target = importance(model, batch, "gnorm")
    own = (batch["input_ids"] - model.source_begins).clamp(min=0)
    lookup = model.get_encoder().get_input_embeddings()
    embedded = lookup(own).detach().requires_grad_()
    spoken = model.model.decoder.embed_tokens(batch["decoder_input_ids"]).detach()
    spoken.requires_grad_()
    logits = _logits(model, batch, inputs_embeds=embedded, decoder_inputs_embeds=spoken)
    labels = batch["labels"].clamp(min=0)
    loss = -logits.log_softmax(-1).gather(2, labels[..., None]).squeeze(2)
    loss[batch["labels"] >= 0].sum().backward()
    for found, given, roles in (
        (source, embedded, batch["source_roles"]),
        (target, spoken, batch["target_roles"]),
    ):
        assert given.grad is not None
        ordinary = roles != Role.SPECIAL
        expected = given.grad.norm(dim=-1)[ordinary]
        assert float(expected.min()) > 0
        torch.testing.assert_close(
            found[ordinary] / found[ordinary].sum(), expected / expected.sum()
        )
    # TNorm is read where BERT's last normalisation begins.
    states: list[torch.Tensor] = []
    top = model.get_encoder().bert.encoder.layer[-1].output.LayerNorm
    handle = top.register_forward_pre_hook(lambda _, inputs: states.append(inputs[0]))
    source = importance(model, batch, "tnorm")[0]
    handle.remove()
    norms = states[-1].norm(dim=-1)
    ordinary = batch["source_roles"] != Role.SPECIAL
    torch.testing.assert_close(
        source[ordinary] / source[ordinary].sum(), norms[ordinary] / norms[ordinary].sum()
    )


@both
def test_importance_without_weight_is_the_uniform_control(
    architecture: str, checkpoint: Checkpoint, mini_corpus: Path, tmp_path: Path
) -> None:
    corpus, model = _started(architecture, checkpoint, mini_corpus, tmp_path)
    batch = _batch(corpus, 2, 3, 4)
    vocabulary = Vocabulary.of_tokenizer(corpus.subwords)
    totals = []
    for method in ("iada_replace_gnorm", "uniform_replace_all_losses"):
        augment = augmentation(method)  # type: ignore[arg-type]
        if method == "iada_replace_gnorm":
            augment = replace(augment, alpha=0.0)
        objective = AugmentedObjective(model, augment, vocabulary=vocabulary, seed=3)
        model.train()
        torch.manual_seed(7)
        totals.append(objective(batch).total.detach())
        objective.observer.remove()
    torch.testing.assert_close(totals[0], totals[1])


# Whole runs


@both
def test_it_trains_resumes_and_translates_documents(
    architecture: str, checkpoint: Checkpoint, mini_corpus: Path, tmp_path: Path
) -> None:
    bert = tmp_path / "bert"
    shutil.copytree(checkpoint("bert"), bert)
    config = _config(tmp_path / "run", mini_corpus, bert, architecture)
    run = train(config).path
    settings = json.loads((run / "model" / "config.json").read_text(encoding="utf-8"))
    assert settings["model_type"] == f"iada_{architecture}_bert"
    # Nothing of the checkpoint is needed any more.
    shutil.rmtree(bert)
    killed = tmp_path / "killed"
    shutil.copytree(run, killed)
    shutil.rmtree(killed / "model")
    shutil.rmtree(killed / "checkpoints" / "checkpoint-6")
    train(replace(config, output=killed), resume=True)
    weights = [(path / "model" / "model.safetensors").read_bytes() for path in (run, killed)]
    assert weights[0] == weights[1]

    documents = [
        Document("a", ("The lamp is new.", "It is bright.", "I like it.")),
        Document("b", ("A very old dog sleeps in the garden.", "It snores.")),
    ]
    translator = DocumentTranslator.load(run)
    assert isinstance(translator.model, BertDocumentModel)
    together = translator.translate(documents)
    assert [len(document) for document in together] == [3, 2]
    assert together == [translator.translate([document])[0] for document in documents]
    generic = DocumentTranslator.load(run, engine="huggingface")
    assert generic.translate(documents) == together
    # The cache gives what reading everything again gives.
    generic.model.generation_config.use_cache = False
    assert generic.translate(documents) == together


@both
def test_a_run_serves_every_command_and_a_prepared_corpus_trains_alike(
    architecture: str,
    checkpoint: Checkpoint,
    mini_corpus: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    config = _config(tmp_path / "run", mini_corpus, checkpoint("bert"), architecture)
    content = to_mapping(replace(config, train=replace(config.train, max_updates=2)))
    for key in ("output", "method", "augment"):
        del content[key]
    content["evaluate"] |= {"resamples": 100}
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(yaml.safe_dump(content), encoding="utf-8")
    method = ["--method", "iada_drop_tnorm"]
    run, other, prepared = tmp_path / "run", tmp_path / "other", tmp_path / "prepared"
    assert main(["train", str(recipe), "--output", str(run), *method]) == 0
    stored = ["--data.prepared", str(prepared)]
    assert main(["prepare", str(recipe), *stored, "--workers", "1"]) == 0
    assert main(["train", str(recipe), "--output", str(other), *stored, *method]) == 0
    weights = [folder / "model" / "model.safetensors" for folder in (run, other)]
    assert weights[0].read_bytes() == weights[1].read_bytes()

    assert main(["evaluate", str(run), "--cxmi"]) == 0
    assert main(["contrast", str(run), str(mini_corpus / "contrastive.json")]) == 0
    scores = json.loads((run / "scores.json").read_text(encoding="utf-8"))
    assert {"s_bleu", "contrastive", "cxmi"} <= scores.keys()
    assert main(["inspect", str(run), "--html", str(tmp_path / "map.html")]) == 0
    page = (tmp_path / "map.html").read_text(encoding="utf-8")
    assert "[SEP]" in page
    copies = tmp_path / "copies"
    assert main(["augment", str(run), "--output", str(copies), "--split", "dev"]) == 0
    assert any(copies.iterdir())
    capsys.readouterr()
    assert main(["export", str(run), "--dry_run"]) == 2
    assert "cannot be exported" in capsys.readouterr().err


@both
def test_it_learns_sentences_by_heart(
    architecture: str, checkpoint: Checkpoint, mini_corpus: Path, tmp_path: Path
) -> None:
    corpus, model = _started(architecture, checkpoint, mini_corpus, tmp_path)
    objective = AugmentedObjective(model, augmentation("doc2doc"), label_smoothing=0.0)
    batch = _batch(corpus, 2, 3, 4, 5)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(80):
        optimizer.zero_grad()
        losses = objective(batch)
        losses.total.backward()
        optimizer.step()
    assert float(losses.total.detach()) / int(losses.count) < 0.1


# The table


def test_the_main_table_has_both_rows_where_there_is_a_checkpoint() -> None:
    without = build_experiment("main")
    assert [row.key for row in without.rows if "bert" in row.key] == []
    assert [line for line in without.left_out if "BERT" in line] == [
        "FlatTrans + BERT (reconstruction): give a checkpoint with `--bert`",
        "GTrans + BERT (reconstruction): give a checkpoint with `--bert`",
    ]
    given = build_experiment("main", Ranges(bert="/models/bert-base-uncased"))
    assert len(given.left_out) == 1
    rows = [row for row in given.rows if row.key.endswith("_bert")]
    assert [row.key for row in rows] == ["flat_bert", "gtrans_bert"]
    for row, label in zip(rows, ("FlatTrans + BERT", "GTrans + BERT"), strict=True):
        settings = {"method": row.system.method, **dict(row.system.changes)}
        published = MAIN["ted"].row(settings)
        assert published is not None
        assert published.label == label
        assert row.label == f"{label} (reconstruction)"
        # A recipe may tokenise the text for all other rows.
        assert settings["subwords.pretokenize"] == "none"
