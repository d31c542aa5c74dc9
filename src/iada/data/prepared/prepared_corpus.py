"""A prepared corpus: byte-pair encoding, token stores, and a manifest with their hashes.

manifest.json      settings, counts, subsets, noise, sha256 of every file; written last
tokenizer/         the byte-pair encoding
checks/            findings.jsonl (every finding), their summary in checks.json and checks.txt
train/ dev/ test/  token stores
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from iada.config.base import to_mapping
from iada.config.data import DataConfig, Split, SubwordConfig, WindowConfig
from iada.config.method import AugmentConfig
from iada.data.prepared.store import TokenStore, id_type
from iada.data.tokens.pretrained_subwords import load_subwords
from iada.data.tokens.subwords import SubwordEncoding
from iada.data.windows.conditions import (
    NoiseDescription,
    context_noise,
    describe_noise,
    describe_subsets,
)
from iada.errors import DataError
from iada.storage import describe_files, read_object, sha256, write_json

MANIFEST = "manifest.json"
FORMAT = 1
"""Version of the layout; a folder of another version is refused."""

_NOT_IN_STORE = ("folder", "prepared", "subset", "subset_seed", "split", "max_line_bytes")
"""Keys of `data` that change neither the documents nor their tokens."""


@dataclass(frozen=True)
class PreparedCorpus:
    """A finished folder of `iada prepare`."""

    path: Path
    manifest: Mapping[str, Any]

    @classmethod
    def open(cls, path: Path) -> "PreparedCorpus":
        """Open a prepared folder; its files must be those that the manifest describes.

        Sizes are compared each time, sha256 when a file is new or was modified since the last time.
        """
        manifest_file = path / MANIFEST
        if not manifest_file.is_file():
            raise DataError(
                f"{path} is not a prepared corpus: it has no {MANIFEST}. "
                "Make it with `iada prepare`."
            )
        try:
            manifest = read_object(manifest_file)
            version = manifest["format"]
        except (ValueError, KeyError):
            raise DataError(f"{manifest_file} is damaged. Prepare the corpus again.") from None
        if version != FORMAT:
            raise DataError(
                f"{path} has format {version}, but this version of iada reads {FORMAT}. "
                "Prepare the corpus again."
            )
        corpus = cls(path, manifest)
        try:
            corpus._check_sizes()
            corpus._verify_modified()
        except (AttributeError, KeyError, TypeError, ValueError):
            raise DataError(
                f"{manifest_file} does not describe a prepared corpus. Prepare the corpus again."
            ) from None
        return corpus

    @property
    def splits(self) -> tuple[str, ...]:
        """Names of the splits."""
        return tuple(self.manifest["splits"])

    def subwords(self) -> SubwordEncoding:
        """Load the encoding."""
        return load_subwords(self.path / "tokenizer")

    def store(
        self, split: str, subwords: SubwordEncoding, *, cipher_keys: Sequence[int] = ()
    ) -> TokenStore:
        """Map the token store of a split, with the source of these ciphers."""
        if split not in self.splits:
            raise DataError(f"{self.path} has no split `{split}`, only {', '.join(self.splits)}.")
        dtype = self.manifest["splits"][split]["dtype"]
        return TokenStore.open(
            self.path / split, subwords.special, dtype=dtype, cipher_keys=cipher_keys
        )

    def summary(self) -> str:
        """Return the findings and the size of every split as text."""
        checks = (self.path / "checks" / "checks.txt").read_text(encoding="utf-8")
        header = ("split", "documents", "sentences", "source tokens", "target tokens")
        rows = [
            (name, *(f"{n:,}" for n in (r["documents"], r["sentences"], *_plain_tokens(r))))
            for name, r in self.manifest["splits"].items()
        ]
        table = [f"{row[0]:<7}" + "".join(f"{cell:>15}" for cell in row[1:]) for row in rows]
        first = f"{header[0]:<7}" + "".join(f"{cell:>15}" for cell in header[1:])
        vocabulary = f"{self.manifest['vocabulary']:,} pieces in the vocabulary"
        return "\n".join([checks, first, *table, vocabulary])

    def check_settings(
        self,
        data: DataConfig,
        subwords: SubwordConfig,
        augment: AugmentConfig | None = None,
        pretrained: str | None = None,
    ) -> None:
        """Refuse a run that was configured with another corpus or encoding."""
        given = store_settings(data, subwords, augment, pretrained)
        # A setting that is newer than the folder had its default when the folder was made.
        saved = store_settings(DataConfig(), SubwordConfig()) | self.manifest["settings"]
        # Keys of both: the ciphers of an encoding are listed only if it has any.
        changed = [
            f"{key} is {saved.get(key)!r} in the prepared corpus and {given.get(key)!r} here"
            for key in dict.fromkeys((*given, *saved))
            if saved.get(key) != given.get(key)
        ]
        if changed:
            raise DataError(
                f"{self.path} was prepared with other settings: {'; '.join(changed)}. "
                "Use the same settings, or prepare the corpus into another folder."
            )

    def verify(self) -> None:
        """Compare every file with its sha256; reads the whole folder."""
        self._verify(self.manifest["files"])

    def _verify(self, names: Iterable[str]) -> None:
        for name in names:
            if sha256(self.path / name) != self.manifest["files"][name]["sha256"]:
                raise DataError(
                    f"{self.path / name} has changed since the corpus was prepared: it is not the "
                    f"file that {MANIFEST} describes. Remove {self.path} and prepare the corpus "
                    "again."
                )

    def _verify_modified(self) -> None:
        """Compare files with their sha256 that were not verified in their present state."""
        known = _read_verified(self.path)
        states = _describe_states(self.path, self.manifest)
        modified = [name for name, state in states.items() if known.get(name) != state]
        if modified:
            self._verify(modified)
            remember_verified(self.path, self.manifest)

    def _check_sizes(self) -> None:
        for name, record in self.manifest["files"].items():
            path = self.path / name
            size = path.stat().st_size if path.is_file() else None
            if size != record["bytes"]:
                raise DataError(
                    f"{path} should have {record['bytes']} bytes but "
                    f"{'is missing' if size is None else f'has {size}'}. Prepare the corpus again."
                )


def store_settings(
    data: DataConfig,
    subwords: SubwordConfig,
    augment: AugmentConfig | None = None,
    pretrained: str | None = None,
) -> dict[str, Any]:
    """Return the settings that a prepared corpus depends on, by key.

    Args:
        data: the corpus.
        subwords: the encoding to learn.
        augment: the ciphers to learn it with.
        pretrained: fingerprint of the pre-trained tokenizer that is used in its place.
    """
    settings = {
        f"data.{key}": value
        for key, value in to_mapping(data).items()
        # Columns are listed only if they are named: older folders do not list them.
        if key not in _NOT_IN_STORE and not (key.endswith("_column") and value is None)
    }
    settings |= {f"subwords.{key}": value for key, value in to_mapping(subwords).items()}
    if augment is not None and augment.cipher_keys:
        settings["augment.cipher_keys"] = list(augment.cipher_keys)
        settings["augment.cipher_cased"] = augment.cipher_cased
    if pretrained is not None:
        # The tokenizer itself, wherever the model lies and whatever it is called.
        settings["model.pretrained"] = f"tokenizer sha256:{pretrained}"
    return settings


def remember_verified(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Note beside a folder that its files, in their present state, are those of the manifest."""
    # A folder that others own is verified each time.
    with suppress(OSError):
        write_json(_verified_file(folder), _describe_states(folder, manifest))


def _verified_file(folder: Path) -> Path:
    # Beside the folder and not inside: equal corpora have equal folders.
    whole = folder.resolve()
    return whole.with_name(f".{whole.name}.verified.json")


def _read_verified(folder: Path) -> dict[str, Any]:
    try:
        content = _read(_verified_file(folder))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _describe_states(folder: Path, manifest: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return size, time of modification and expected sha256 of every file."""
    return {
        name: [(info := (folder / name).stat()).st_size, info.st_mtime_ns, record["sha256"]]
        for name, record in manifest["files"].items()
    }


def _plain_tokens(record: Mapping[str, Any]) -> tuple[int, int]:
    return record["tokens"]["source"], record["tokens"]["target"]


def describe_work(
    folder: Path, splits: Iterable[Split], *, subset_seed: int, windows: WindowConfig
) -> dict[str, Any]:
    """Describe a folder in which every stage is complete.

    Args:
        folder: the work folder.
        splits: the splits in it.
        subset_seed: seed of the low-resource subsets to describe.
        windows: the noise to describe, if there is any.
    """
    subwords = load_subwords(folder / "tokenizer")
    dtype = id_type(len(subwords))
    train = TokenStore.open(folder / "train", subwords.special, dtype=dtype)
    sizes = np.diff(train.document_starts)
    checks = _read(folder / "checks" / "checks.json")
    return {
        "vocabulary": len(subwords),
        "splits": {s: _read(folder / s / "counts.json") | {"dtype": dtype} for s in splits},
        "checks": {"errors": checks["errors"], "warnings": checks["warnings"]},
        "subsets": {"seed": subset_seed, "shares": describe_subsets(sizes, subset_seed)},
        "noise": _noise(train, windows),
        "files": describe_files(folder, without=(MANIFEST,)),
    }


def _noise(train: TokenStore, windows: WindowConfig) -> NoiseDescription | None:
    """Describe the noisy context that the recipe asks for."""
    noise = context_noise(windows)
    return None if noise is None else describe_noise(train, noise, context=windows.context)


def _read(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content
