"""Checks over a whole corpus, made while its documents are streamed.

Odd sentence pairs are reported at once, copies of documents at the end. Eight bytes per document
and a hash per validation and test sentence stay in memory, so a corpus of any size can be checked.
"""

import re
from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from iada.config.data import Split
from iada.data.documents import ParallelDocument
from iada.data.formats.findings import Findings
from iada.data.sentences import looks_like_prose
from iada.data.tokens.pretokenize import unnamed_tag

LENGTH_RATIO = 3.0
"""A side is suspicious beyond this many times the bytes of the other, `LENGTH_SLACK` aside."""
LENGTH_SLACK = 40
PROSE_SHARE = 0.2
"""Share of sentences that look like paragraphs from which a split is reported."""
SAMPLED_DOCUMENTS = 50
SAMPLED_CHARACTERS = 400
MIN_CHARACTERS = 60
"""Shorter texts do not show their language."""
SIMILAR = ({"da", "nb", "nn", "no", "sv"}, {"bs", "hr", "sl", "sr"}, {"id", "ms"}, {"cs", "sk"})
"""Languages that are easily taken for each other."""
SHARED_LENGTH = 20
"""Shorter sentences, such as greetings, are shared by chance."""


class CorpusChecks:
    """Checks the documents of all splits; validation and test must come before training."""

    def __init__(
        self,
        findings: Findings,
        tags: Collection[str] = (),
        languages: tuple[str, str] | None = None,
    ) -> None:
        """Begin with an empty corpus.

        Args:
            findings: where to report.
            tags: special tokens that may begin a source sentence.
            languages: codes of source and target, to compare with what the text looks like.
        """
        self._findings = findings
        self._tags = tags
        self._held_out: dict[int, Split] = {}
        # Python's hashes differ between processes, which no result depends on.
        self._hashes = array("q")
        self._counts: Counter[Split] = Counter()
        self._splits: list[tuple[Split, Path, int]] = []
        """Split, source file and number of documents before it."""
        self._languages = languages
        self._prose: dict[Split, _ProseCount] = {}
        self._samples: dict[Split, tuple[list[str], list[str]]] = {}

    def watch(
        self, split: Split, documents: Iterable[ParallelDocument]
    ) -> Iterator[ParallelDocument]:
        """Yield the documents unchanged and report what is odd about them.

        Raises:
            ValueError: validation or test come after training, too late to compare.
        """
        watched = {name for name, _, _ in self._splits}
        if split != "train" and "train" in watched:
            raise ValueError("watch `dev` and `test` before `train`")
        for number, document in enumerate(documents):
            if number == 0:
                self._splits.append((split, _file(document), len(self._hashes)))
            self._counts[split] += 1
            self._hashes.append(hash((document.source.sentences, document.target.sentences)))
            self._check_lengths(document)
            self._check_tags(document)
            self._prose.setdefault(split, _ProseCount()).add(document.source.sentences)
            self._sample(split, document)
            if split == "train":
                self._check_shared(document)
            else:
                self._hold_out(split, document)
            yield document

    def documents(self, split: Split) -> int:
        """Return the number of documents of a split so far."""
        return self._counts[split]

    def finish(self) -> None:
        """Report what only the whole corpus shows: copies, paragraphs, other languages."""
        for split, file, _ in self._splits:
            self._report_prose(split, file)
            self._report_languages(split, file)
        hashes = np.frombuffer(self._hashes, dtype=np.int64)
        order = np.argsort(hashes, kind="stable")
        is_copy = np.zeros(len(order), dtype=bool)
        is_copy[1:] = hashes[order][1:] == hashes[order][:-1]
        # Of each run of equal hashes, the first is the original.
        originals = order[np.maximum.accumulate(np.where(is_copy, 0, np.arange(len(order))))]
        copies = sorted(zip(order[is_copy].tolist(), originals[is_copy].tolist(), strict=True))
        for copy, original in copies:
            file, name = self._locate(copy)
            message = f"{name} is a copy of {self._locate(original)[1]}."
            self._findings.report("duplicate_document", file, None, message)

    def _report_prose(self, split: Split, file: Path) -> None:
        count = self._prose[split]
        if count.prose >= max(2, PROSE_SHARE * count.sentences):
            message = (
                f"{count.prose} of {count.sentences} sentences of {split} look like paragraphs of "
                "three sentences or more. Split both sides into aligned sentences: context is "
                "counted in sentences."
            )
            self._findings.report("unsplit_text", file, None, message)

    def _sample(self, split: Split, document: ParallelDocument) -> None:
        """Keep the beginnings of the first documents, for `_report_languages`."""
        samples = self._samples.setdefault(split, ([], []))
        if self._languages is None or len(samples[0]) >= SAMPLED_DOCUMENTS:
            return
        for kept, side in zip(samples, (document.source, document.target), strict=True):
            kept.append(" ".join(side.sentences)[:SAMPLED_CHARACTERS])

    def _report_languages(self, split: Split, file: Path) -> None:
        if self._languages is None:
            return
        for side, expected, texts in zip(
            ("source", "target"), self._languages, self._samples[split], strict=True
        ):
            found = likely_language(texts, expected)
            if found is not None:
                is_other = found in self._languages
                hint = "Are the sides swapped?" if is_other else "Is it the right file?"
                message = (
                    f"the {side} side of {split} should be `{expected}` but looks like `{found}`. "
                    f"{hint}"
                )
                self._findings.report("wrong_language", file, None, message)

    def _locate(self, index: int) -> tuple[Path, str]:
        split, file, start = next(s for s in reversed(self._splits) if s[2] <= index)
        return file, f"document {index - start + 1} of {split}"

    def _check_lengths(self, document: ParallelDocument) -> None:
        pairs = zip(document.source.sentences, document.target.sentences, strict=True)
        for number, (left, right) in enumerate(pairs, start=1):
            if differ_in_length(left, right):
                message = (
                    f"sentence {number} of document {document.name} has {len(left.encode())} bytes "
                    f"but its translation {len(right.encode())}. Is it aligned?"
                )
                self._findings.report("length_ratio", _file(document), None, message)

    def _check_tags(self, document: ParallelDocument) -> None:
        for number, sentence in enumerate(document.source.sentences, start=1):
            if sentence.startswith("<") and (tag := unnamed_tag(sentence, self._tags)):
                message = (
                    f"sentence {number} of document {document.name} begins with {tag}, which is "
                    "text here. If it is a tag, name it in `subwords.tags`."
                )
                self._findings.report("unnamed_tag", _file(document), None, message)

    def _hold_out(self, split: Split, document: ParallelDocument) -> None:
        for sentence in document.source.sentences:
            if len(sentence) >= SHARED_LENGTH:
                self._held_out.setdefault(hash(sentence), split)

    def _check_shared(self, document: ParallelDocument) -> None:
        held_out = self._held_out
        for number, sentence in enumerate(document.source.sentences, start=1):
            if hash(sentence) in held_out and len(sentence) >= SHARED_LENGTH:
                message = (
                    f"sentence {number} of document {document.name} is also in "
                    f"{held_out[hash(sentence)]}."
                )
                self._findings.report("shared_sentence", _file(document), None, message)


@dataclass
class _ProseCount:
    sentences: int = 0
    prose: int = 0
    """Sentences that look like paragraphs."""

    def add(self, sentences: Iterable[str]) -> None:
        for sentence in filter(str.strip, sentences):
            self.sentences += 1
            self.prose += looks_like_prose(sentence)


def likely_language(texts: Sequence[str], expected: str) -> str | None:
    """Return the code of the language that texts are in, if it is clearly not the expected one.

    py3langid tells; without it (`pip install 'iada[language]'`), for a language that it does not
    know and for little text, there is no answer.
    """
    try:
        import py3langid
    except ImportError:
        return None
    long_enough = []
    gathered = ""
    for text in texts:
        gathered = f"{gathered} {text}"
        if len(gathered) >= MIN_CHARACTERS:
            long_enough.append(gathered)
            gathered = ""
    if not long_enough:
        return None
    code = re.split("[-_]", expected)[0].lower()
    if code not in {label for label, _ in py3langid.rank(long_enough[0])}:
        return None
    votes: Counter[str] = Counter(py3langid.classify(text)[0] for text in long_enough)
    found, count = votes.most_common(1)[0]
    similar = next((group for group in SIMILAR if code in group), {code})
    return found if found not in similar and count > len(long_enough) / 2 else None


def differ_in_length(left: str, right: str) -> bool:
    """Whether two sentences, neither of them empty, are too unlike in length to be translations."""
    # In bytes, because scripts of dense characters need several for each.
    shorter, longer = sorted((len(left.encode()), len(right.encode())))
    return shorter > 0 and longer > LENGTH_RATIO * shorter + LENGTH_SLACK


def _file(document: ParallelDocument) -> Path:
    """Return the file of a document, which its name begins with."""
    return Path(document.name.partition(":")[0])
