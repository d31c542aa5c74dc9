"""Windows of one's own documents for any pre-trained model, ready for a training loop.

    windows = DocumentWindows(documents, "Helsinki-NLP/opus-mt-en-de", ("en", "de"))

is a data set for `IadaTrainer`, with the sampler and the collator that belong to it; `batches`
gives the same batches to a loop of one's own.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from iada.config.data import WindowConfig
from iada.config.model import TemplateConfig
from iada.data.documents import Document, ParallelDocument
from iada.data.prepared.store import TokenStore
from iada.data.tokens.pretrained_subwords import PretrainedSubwords
from iada.data.windows.batch import Batch, Collator
from iada.data.windows.families import check_window_length, pretrained_frame
from iada.data.windows.sampler import TokenBatchSampler
from iada.data.windows.windows import Windows

Pair = tuple[Sequence[str], Sequence[str]]
"""Source and target sentences of a document."""


class DocumentWindows(Windows):
    """All windows of parallel documents, in the form that a pre-trained model reads."""

    def __init__(
        self,
        documents: Sequence[ParallelDocument | Pair],
        model: str | Path,
        languages: tuple[str, str],
        *,
        context: int = 3,
        max_length: int | None = None,
        template: TemplateConfig | None = None,
    ) -> None:
        """Encode documents with the tokenizer of a model and cut windows.

        Args:
            documents: parallel documents, or for each a list of source sentences and one of their
                translations.
            model: folder or hub name of the model that is to learn from them.
            languages: of the source and of the target, such as `en`, or the model's own codes.
            context: sentences before the current one, on both sides.
            max_length: longest window in tokens; by default what the model can read, or 512.
            template: what a decoder-only model reads around sentences.
        """
        subwords = PretrainedSubwords.from_checkpoint(
            str(model), source_language=languages[0], target_language=languages[1]
        )
        longest = max_length or subwords.settings.max_length or WindowConfig.max_length
        config = WindowConfig(context=context, max_length=longest)
        check_window_length(config, subwords)
        named = [_named(number, document) for number, document in enumerate(documents, start=1)]
        store = TokenStore.build(named, subwords)
        subwords.see(np.asarray(store.source.ids), np.asarray(store.target.ids))
        super().__init__(store, config, frame=pretrained_frame(subwords, template))
        self.subwords = subwords
        """The tokenizer, as an encoding; the model's own is `subwords.tokenizer`."""

    @property
    def collator(self) -> Collator:
        """What pads windows into batches with roles: the `data_collator` of `IadaTrainer`."""
        return Collator(self.subwords.special.pad)

    def sampler(self, max_tokens: int, *, seed: int = 1) -> TokenBatchSampler:
        """Plan batches of at most `max_tokens`, padding included: the `train_sampler`."""
        return TokenBatchSampler(self.planned_lengths(), max_tokens=max_tokens, seed=seed)

    def batches(self, max_tokens: int, *, epochs: int = 1, seed: int = 1) -> Iterator[Batch]:
        """Yield the batches of epochs, each epoch in an order of its own."""
        sampler = self.sampler(max_tokens, seed=seed)
        for epoch in range(epochs):
            sampler.set_epoch(epoch)
            for keys in sampler:
                yield self.collator(self.__getitems__(keys))


def _named(number: int, document: ParallelDocument | Pair) -> ParallelDocument:
    """Name a document that is given as two lists of sentences."""
    if isinstance(document, ParallelDocument):
        return document
    source, target = (Document(f"document {number}", tuple(side)) for side in document)
    return ParallelDocument(source, target)
