"""The model card: `README.md` in `model/`, so that the folder can be pushed to a hub as it is.

It says what the run folder knows (data, method, settings, scores with signatures, how to load the
model) and leaves to the user what only the user knows: licences. The same run gives the same card;
it names no path, no host and no time.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from iada.config.base import to_mapping
from iada.config.run import RunConfig
from iada.evaluation.metrics import METRICS, RunRecord
from iada.runs.folder import AVERAGING, RunFolder
from iada.storage import write_text

CARD = "README.md"
_SECTIONS = ("windows", "model", "augment", "train", "decode")
_FILL_IN = "*fill in*"
_LOAD = """\
```python
{imports}

name = "path or hub name of this folder"
tokenizer = AutoTokenizer.from_pretrained(name)
model = {model}.from_pretrained(name)
batch = tokenizer(["{text}"], return_tensors="pt", return_token_type_ids=False)
output = model.generate(**batch, max_new_tokens=60)
print(tokenizer.batch_decode(output, skip_special_tokens=True))
```
"""


def update_card(folder: RunFolder, scores: Mapping[str, object]) -> None:
    """Write the card of a finished run again, with the scores that it is about to have."""
    if folder.has_model():
        write_text(folder.model / CARD, render_card(folder, folder.model, scores))


def render_card(folder: RunFolder, model: Path, scores: Mapping[str, object] | None = None) -> str:
    """Return the card of a run.

    Args:
        folder: the run.
        model: where its model is, or is being written.
        scores: its scores; by default those that it has.
    """
    known = _read_json(folder.scores_file) if scores is None else scores
    config, environment = folder.config(), folder.environment()
    settings = _read_json(model / "config.json")
    record = RunRecord(known, _read_lines(folder.metrics_file))
    data = config.data
    pair = f"{data.source_language} to {data.target_language}"
    versions = environment.get("packages", {})
    used = ", ".join(
        f"{name} {versions[name]}"
        for name in ("iada", "transformers", "torch")
        if versions.get(name)
    )
    parts = [
        f"---\n{_front_matter(config)}---\n",
        f"# {_title(config)}, {pair}\n",
        "A document-level translation model: it translates a sentence with up to "
        f"{config.windows.context} sentences of context before it. Trained with {used}.\n",
        "## Licence\n",
        _table(("", "licence"), [(what, _FILL_IN) for what in _licensed(config)]),
        "## Use\n",
        _describe_use(settings, adapters=(model / "adapter_config.json").is_file()),
        "## Data\n",
        _table(("", ""), list(_describe_data(config, environment.get("data", {})))),
        "## Method\n",
        _describe_method(config),
        "## Scores\n",
        _describe_scores(record, _read_json(model / AVERAGING)),
        "## Settings\n",
        f"```yaml\n{yaml.safe_dump(_settings(config), sort_keys=False, allow_unicode=True)}```\n",
    ]
    return "\n".join(parts)


def _read_json(path: Path) -> dict[str, Any]:
    found = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return found if isinstance(found, dict) else {}


def _read_lines(path: Path) -> list[dict[str, Any]]:
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    # A line that a crash has cut off has no end.
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def _title(config: RunConfig) -> str:
    name = config.model.traits.title
    if config.model.pretrained is not None:
        name = Path(config.model.pretrained).name
    return f"{name} with {config.method}"


def _front_matter(config: RunConfig) -> str:
    """Return the fields that a hub reads."""
    fields: dict[str, object] = {
        "language": [config.data.source_language, config.data.target_language],
        "license": "other",
        "license_name": "fill-in",
        "license_link": "fill-in",
        "library_name": "transformers",
        "pipeline_tag": "translation",
        "tags": ["translation", "document-level", "iada"],
    }
    base = config.model.pretrained
    if base is not None:
        # A folder of this machine means nothing elsewhere.
        fields["base_model"] = (
            "fill-in" if Path(base).exists() or Path(base).is_absolute() else base
        )
    return yaml.safe_dump(fields, sort_keys=False, allow_unicode=True)


def _licensed(config: RunConfig) -> list[str]:
    base = [] if config.model.pretrained is None else ["the model it starts from"]
    return ["this model", "its training data", *base]


def _describe_use(settings: Mapping[str, Any], *, adapters: bool) -> str:
    """Return code that loads the model, and what it needs."""
    architectures = settings.get("architectures") or [""]
    is_causal = str(architectures[0]).endswith("ForCausalLM")
    model = "AutoModelForCausalLM" if is_causal else "AutoModelForSeq2SeqLM"
    imports = f"from transformers import {model}, AutoTokenizer"
    if adapters:
        model = model.replace("AutoModel", "AutoPeftModel")
        imports = f"from peft import {model}\nfrom transformers import AutoTokenizer"
    text = ""
    if str(settings.get("model_type")).startswith("iada_"):
        imports += "\n\nfrom iada.models.build import register_models\n\nregister_models()"
        text = "Its class is not in Transformers but in `iada`, which must be installed. "
    if adapters:
        text += "The folder holds adapters; `peft` loads them with the model they belong to. "
    code = _LOAD.format(imports=imports, model=model, text="A sentence to translate.")
    return (
        f"{text}This translates single sentences:\n\n{code}\n"
        "Whole documents, each sentence in its context, are translated by `iada translate` from "
        "the run folder.\n"
    )


def _describe_data(config: RunConfig, record: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    data = config.data
    yield "languages", f"{data.source_language} → {data.target_language}"
    yield "corpus", _FILL_IN
    if "documents" in record:
        yield "training documents", f"{record['documents']:,}"
    if data.subset < 1:
        yield "subset of the documents", f"{data.subset:.0%}"
    for split, hashes in record.get("files", {}).items():
        yield f"sha256 of {split}", ", ".join(f"`{str(one)[:16]}…`" for one in hashes)


def _describe_method(config: RunConfig) -> str:
    augment = config.augment
    lines = [f"`{config.method}` on windows of {config.windows.context} context sentences."]
    if augment.replaces:
        lines.append(
            f"Tokens are perturbed by `{augment.replacement}` with a probability of "
            f"{augment.p_context} in context and {augment.p_current} in the current sentence, "
            f"spread by their importance (`{augment.measure}`, alpha {augment.alpha}); both views "
            "are learned from."
        )
    if config.train.lora.rank:
        lines.append(f"Low-rank adapters of rank {config.train.lora.rank} were trained.")
    if config.model.pretrained is not None:
        lines.append(f"It starts from {Path(config.model.pretrained).name}.")
    return "\n".join(lines) + "\n"


def _describe_scores(record: RunRecord, averaging: Mapping[str, Any]) -> str:
    """Return every score of the run, and how each was measured."""
    rows, signatures = [], []
    for metric in METRICS.values():
        value = metric.value(record)
        if value is None:
            continue
        rows.append((metric.label, f"{metric.shown([value])[0]:.{metric.digits}f}"))
        if found := metric.signature(record.scores):
            signatures.append(f"- {metric.label}: `{found[1]}`")
    if not rows:
        return "None yet.\n"
    text = _table(("metric", "score"), rows)
    if signatures:
        text += "\n" + "\n".join(dict.fromkeys(signatures)) + "\n"
    if averaging:
        scores = "; ".join(
            f"dev {name} {averaging['best'][name]:.4f} and {value:.4f}"
            for name, value in averaging["average"].items()
        )
        text += (
            f"\nBest checkpoint and average of the last {len(averaging['checkpoints'])}: {scores}. "
            f"This is the {averaging['kept']}.\n"
        )
    return text


def _settings(config: RunConfig) -> dict[str, object]:
    """Return the settings of the run without places on a machine."""
    found = to_mapping(config)
    sections = {"method": found["method"], "seed": found["seed"]}
    sections |= {name: found[name] for name in _SECTIONS}
    for section, key in (("model", "pretrained"), ("train", "start"), ("decode", "exported")):
        value = sections[section][key]
        if value is not None and (Path(value).exists() or Path(value).is_absolute()):
            sections[section][key] = Path(value).name
    return sections


def _table(heading: tuple[str, str], rows: list[tuple[str, str]]) -> str:
    lines = [heading, ("---", "---"), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
