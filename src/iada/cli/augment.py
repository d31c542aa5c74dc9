"""`iada augment`: perturbed copies of a corpus, or a corpus doubled by translation."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Literal

import tyro

from iada.cli.parsing import find_positional, find_value, parse_dataclass
from iada.config.base import to_mapping
from iada.config.data import DataConfig, Split
from iada.config.method import AugmentConfig
from iada.errors import ConfigError
from iada.runs.folder import RunFolder

Kind = Literal["perturb", "back_translate", "forward_translate"]

EXAMPLES = (
    "iada augment runs/mine --output copies --copies 2",
    "iada augment runs/reverse --kind back_translate --output doubled",
)


@dataclass(frozen=True, kw_only=True)
class AugmentCommand:
    """Write an augmented corpus as text, for training here or with any other toolkit.

    `perturb` writes copies whose tokens are replaced by importance. `back_translate` and
    `forward_translate` write a corpus of the real training documents and as many synthetic ones; if
    that is interrupted, the same command resumes.
    """

    run: Annotated[Path | None, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")] = None
    """Run folder of the model; for back-translation one from the target to the source language."""
    output: Path | None = None
    """Folder to write."""
    kind: Kind = "perturb"
    """What to write."""
    copies: int = 1
    """`perturb`: number of copies."""
    role: Literal["current", "context"] = "current"
    """`perturb`: perturb each sentence by the rule for current sentences, or as the context right
    before the next sentence."""
    split: Split = "train"
    """`perturb`: which part of the corpus."""
    mask_text: str = "<mask>"
    """`perturb`: the word that stands for a token dropped by `augment.replacement: drop`."""
    details: bool = False
    """`perturb`: also write tokens, importance, probabilities and what was replaced, as JSON
    lines."""
    seed: int = 1
    """`perturb`: seed of the noise."""
    max_tokens: int = 4096
    """`perturb`: tokens of a batch, padding included."""
    tag: str | None = None
    """Translation: special token before every synthetic source sentence, such as `<bt>`. Train with
    `--subwords.tags` of the same name."""
    beam: int | None = None
    """Translation: beam size; by default the run's."""
    dry_run: bool = False
    """Say what would be written and stop."""
    data: DataConfig = field(default_factory=DataConfig)
    """The corpus; by default the run's. For back-translation that is the run's with its languages
    swapped, so that the source language is the one to translate from in the end."""
    augment: AugmentConfig = field(default_factory=AugmentConfig)
    """`perturb`: measure, replacement and probabilities, by default the run's; and `sides`, by
    default `source`, because perturbed targets are no labels."""


def parse(arguments: Sequence[str]) -> AugmentCommand:
    """Parse the arguments of `iada augment`; the run's configuration lies beneath the flags."""
    run = find_positional(arguments, AugmentCommand)
    default = AugmentCommand(run=run)
    if run is not None:
        config = RunFolder(run).config()
        data = config.data
        if find_value("--kind", arguments) == "back_translate":
            languages = data.source_language, data.target_language
            data = replace(data, source_language=languages[1], target_language=languages[0])
        # Other toolkits would learn perturbed targets as labels.
        augment = replace(config.augment, sides="source")
        default = replace(default, data=data, augment=augment)
    command = parse_dataclass(
        AugmentCommand, arguments, program="iada augment", examples=EXAMPLES, default=default
    )
    if command.run is None:
        raise ConfigError("Give the run folder of a model: `iada augment RUN --output FOLDER`.")
    if command.run != run:
        raise ConfigError(f"Give the run first: `iada augment {command.run} ...`.")
    if command.output is None:
        raise ConfigError("Give the folder to write: `--output FOLDER`.")
    if command.tag is not None and command.kind == "perturb":
        raise ConfigError("`--tag` marks translations. Choose another `--kind`, or leave it out.")
    return command


def run(command: AugmentCommand) -> Path:
    """Write the corpus, and return its folder."""
    if command.run is None or command.output is None:
        raise ValueError("an augmented corpus needs a run and an output")
    if command.dry_run:
        print(_plan(command))
        return command.output
    if command.kind == "perturb":
        return _perturb(command, command.run, command.output)
    return _translate(command, command.run, command.output, command.kind)


def _perturb(command: AugmentCommand, run: Path, output: Path) -> Path:
    from iada.decoding.translator import DocumentTranslator
    from iada.synthesis.copies import Copier, CopySettings, copy_boundaries, write_copies
    from iada.synthesis.rendering import Rendering

    boundaries = copy_boundaries(command.data, command.split)
    rendering = Rendering(boundaries=boundaries, mask_text=command.mask_text)
    translator = DocumentTranslator.load(run)
    settings = CopySettings(
        augment=command.augment,
        windows=translator.windows,
        frame=translator.frame,
        rendering=rendering,
        role=command.role,
        copies=command.copies,
        seed=command.seed,
        max_tokens=command.max_tokens,
    )
    copier = Copier(translator.model, translator.subwords, settings)
    write_copies(copier, command.data, command.split, output, details=command.details)
    print(
        f"{copier.sentences:,} sentence pairs, {command.copies} copies, "
        f"{copier.replaced:,} of {copier.tokens:,} tokens replaced"
    )
    print(output)
    return output


def _translate(
    command: AugmentCommand,
    run: Path,
    output: Path,
    kind: Literal["back_translate", "forward_translate"],
) -> Path:
    from iada.synthesis.translated import synthesize, synthetic_data

    decode = RunFolder(run).config().decode
    if command.beam is not None:
        decode = replace(decode, beam=command.beam)
    synthesize(run, command.data, output, kind=kind, tag=command.tag, decode=decode)
    old, new = to_mapping(command.data), to_mapping(synthetic_data(command.data, output))
    flags = [f"--data.{key} {new[key]}" for key in new if new[key] != old[key] and new[key]]
    if command.tag is not None:
        flags.append(f"--subwords.tags '{command.tag}'")
    if old["prepared"]:
        # The recipe's prepared folder would win over the new corpus.
        flags.append(f"--data.prepared {output.with_name(f'{output.name}.prepared')}")
    print(f"{'prepare and train' if old['prepared'] else 'train'} with {' '.join(flags)}")
    print(output)
    return output


def _plan(command: AugmentCommand) -> str:
    from iada.data.formats.readers import stream_split

    split: Split = command.split if command.kind == "perturb" else "train"
    documents = sentences = 0
    for document in stream_split(command.data, split):
        documents += 1
        sentences += len(document)
    what = f"{command.copies} copies" if command.kind == "perturb" else "doubled"
    source = command.data.paths(split)[0]
    return (
        f"{source}: {documents} documents, {sentences} sentence pairs, {command.kind}, {what} "
        f"-> {command.output}"
    )
