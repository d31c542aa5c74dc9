"""Validation by translation: BLEU of the validation documents at every validation.

Documents are translated left to right with the model's own translations as context, as they will be
after training. Only texts are kept, a document at a time, and no random number is drawn, so that
updates are those of a run that validates by NLL alone.
"""

from dataclasses import replace
from typing import Any

from iada.config.run import RunConfig
from iada.data.tokens.subwords import SubwordEncoding
from iada.decoding.requests import check_lengths
from iada.decoding.shards import Processes, join_processes
from iada.decoding.translator import DocumentTranslator
from iada.evaluation.metrics import document_bleu, sentence_bleu
from iada.models.pretrained import has_adapters
from iada.runs.corpus import read_split, run_frame


class TranslationValidator:
    """Translate the validation documents of a run with a model, and score them."""

    def __init__(
        self, config: RunConfig, subwords: SubwordEncoding, processes: Processes | None = None
    ) -> None:
        """Read the documents, and refuse at once what could not be translated later.

        Args:
            config: the run.
            subwords: its encoding.
            processes: share the documents; by default those that train together.
        """
        self.config = config
        self.subwords = subwords
        self.processes = join_processes() if processes is None else processes
        self.frame = run_frame(config, subwords)
        documents = read_split(config, "dev")
        self.sources = [document.source for document in documents]
        self.references = [document.target for document in documents]
        for source in self.sources:
            ids = subwords.encode(source.sentences, "source")
            check_lengths(source, ids, config.windows.max_length, self.frame)

    def __call__(self, model: Any) -> dict[str, float]:
        """Return s-BLEU and d-BLEU; the model is left in evaluation mode."""
        config = self.config
        is_seq2seq = bool(model.config.is_encoder_decoder)
        decode = replace(
            config.decode.only_best(),
            beam=config.train.validation_beam,
            # Engines of our own read the weights of linear layers, beside which adapters stand.
            engine="huggingface" if has_adapters(model) and is_seq2seq else "auto",
            precision="float32",
            exported=None,
            unit="sentence",
            target_context="own",
            source_context="gold",
        )
        translator = DocumentTranslator(
            model,
            self.subwords,
            windows=config.windows,
            decode=decode,
            frame=self.frame,
            processes=self.processes,
        )
        texts = translator.translate(self.sources)
        language = config.data.target_language
        return {
            name: score(texts, self.references, config.evaluate, language=language).score
            for name, score in (("s_bleu", sentence_bleu), ("d_bleu", document_bleu))
        }
