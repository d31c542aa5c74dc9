"""Training files of IWSLT: `train.tags.en-de.en` and `train.tags.en-de.de`.

Metadata lines such as `<url>` and `<talkid>` stand before the sentences of each talk, some also
after them. A talk begins with the first sentence after metadata; every line that is no metadata is
a sentence, without the white space around it.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from iada.data.documents import ParallelDocument
from iada.data.findings import Findings, Tally
from iada.data.formats.text import TextDocument, pair_documents
from iada.data.lines import Line, bad_line, repaired_lines
from iada.errors import DataError

_METADATA = re.compile(
    r"\s*</?(?:url|keywords|speaker|talkid|title|description|translator|reviewer|doc|transcript"
    r"|recording|dtime|videourl|videopath|translators|reviewers|date|file|xml|mteval|refset|srcset)"
    r"[\s>/]",
    re.IGNORECASE | re.ASCII,
)
_TALK = re.compile(r"\s*<talkid>([^<]*)<", re.IGNORECASE)


def read_tags(source: Path, target: Path, findings: Findings) -> Iterator[ParallelDocument]:
    """Yield the talks of two aligned files, paired by their order.

    Raises:
        DataError: the talks differ in number or in their ids.
    """
    return pair_documents(
        source,
        target,
        _talks(source, findings, findings.source),
        _talks(target, findings, findings.target),
        findings,
    )


def _talks(path: Path, findings: Findings, tally: Tally) -> Iterator[TextDocument]:
    talks = number = metadata = 0
    identity, first, lines = None, 1, list[Line]()
    for number, line in enumerate(repaired_lines(path, findings), start=1):
        text = line if isinstance(line, str) else line.text
        if not _METADATA.match(text):
            first = first if lines else number
            lines.append(line.strip() if isinstance(line, str) else line)
            continue
        metadata += 1
        if not isinstance(line, str):
            findings.add(bad_line(path, number, line))
        if lines:
            talks += 1
            yield TextDocument(f"{path.name}:{identity or talks}", first, lines, identity)
            identity, lines = None, []
        talk = _TALK.match(text)
        identity = talk.group(1).strip() if talk else identity
    if lines:
        talks += 1
        yield TextDocument(f"{path.name}:{identity or talks}", first, lines, identity)
    tally.read += number
    tally.boundaries += metadata
    if not talks:
        raise DataError(f"{path} holds no sentence. Give a file with at least one talk.")
    if not metadata:
        raise DataError(
            f"{path} has no metadata line such as `<url>` or `<talkid>`, so its talks are "
            "unknown. Set `data.format: text` if it is plain text."
        )
