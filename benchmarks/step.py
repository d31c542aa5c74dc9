"""Time and memory of a training step: stock Hugging Face Marian against this package.

    python benchmarks/step.py [--shapes base small] [--variants TNorm GNorm] [--rounds 7]

One thread, dropout 0.3, Adam update included; float32, or bf16 by autocast in the rows that say so.
The reference is `MarianMTModel` with its own loss (`labels=`) and PyTorch's default AdamW, in
float32. Every variant runs in a process of its own and takes turns with the reference; ratios are
medians over rounds, by the clock and by processor time. These agree on an idle machine, and the
second is far less disturbed on a busy one. Utilisation is the share of the speed of a 2048-cubed
matrix product in float32 in the same process, counting only the products that the variant's
mathematics needs: three forward passes' worth for each view that is learned from, and two more for
the gradient of GNorm (its own backward pass at the activations, and, where it is not reused, its
forward pass; neither where it is lagged). Rows that an earlier call left in the output folder and
that this one does not measure are kept.

Architectures are compared with Doc2Doc of this package at the same window, plain training with
plain training and GNorm with GNorm, in `architectures.json`. Those without context on the target
side write one sentence where the others write four.
"""

import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from measuring import RESULTS, Compared, Results, Worker, alternate, draw_bars, earlier, save, table
from workload import SHAPES, Shape

from iada.cli.parsing import parse_dataclass


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A way to train."""

    system: str = "iada"
    measure: str = "none"
    importance_pass: str = "reuse"
    computation: str = "fused"
    loss_on: str = "all"
    precision: str = "float32"
    model: dict[str, Any] = field(default_factory=dict)
    """Keys of an architecture; none for rows without sentences."""

    def operations(self, shape: Shape) -> float:
        """Operations in matrix products of one step."""
        views = {"none": 1}.get(self.measure, 2)
        passes = 3.0 * views
        if self.measure == "gnorm" and self.importance_pass != "lagged":
            passes += 1
        if self.measure in ("tnorm", "gnorm") and self.importance_pass == "separate":
            passes += 1
        return passes * shape.forward_operations(self.loss_on)


VARIANTS = {
    "HF, label smoother": Variant(system="hf smoothed"),
    "plain training": Variant(),
    "plain training, plain losses": Variant(computation="plain"),
    "plain training, current": Variant(loss_on="current"),
    "TNorm": Variant(measure="tnorm"),
    "TNorm, plain losses": Variant(measure="tnorm", computation="plain"),
    "TNorm, separate": Variant(measure="tnorm", importance_pass="separate"),
    "TNorm, current": Variant(measure="tnorm", loss_on="current"),
    "GNorm": Variant(measure="gnorm"),
    "GNorm, plain losses": Variant(measure="gnorm", computation="plain"),
    "GNorm, separate": Variant(measure="gnorm", importance_pass="separate"),
    "GNorm, current": Variant(measure="gnorm", loss_on="current"),
    "GNorm, lagged": Variant(measure="gnorm", importance_pass="lagged"),
    "GNorm, lagged, current": Variant(measure="gnorm", importance_pass="lagged", loss_on="current"),
    "stock Hugging Face, bf16": Variant(system="hf", precision="bf16"),
    "plain training, bf16": Variant(precision="bf16"),
    "TNorm, bf16": Variant(measure="tnorm", precision="bf16"),
    "GNorm, bf16": Variant(measure="gnorm", precision="bf16"),
    "GNorm, lagged, bf16": Variant(measure="gnorm", importance_pass="lagged", precision="bf16"),
}
REFERENCE = Variant(system="hf")
ARCHITECTURES: dict[str, dict[str, Any]] = {
    "Doc2Doc": {"architecture": "doc2doc"},
    "FlatTrans": {"architecture": "flat"},
    "G-Transformer": {"architecture": "gtrans"},
    "HAN, encoder": {"architecture": "han"},
    "HAN, both sides": {"architecture": "han", "context_sides": "both"},
    "SAN": {"architecture": "san"},
    "Hybrid": {"architecture": "hybrid"},
    # What far context costs is the length of its windows.
    "DocFlat, no far context": {"architecture": "docflat", "gate": "hard", "far_context": 0},
}


@dataclass(frozen=True, kw_only=True)
class Options:
    """What to measure."""

    shapes: tuple[str, ...] = ("base", "small", "base 4000+4000")
    """Names of shapes: see `workload.SHAPES`."""
    variants: tuple[str, ...] = tuple(VARIANTS)
    """Names of variants."""
    architectures: tuple[str, ...] = tuple(ARCHITECTURES)
    """Names of architectures."""
    rounds: int = 7
    """Steps of each variant."""
    output: Path = RESULTS
    """Folder of the numbers and the plot."""


def main(options: Options) -> None:
    if options.architectures:
        compare_architectures(options)
    if not options.variants:
        return
    results = earlier("step", options.output)
    for name in options.shapes:
        rows = results.setdefault(name, {})
        for variant, row in measure(SHAPES[name], options):
            rows[variant] = row
            # At once: a run that is stopped leaves what it has measured.
            write(results, options.output)
    for shape, rows in results.items():
        print(f"\n{shape}\n{_table(rows)}")


def write(results: Results, folder: Path) -> None:
    """Write the report and the plot."""
    save(
        "step",
        {
            "shapes": {name: asdict(SHAPES[name]) for name in results},
            "results": {
                shape: {name: asdict(result) for name, result in rows.items()}
                for shape, rows in results.items()
            },
        },
        folder,
    )
    draw_bars(
        {
            f"{shape}: {title}": {
                name: value
                for name, row in rows.items()
                if (value := getattr(row, key)) is not None
            }
            for shape, rows in results.items()
            for title, key in (("processor time", "cpu_ratio"), ("peak memory", "memory_ratio"))
        },
        folder / "step.svg",
        unit="times stock Hugging Face",
        line=1.0,
    )


def compare_architectures(options: Options) -> None:
    """Measure plain and GNorm steps of architectures beside Doc2Doc's."""
    results = earlier("architectures", options.output)
    for name in options.shapes:
        rows = results.setdefault(name, {})
        for measure, title in (("none", "plain training"), ("gnorm", "GNorm")):
            for system, row in measure_architectures(SHAPES[name], measure, options):
                rows[f"{system}, {title}"] = row
                report = {
                    shape: {key: asdict(result) for key, result in found.items()}
                    for shape, found in results.items()
                }
                shapes = {shape: asdict(SHAPES[shape]) for shape in results}
                save("architectures", {"shapes": shapes, "results": report}, options.output)
        print(f"\n{name}, times Doc2Doc\n{_table(rows)}")


def measure_architectures(
    shape: Shape, measure: str, options: Options
) -> Iterator[tuple[str, Compared]]:
    """Measure architectures with one way of training; first Doc2Doc against itself."""
    megabytes = 0.0
    reference = Variant(measure=measure, model=ARCHITECTURES["Doc2Doc"])
    with Worker("ours.py", _request(reference, shape)) as doc2doc:
        for name in dict.fromkeys(("Doc2Doc", *options.architectures)):
            keys = ARCHITECTURES[name]
            if measure == "gnorm" and keys["architecture"] in ("han", "san", "hybrid"):
                # As in the experiments: GNorm sees no context without that gradient.
                keys = keys | {"stop_context": False}
            variant = replace(reference, model=keys)
            with Worker("ours.py", _request(variant, shape)) as other:
                row = alternate(
                    doc2doc,
                    other,
                    rounds=options.rounds,
                    # Doc2Doc's, so that utilisation is what its mathematics would reach.
                    operations=variant.operations(shape),
                    tokens=2 * shape.windows * shape.length,
                )
            megabytes = megabytes or row.peak_megabytes
            yield name, replace(row, memory_ratio=row.peak_megabytes / megabytes)
            print(f"{name}: {row.ratio:.2f} times, {row.peak_megabytes:.0f} MB", file=sys.stderr)


def measure(shape: Shape, options: Options) -> Iterator[tuple[str, Compared]]:
    """Measure all variants on a shape; first the reference against itself."""
    variants = {"stock Hugging Face": REFERENCE} | {n: VARIANTS[n] for n in options.variants}
    stock_megabytes = 0.0
    with Worker("ours.py", _request(REFERENCE, shape)) as reference:
        for name, variant in variants.items():
            with Worker("ours.py", _request(variant, shape)) as other:
                row = alternate(
                    reference,
                    other,
                    rounds=options.rounds,
                    operations=variant.operations(shape),
                    tokens=2 * shape.windows * shape.length,
                )
            stock_megabytes = stock_megabytes or row.peak_megabytes
            yield name, replace(row, memory_ratio=row.peak_megabytes / stock_megabytes)
            print(f"{name}: {row.ratio:.2f} times, {row.peak_megabytes:.0f} MB", file=sys.stderr)


def _request(variant: Variant, shape: Shape) -> dict[str, Any]:
    return asdict(variant) | {"shape": asdict(shape)}


def _table(rows: dict[str, Compared]) -> str:
    header = ("", "CPU s", "ratio", "CPU ratio", "utilisation", "tokens/s", "peak MB", "ratio")
    lines = [
        (
            name,
            f"{row.cpu:.2f}",
            f"{row.ratio:.2f}",
            f"{row.cpu_ratio:.2f}",
            f"{row.utilisation:.2f}",
            f"{row.tokens_per_second:.0f}",
            f"{row.peak_megabytes:.0f}",
            f"{row.memory_ratio:.2f}",
        )
        for name, row in rows.items()
    ]
    return table([header, *lines])


if __name__ == "__main__":
    main(parse_dataclass(Options, sys.argv[1:], program="benchmarks/step.py"))
