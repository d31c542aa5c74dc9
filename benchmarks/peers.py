"""A plain training step of other toolkits on the same shapes, beside stock Hugging Face Marian.

    python benchmarks/peers.py [--shapes base small] [--rounds 5] [--systems Sockeye JoeyNMT]

Each toolkit is installed on first use into an environment of its own under a cache folder, without
its dependencies but with what its model and loss need, and always with the PyTorch of this
environment: these are measurements of code, not of releases of PyTorch. One that cannot be
installed or run is left out, and the reason printed. Everything else is as in `step.py`. Rows of
an earlier call that this one does not measure are kept.
"""

import shutil
import subprocess
import sys
import venv
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from measuring import RESULTS, Compared, Results, Worker, alternate, draw_bars, earlier, save, table
from workload import SHAPES, Shape

from iada.cli.parsing import parse_dataclass

COMMON = (
    *("filelock", "typing_extensions", "sympy", "mpmath", "networkx", "jinja2", "markupsafe"),
    *("fsspec", "pyyaml", "sacrebleu", "portalocker", "regex", "tabulate", "colorama", "lxml"),
    *("packaging", "tqdm", "six", "setuptools<70"),
)
"""What PyTorch and most toolkits import."""
PLOTS = (
    *("matplotlib", "contourpy", "cycler", "fonttools", "kiwisolver", "pillow", "pyparsing"),
    *("python-dateutil", "subword-nmt", "mock", "sentencepiece", "sacremoses", "joblib", "click"),
)
HYDRA = (
    *("omegaconf==2.3.0", "antlr4-python3-runtime==4.9.3", "hydra-core==1.3.2", "bitarray"),
    *("cffi", "pycparser", "wheel", "cython<3.1"),
)
PYDANTIC = ("pydantic==2.12.5", "pydantic-core==2.41.5", "annotated-types", "typing-inspection")
ASSETS = (
    *("rich", "pygments", "markdown-it-py", "mdurl", "ruamel.yaml", "torcheval", "tiktoken"),
    *("importlib-metadata<8", "importlib-resources<7", "zipp", "mypy-extensions", "psutil"),
    *("safetensors", "editdistance"),
)
PEERS: dict[str, tuple[str, ...]] = {
    "Sockeye": ("sockeye==3.1.34", "numpy<2"),
    "JoeyNMT": ("joeynmt==2.3.0", "numpy", *PLOTS),
    "OpenNMT-py": ("OpenNMT-py==3.5.1", "numpy", "configargparse"),
    "fairseq": ("fairseq==0.12.2", "numpy<2", *HYDRA),
    "fairseq2": ("fairseq2==0.8.1", "numpy", *ASSETS),
    "eole": ("eole==0.6.4", "numpy", "configargparse", "safetensors", *PYDANTIC),
}
"""The toolkit, then what its model and loss need."""
OURS = "iada, plain training"
UNPACKED = ("fairseq",)
"""Its source release lacks files of its extensions, so it cannot be built. A step needs only the
Python part."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """What to measure."""

    shapes: tuple[str, ...] = ("base", "small")
    """Names of shapes: see `workload.SHAPES`."""
    systems: tuple[str, ...] = tuple(PEERS)
    """Names of toolkits."""
    rounds: int = 5
    """Steps of each toolkit."""
    cache: Path = Path(".cache/peers")
    """Where the environments are kept."""
    output: Path = RESULTS
    """Folder of the numbers and the plot."""


class Unavailable(Exception):
    """A toolkit cannot be measured."""


def main(options: Options) -> None:
    results = earlier("peers", options.output)
    skipped: dict[str, str] = {}
    for name in options.shapes:
        shape = SHAPES[name]
        rows = results.setdefault(name, {})
        with Worker("ours.py", {"system": "hf", "shape": asdict(shape)}) as reference:
            for system in (OURS, *options.systems):
                try:
                    with worker(system, shape, options.cache) as other:
                        rows[system] = compare(reference, other, shape, options.rounds)
                except (Unavailable, RuntimeError) as reason:
                    skipped[system] = str(reason)
                    print(f"{system} is left out: {reason}", file=sys.stderr)
                # At once: a run that is stopped leaves what it has measured.
                write(results, skipped, options.output)
    for name, rows in results.items():
        lines = [
            (
                system,
                f"{row.cpu:.2f}",
                f"{row.ratio:.2f}",
                f"{row.cpu_ratio:.2f}",
                f"{row.utilisation:.2f}",
                f"{row.peak_megabytes:.0f}",
            )
            for system, row in rows.items()
        ]
        header = ("", "CPU s", "ratio", "CPU ratio", "utilisation", "peak MB")
        print(f"\n{name}\n{table([header, *lines])}")


def write(results: Results, skipped: dict[str, str], folder: Path) -> None:
    """Write the report and the plot."""
    save(
        "peers",
        {
            "releases": {system: needs[0] for system, needs in PEERS.items()},
            "shapes": {name: asdict(SHAPES[name]) for name in results},
            "results": {
                shape: {name: asdict(row) for name, row in rows.items()}
                for shape, rows in results.items()
            },
            "left_out": skipped,
        },
        folder,
    )
    draw_bars(
        {
            shape: {name: row.cpu_ratio for name, row in rows.items()}
            for shape, rows in results.items()
            if rows
        },
        folder / "peers.svg",
        unit="processor time, times stock Hugging Face",
        line=1.0,
    )


def worker(system: str, shape: Shape, cache: Path) -> Worker:
    """Start a system in its own environment."""
    if system == OURS:
        return Worker("ours.py", {"system": "iada", "measure": "none", "shape": asdict(shape)})
    request = {"system": system, "shape": asdict(shape)}
    return Worker("peer_systems.py", request, environment(system, cache))


def compare(reference: Worker, worker: Worker, shape: Shape, rounds: int) -> Compared:
    """Let a toolkit take turns with the reference."""
    return alternate(
        reference,
        worker,
        rounds=rounds,
        operations=3 * shape.forward_operations(),
        tokens=2 * shape.windows * shape.length,
    )


def environment(system: str, cache: Path) -> str:
    """Return the Python of a toolkit's environment, which is made if it is not there."""
    folder = cache.absolute() / system.lower()
    python = folder / "bin" / "python"
    done = folder / "complete"
    if done.is_file():
        return str(python)
    toolkit, *needs = PEERS[system]
    # In each command, since any other release would be some gigabytes for other hardware.
    pinned = f"torch=={torch.__version__.partition('+')[0]}"
    venv.create(folder, with_pip=True, clear=True)
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    _run([*install, "--no-deps", pinned, *COMMON, *needs])
    if system in UNPACKED:
        _run([str(python), "-m", "pip", "download", "--no-deps", "--dest", str(folder), toolkit])
        (archive,) = folder.glob("*.tar.gz")
        shutil.unpack_archive(archive, folder)
        sources = folder / archive.name.removesuffix(".tar.gz")
        (packages,) = folder.glob("lib/python*/site-packages")
        shutil.move(sources / system, packages / system)
    else:
        _run([*install, "--no-deps", pinned, toolkit])
    done.touch()
    return str(python)


def _run(command: list[str]) -> None:
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        errors = [line for line in result.stderr.splitlines() if "error" in line.lower()]
        raise Unavailable(f"pip: {errors[-1].strip() if errors else result.returncode}")


if __name__ == "__main__":
    main(parse_dataclass(Options, sys.argv[1:], program="benchmarks/peers.py"))
