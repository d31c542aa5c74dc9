"""The one document model.

A document is an ordered list of sentences; a parallel document has two of them, aligned one to
one. Sentences may be empty: an empty sentence stays an empty sentence. A sentence never contains
a line break, so that documents and files of lines correspond exactly.
"""

from dataclasses import dataclass

from iada.errors import DataError, printable


@dataclass(frozen=True)
class Document:
    """Sentences of one document in one language."""

    name: str
    """Identifies the document in messages and outputs; control characters are spelled out."""
    sentences: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.name.isprintable():
            # One line, because the names of a store are the lines of a file.
            object.__setattr__(self, "name", printable(self.name).replace("\n", "\\n"))
        for number, sentence in enumerate(self.sentences, start=1):
            if "\n" in sentence:
                raise DataError(
                    f"Sentence {number} of document {self.name} contains a line break. "
                    "Sentences are single lines: split or join it first."
                )

    def __len__(self) -> int:
        return len(self.sentences)


@dataclass(frozen=True)
class ParallelDocument:
    """A document and its translation, sentence by sentence."""

    source: Document
    target: Document

    def __post_init__(self) -> None:
        if len(self.source) != len(self.target):
            raise DataError(
                f"Document {self.source.name} has {len(self.source)} source sentences but "
                f"{len(self.target)} target sentences. Both sides must be aligned one to one."
            )

    @property
    def name(self) -> str:
        """Name of the document (the source side's)."""
        return self.source.name

    def __len__(self) -> int:
        return len(self.source)
