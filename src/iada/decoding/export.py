"""Convert a trained stock Marian model for CTranslate2, and check that it translates the same.

Only plain encoder-decoders can be converted. The weights and the order of the vocabulary stay as
they are: the stock converter would drop the last token and begin from a zero vector, because that
is what models trained by Marian itself need.
"""

import copy
import json
import logging
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch

from iada.config.data import DataConfig
from iada.config.decode import DecodeConfig
from iada.config.model import Architecture
from iada.data.formats.readers import read_split
from iada.data.tokens.subwords import BOS, EOS, UNK, Subwords
from iada.decoding.engines import ENGINES
from iada.decoding.engines.ctranslate2 import EXPORT_FILE, CTranslate2Engine
from iada.decoding.engines.huggingface import HuggingFaceEngine
from iada.decoding.engines.interface import Engine, Request, batches, model_fingerprint
from iada.decoding.requests import DocumentState, RequestRules
from iada.decoding.translator import DocumentTranslator, max_positions
from iada.errors import ModelError
from iada.storage import replace_folder, write_json

logger = logging.getLogger(__name__)

Quantization = Literal["float32", "int8"]
LEAST_AGREEMENT = 0.99
"""Smallest share of equal greedy outputs of a model in float32."""


@dataclass(frozen=True)
class EngineComparison:
    """How often two engines give the same translation."""

    equal: int
    total: int

    @property
    def share(self) -> float:
        """Share of equal outputs."""
        return self.equal / self.total if self.total else 1.0


def check_architecture(architecture: Architecture) -> None:
    """Refuse to export what CTranslate2 cannot compute.

    Raises:
        ModelError: naming what can be exported.
    """
    if architecture != "doc2doc":
        raise ModelError(
            f"`model.architecture: {architecture}` cannot be exported: CTranslate2 knows the stock "
            "Transformer alone, which is `doc2doc`, with or without context, whatever its "
            "augmentation. Translate this run as it is, with `decode.engine: auto`."
        )


def export_model(
    model: Any, subwords: Subwords, folder: Path, *, quantization: Quantization, fingerprint: str
) -> Path:
    """Write a model in CTranslate2's form, or leave the folder as it was.

    Args:
        model: a stock `MarianMTModel`.
        subwords: its tokenizer.
        folder: where to write; what an earlier export left there is replaced.
        quantization: how weights are stored and computed with.
        fingerprint: identifies the weights; see `model_fingerprint`.

    Raises:
        ModelError: the architecture cannot be converted, or the folder holds something else.
    """
    if not ENGINES["ctranslate2"].takes(model):
        raise ModelError(
            f"A {type(model).__name__} cannot be exported: CTranslate2 takes plain encoder-decoders"
            " only (MarianMTModel). Translate it with `decode.engine: auto`."
        )
    if folder.exists() and not (folder / EXPORT_FILE).is_file():
        raise ModelError(
            f"{folder} exists and is not an export. Choose another `--output`, or remove it "
            "yourself."
        )
    # Slow to import, and only needed here.
    from ctranslate2.converters.transformers import BartLoader

    # A copy, because the converter rounds weights in place. The loader reads two keys from the
    # configuration that a stock one does not have.
    view = copy.deepcopy(model)
    view.config.normalize_before = False
    view.config.normalize_embedding = False
    with torch.no_grad():
        spec = BartLoader().get_model_spec(view)
    pieces = subwords.pieces(range(len(subwords)))
    spec.register_source_vocabulary(pieces)
    spec.register_target_vocabulary(pieces)
    spec.config.bos_token, spec.config.eos_token, spec.config.unk_token = BOS, EOS, UNK
    spec.config.decoder_start_token = BOS
    spec.validate()
    spec.optimize(quantization=quantization)
    temporary = folder.with_name(f".{folder.name}.partial")
    temporary.mkdir(parents=True, exist_ok=True)
    spec.save(str(temporary))
    subwords.save(temporary)
    write_json(temporary / EXPORT_FILE, {"model": fingerprint, "quantization": quantization})
    replace_folder(folder, temporary)
    return folder


def export_and_check(
    translator: DocumentTranslator,
    data: DataConfig,
    folder: Path,
    *,
    quantization: Quantization,
    windows: int,
    allow: bool,
) -> EngineComparison:
    """Export the model of a translator and compare greedy translations of the dev split.

    Args:
        translator: the model, in float32.
        data: its corpus.
        folder: where to write.
        quantization: how weights are stored and computed with.
        windows: most windows to compare.
        allow: keep a float32 model below `LEAST_AGREEMENT` and warn.

    Raises:
        ModelError: a model in float32 disagrees too often; nothing is left behind.
    """
    model, subwords = translator.model, translator.subwords
    if not isinstance(subwords, Subwords):
        raise ModelError(
            "Only models with an encoding of their own can be exported, but this one has the "
            "tokenizer of a pre-trained model. Convert the run's `model` folder with CTranslate2's "
            "`ct2-transformers-converter`."
        )
    requests = held_out_requests(translator, data, windows)
    export_model(
        model, subwords, folder, quantization=quantization, fingerprint=model_fingerprint(model)
    )
    greedy = DecodeConfig(beam=1, max_tokens=translator.decode.max_tokens)
    original = HuggingFaceEngine(model, subwords.special, greedy)
    converted = CTranslate2Engine(folder, subwords, replace(greedy, precision=quantization))
    found = compare_engines(original, converted, requests, greedy.max_tokens)
    if quantization == "float32" and found.share < LEAST_AGREEMENT:
        message = (
            f"{folder}: only {found.equal} of {found.total} greedy translations equal those of "
            f"PyTorch, less than {LEAST_AGREEMENT:.0%}."
        )
        if not allow:
            shutil.rmtree(folder)
            raise ModelError(f"{message} Nothing was kept; `--allow` keeps it all the same.")
        logger.warning("%s", message)
    record_comparison(folder, found)
    return found


def held_out_requests(
    translator: DocumentTranslator, data: DataConfig, windows: int
) -> list[Request]:
    """Return the first windows of the dev split, with reference context."""
    rules = RequestRules(
        translator.windows,
        replace(translator.decode, unit="sentence", target_context="gold", source_context="gold"),
        translator.subwords.special,
        max_positions(translator.model),
        translator.frame,
    )
    requests: list[Request] = []
    for number, document in enumerate(read_split(data, "dev")):
        source = translator.subwords.encode(document.source.sentences, "source")
        target = translator.subwords.encode(document.target.sentences, "target")
        state = DocumentState(number, document.source, source, reference=target)
        while not state.is_finished and len(requests) < windows:
            if source[len(state.texts)]:
                requests.append(state.next_request(rules))
            state.append("", [], [])
    return requests


def compare_engines(
    one: Engine, other: Engine, requests: Sequence[Request], max_tokens: int
) -> EngineComparison:
    """Count the requests for which two engines have the same best translation."""
    equal = 0
    for batch in batches(requests, max_tokens):
        same = [requests[i] for i in batch]
        pairs = zip(one.search(same), other.search(same), strict=True)
        equal += sum(left[0].tokens == right[0].tokens for left, right in pairs)
    return EngineComparison(equal, len(requests))


def record_comparison(folder: Path, found: EngineComparison) -> None:
    """Add the result of the comparison to the description of an export."""
    known = json.loads((folder / EXPORT_FILE).read_text(encoding="utf-8"))
    write_json(folder / EXPORT_FILE, known | {"agreement": asdict(found)})
