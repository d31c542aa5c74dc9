"""Dialogues of BConTrasT: one JSON object, one list of utterances per dialogue.

The agent writes in one language and the customer in the other, so the speaker decides to which
side `source` and `target` of an utterance belong: with English as source language, the agent's
`source` is the source side and the customer's `source` the target side.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from iada.data.documents import ParallelDocument
from iada.data.formats.assembly import DocumentSide, assemble
from iada.data.formats.file_format import CorpusFiles, Format
from iada.data.formats.findings import Finding, Findings, problem
from iada.data.formats.jsonl import clean_sentence, identifier, read_json
from iada.errors import DataError

AGENT_LANGUAGE = "en"
"""The agents of the published dialogues write English, the customers German."""


def read_dialogue(files: CorpusFiles, findings: Findings) -> Iterator[ParallelDocument]:
    """Yield the dialogues of a file, which is read whole.

    It is `{"dialogue id": [{"speaker": ..., "source": ..., "target": ...}, ...]}`, and one of the
    languages is English.
    """
    file, languages = files.source, files.languages
    if AGENT_LANGUAGE not in languages:
        raise DataError(
            f"{file}: dialogues have English on one side, but the languages are "
            f"{languages[0]} and {languages[1]}. Set `data.source_language` or "
            "`data.target_language` to en."
        )
    dialogues = read_json(file)
    if not isinstance(dialogues, dict) or not dialogues:
        raise DataError(f"{file}: must hold one JSON object with a list for each dialogue.")
    agent_is_source = languages[0] == AGENT_LANGUAGE
    for key, utterances in dialogues.items():
        document = _dialogue(file, key, utterances, agent_is_source, findings)
        if document is not None:
            yield document


@dataclass(frozen=True)
class _Utterance:
    is_agent: bool
    source: str
    target: str
    problems: tuple[Finding, ...]


def _dialogue(
    file: Path, key: str, utterances: object, agent_is_source: bool, findings: Findings
) -> ParallelDocument | None:
    problems: list[Finding] = []
    name = identifier(key)
    if name is None:
        message = f"the dialogue id {key!a} cannot be used."
        problems.append(problem("missing_field", file, None, message))
    if not isinstance(utterances, list):
        message = f"dialogue {key!a} is not a list of utterances."
        problems.append(problem("malformed_record", file, None, message))
        utterances = []
    elif not utterances:
        message = f"dialogue {key!a} is empty."
        problems.append(problem("empty_document", file, None, message))
    pairs = [
        _utterance(file, f"utterance {number} of dialogue {key!a}", utterance, findings)
        for number, utterance in enumerate(utterances, start=1)
    ]
    problems += [found for pair in pairs for found in pair.problems]
    sides: tuple[list[str], list[str]] = ([], [])
    for pair in pairs:
        flip = pair.is_agent != agent_is_source
        sides[flip].append(pair.source)
        sides[not flip].append(pair.target)
    findings.source.read += len(utterances)
    findings.target.read += len(utterances)
    title = f"{file.name}:{name}"
    lines = [None] * len(utterances)
    left, right = (DocumentSide(file, title, side, lines) for side in sides)
    return assemble(left, right, problems, findings)


def _utterance(file: Path, where: str, utterance: object, findings: Findings) -> _Utterance:
    if not isinstance(utterance, dict):
        broken = problem("malformed_record", file, None, f"{where} is not a JSON object.")
        return _Utterance(True, "", "", (broken,))
    problems: list[Finding] = []
    speaker = utterance.get("speaker")
    if speaker not in ("agent", "customer"):
        message = f"{where} has no speaker `agent` or `customer`, so its language is unknown."
        problems.append(problem("missing_field", file, None, message))
    texts = []
    for name in ("source", "target"):
        if name not in utterance:
            message = f"{where} has no field `{name}`."
            problems.append(problem("missing_field", file, None, message))
        text, found = clean_sentence(utterance.get(name, ""), file, None, findings)
        texts.append(text)
        if found is not None:
            problems.append(replace(found, message=f"{where}: {found.message}"))
    return _Utterance(speaker == "agent", texts[0], texts[1], tuple(problems))


FORMAT = Format(names=("*.json",), files="one", read=read_dialogue)
