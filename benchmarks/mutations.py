"""Break the code on purpose and see whether a test fails.

A mutation changes one operator, comparison, constant or condition of one module. The tests of that
module run on a copy of the tree; a mutation that no test notices survives and is listed. A sample
of all possible mutations is drawn from a seed, so that a run can be repeated and extended.

    python benchmarks/mutations.py --modules method/selection training/trainer --count 20
"""

import argparse
import ast
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results" / "mutations.json"

TESTS: dict[str, tuple[str, ...]] = {
    "method/importance": ("tests/unit/method",),
    "method/selection": ("tests/unit/method",),
    "method/perturbation": ("tests/unit/method",),
    "method/losses": ("tests/unit/method",),
    "method/fused": ("tests/unit/method",),
    "method/chunks": ("tests/unit/method",),
    "method/objective": ("tests/unit/method",),
    "training/trainer": ("tests/unit/training", "tests/invariance/test_resume.py"),
    "data/windows/sampler": ("tests/unit/data/windows",),
    "data/windows/windows": ("tests/unit/data/windows", "tests/unit/test_docs.py"),
    "data/windows/spans": ("tests/unit/data/windows",),
    "data/windows/batch": ("tests/unit/data/windows",),
    "data/windows/frame": ("tests/unit/data/windows",),
    "evaluation/significance": (
        "tests/unit/evaluation/test_significance.py",
        "tests/golden/test_sacrebleu_significance.py",
    ),
}
"""Module -> the tests that must notice when it is broken."""

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}


@dataclass(frozen=True)
class Mutation:
    """One change of one place."""

    module: str
    line: int
    change: str
    number: int
    """Position among all mutations of the module."""


@dataclass(frozen=True)
class Outcome:
    """What the tests made of a mutation."""

    mutation: Mutation
    killed: bool
    seconds: float


def mutations(tree: ast.Module) -> Iterator[tuple[int, str, Callable[[], None]]]:
    """Yield line, description and the change itself of every mutation of a syntax tree."""
    ignored = _annotations(tree)
    for node in ast.walk(tree):
        if id(node) in ignored:
            continue
        if isinstance(node, ast.Compare) and type(node.ops[0]) in _COMPARISONS:
            new = _COMPARISONS[type(node.ops[0])]
            yield (
                node.lineno,
                f"{_name(node.ops[0])} to {new.__name__}",
                _setter(node.ops, 0, new()),
            )
        elif isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in _OPERATORS:
            operator = _OPERATORS[type(node.op)]
            change = f"{_name(node.op)} to {operator.__name__}"
            yield node.lineno, change, _attribute(node, "op", operator())
        elif isinstance(node, ast.BoolOp):
            other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            yield node.lineno, f"{_name(node.op)} to {_name(other)}", _attribute(node, "op", other)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub | ast.Invert):
            yield node.lineno, f"{_name(node.op)} left out", _attribute(node, "op", ast.UAdd())
        elif isinstance(node, ast.If | ast.IfExp):
            test = ast.copy_location(ast.UnaryOp(ast.Not(), node.test), node.test)
            yield node.lineno, "condition negated", _attribute(node, "test", test)
        elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
            yield node.lineno, f"{node.value} negated", _attribute(node, "value", not node.value)
        elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
            yield node.lineno, f"{node.value} plus 1", _attribute(node, "value", node.value + 1)


def _annotations(tree: ast.Module) -> set[int]:
    """Ids of all nodes that only type checkers and readers see."""
    hints: list[ast.expr] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign | ast.arg):
            hint = node.annotation
        else:
            hint = node.returns if isinstance(node, ast.FunctionDef) else None
        if hint is not None:
            hints.append(hint)
    return {id(inner) for hint in hints for inner in ast.walk(hint)}


def _name(node: ast.AST) -> str:
    return type(node).__name__


def _setter(values: list[ast.cmpop], index: int, value: ast.cmpop) -> Callable[[], None]:
    return lambda: values.__setitem__(index, value)


def _attribute(node: ast.AST, name: str, value: object) -> Callable[[], None]:
    return lambda: setattr(node, name, value)


def mutate(source: str, number: int) -> str:
    """Return a module with one of its mutations."""
    tree = ast.parse(source)
    list(mutations(tree))[number][2]()
    return ast.unparse(ast.fix_missing_locations(tree))


def sample(modules: Sequence[str], count: int, seed: int) -> list[Mutation]:
    """Draw `count` mutations of each module."""
    drawn = []
    for module in modules:
        source = (ROOT / "src" / "iada" / f"{module}.py").read_text(encoding="utf-8")
        every = [
            Mutation(module, line, change, number)
            for number, (line, change, _) in enumerate(mutations(ast.parse(source)))
        ]
        chosen = random.Random(f"{seed} {module}").sample(every, min(count, len(every)))
        drawn += sorted(chosen, key=lambda mutation: mutation.line)
    return drawn


def run_tests(tree: Path, tests: Sequence[str], timeout: float) -> bool:
    """Whether all tests pass on a copy of the tree."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    environment = os.environ | {"PYTHONPATH": str(tree / "src"), "OMP_NUM_THREADS": "1"}
    try:
        done = subprocess.run(
            command, cwd=tree, env=environment, capture_output=True, timeout=timeout, check=False
        )
    except subprocess.TimeoutExpired:
        # A mutation that never ends is noticed too.
        return False
    return done.returncode == 0


def examine(tree: Path, mutation: Mutation, timeout: float) -> Outcome:
    """Break the copy, run the tests of the module, and restore it."""
    path = tree / "src" / "iada" / f"{mutation.module}.py"
    source = path.read_text(encoding="utf-8")
    begun = time.perf_counter()
    try:
        path.write_text(mutate(source, mutation.number), encoding="utf-8")
        killed = not run_tests(tree, TESTS[mutation.module], timeout)
    finally:
        path.write_text(source, encoding="utf-8")
    return Outcome(mutation, killed, time.perf_counter() - begun)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--modules", nargs="+", choices=TESTS, default=list(TESTS))
    parser.add_argument("--count", type=int, default=10, help="mutations of each module")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds for the tests")
    parser.add_argument("--output", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "main"
        for part in ("src", "tests", "docs", "recipes", "benchmarks"):
            shutil.copytree(ROOT / part, tree / part)
        shutil.copy(ROOT / "pyproject.toml", tree)
        for module in arguments.modules:
            if not run_tests(tree, TESTS[module], arguments.timeout):
                sys.exit(f"{module}: its tests fail before anything was broken")
        for mutation in sample(arguments.modules, arguments.count, arguments.seed):
            outcome = examine(tree, mutation, arguments.timeout)
            outcomes.append(outcome)
            verdict = "killed" if outcome.killed else "SURVIVED"
            print(f"{mutation.module}:{mutation.line}: {mutation.change}: {verdict}", flush=True)
            arguments.output.write_text(
                json.dumps([asdict(one) for one in outcomes], indent=1) + "\n", encoding="utf-8"
            )
    killed = sum(outcome.killed for outcome in outcomes)
    print(f"{killed} of {len(outcomes)} killed ({killed / len(outcomes):.1%})")


if __name__ == "__main__":
    main()
