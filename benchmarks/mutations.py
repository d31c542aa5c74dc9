"""Break the code on purpose and see whether a test fails.

A mutation changes one operator, comparison, constant or condition of one module. The tests of that
module run on a copy of the tree, the nearest first; a mutation that no test notices survives and is
listed. A sample of all possible mutations is drawn from a seed. The results keep every outcome, and
what the first attempt gave: the same command goes on with what was not tried, and tries survivors
again, unless a reason why no test can notice them was written beside them.

    python benchmarks/mutations.py --modules method/selection training/trainer --count 20
"""

import argparse
import ast
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, Literal

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results" / "mutations.json"

_METHOD = "tests/unit/method/test_"
_WINDOWS = "tests/unit/data/windows/test_"
_NEAREST: dict[str, tuple[str, ...]] = {
    "method/importance": ("importance", "measures", "measuring", "one_stream", "augmented"),
    "method/measuring": ("measuring", "measures", "one_stream", "importance"),
    "method/selection": ("selection", "augmented", "one_stream", "measures"),
    "method/perturbation": ("perturbation", "augmented", "one_stream"),
    "method/losses": ("nll", "agreement", "fused", "augmented"),
    "method/fused": ("fused", "augmented", "one_stream"),
    "method/chunks": ("fused", "augmented", "one_stream", "compiled"),
    "method/kept_logits": ("kept_logits", "fused", "augmented"),
    "method/lagged": ("lagged",),
    "method/objective": ("augmented", "schedules", "one_stream", "ciphered_view", "measuring"),
    "data/windows/sampler": ("batching", "collate"),
    "data/windows/windows": ("windows", "subsets", "noise", "ciphered", "resegmented", "frame"),
    "data/windows/spans": ("spans", "windows", "resegmented", "frame"),
    "data/windows/batch": ("collate", "windows", "ciphered", "frame"),
    "data/windows/frame": ("frame", "windows"),
}
_FARTHER: dict[str, tuple[str, ...]] = {
    "method/objective": ("tests/unit/models/test_last_layer.py",),
    "method/lagged": (
        "tests/invariance/test_processes.py::test_lagged_importance_is_the_same_on_one_process_and_"
        "on_two",
    ),
}
TESTS: dict[str, tuple[str, ...]] = {
    module: (
        *(f"{_METHOD if module.startswith('method') else _WINDOWS}{name}.py" for name in names),
        f"{_METHOD}values.py",
        *_FARTHER.get(module, ()),
    )
    for module, names in _NEAREST.items()
} | {
    "training/trainer": tuple(
        f"tests/unit/training/test_{name}.py" for name in ("trainer", "run", "resuming", "finish")
    ),
    "evaluation/significance": (
        "tests/unit/evaluation/test_significance.py",
        "tests/golden/test_sacrebleu_significance.py",
    ),
}
"""Module -> the tests that must notice when it is broken, the nearest first."""

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
    code: str
    """The line itself: it stays when others move."""
    change: str
    place: int
    """Which of the same changes of equal lines."""
    number: int
    """Position among all mutations of the module."""

    @property
    def key(self) -> tuple[str, str, str, int]:
        """What stays when other lines change."""
        return self.module, self.code, self.change, self.place


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
    """Draw `count` mutations of each module, and take turns between the modules."""
    drawn = []
    for module in modules:
        source = (ROOT / "src" / "iada" / f"{module}.py").read_text(encoding="utf-8")
        lines, equal, every = source.splitlines(), Counter[tuple[str, str]](), list[Mutation]()
        for number, (line, change, _) in enumerate(mutations(ast.parse(source))):
            code = lines[line - 1].strip()
            every.append(Mutation(module, line, code, change, equal[code, change], number))
            equal[code, change] += 1
        drawn.append(random.Random(f"{seed} {module}").sample(every, min(count, len(every))))
    turns = zip_longest(*drawn)
    return [mutation for turn in turns for mutation in turn if mutation is not None]


def preload() -> None:
    """Import what takes long once; every run of the tests is a fork of this process."""
    os.environ["OMP_NUM_THREADS"] = "1"
    # Two mutations of one size within one second would share their compiled file.
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    sys.dont_write_bytecode = True
    import torch
    import transformers

    torch.set_num_threads(1)
    for name in ("Trainer", "MarianMTModel"):
        # Looking a name up imports its module.
        getattr(transformers, name)


Verdict = Literal["passed", "failed", "endless"]


def run_tests(
    tree: Path, tests: Sequence[str], timeout: float, *, first_failure: bool = True
) -> Verdict:
    """Run tests on a copy of the tree, to the first failure or to the end."""
    child = os.fork()
    if child == 0:
        os.setsid()
        log = os.open(tree.with_name("tests.log"), os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
        os.dup2(log, 1)
        os.dup2(log, 2)
        try:
            os._exit(call_pytest(tree, [*(("-x",) if first_failure else ()), *tests]))
        finally:
            # Nothing of this process may go on in its copy.
            traceback.print_exc()
            os._exit(1)
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return "failed" if status else "passed"
        time.sleep(0.05)
    # A mutation that never ends is noticed too.
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "endless"


def call_pytest(tree: Path, arguments: Sequence[str]) -> int:
    """Run tests in this process, on a copy of the tree."""
    os.chdir(tree)
    os.environ["PYTHONPATH"] = str(tree / "src")
    sys.path.insert(0, str(tree / "src"))
    import pytest

    # Plugins that were imported before cannot be rewritten; their assertions are not ours.
    quiet = ["-W", "ignore::pytest.PytestAssertRewriteWarning", "-p", "no:cacheprovider"]
    return int(pytest.main(["-q", *quiet, *arguments]))


def examine(tree: Path, mutation: Mutation, timeout: float) -> Verdict:
    """Break the copy, run the tests of the module, and restore it."""
    path = tree / "src" / "iada" / f"{mutation.module}.py"
    source = path.read_text(encoding="utf-8")
    try:
        path.write_text(mutate(source, mutation.number), encoding="utf-8")
        return run_tests(tree, TESTS[mutation.module], timeout)
    finally:
        path.write_text(source, encoding="utf-8")


class Results:
    """Every outcome, in a file."""

    def __init__(self, path: Path, seed: int) -> None:
        self.path = path
        self.seed = seed
        self.outcomes: dict[tuple[str, str, str, int], dict[str, Any]] = {}
        if path.is_file():
            for one in json.loads(path.read_text(encoding="utf-8"))["outcomes"]:
                key = (one["module"], one["code"], one["change"], one["place"])
                self.outcomes[key] = one

    def is_settled(self, mutation: Mutation) -> bool:
        """Whether a mutation was killed, or a reason is known why it cannot be."""
        known = self.outcomes.get(mutation.key, {})
        return bool(known.get("killed") or known.get("reason"))

    def add(self, mutation: Mutation, verdict: Verdict) -> None:
        """Note an outcome and write the file."""
        killed = verdict != "passed"
        known = self.outcomes.get(mutation.key, {})
        outcome = asdict(mutation) | {"killed": killed, "at_first": known.get("at_first", killed)}
        del outcome["number"]
        if verdict == "endless":
            outcome["endless"] = True
        if not killed:
            outcome["reason"] = ""
        self.outcomes[mutation.key] = outcome
        self.write()

    def write(self) -> None:
        """Write all outcomes, and how many there are of each kind."""
        known = sorted(self.outcomes.values(), key=lambda one: (one["module"], one["line"]))
        tried = Counter(one["module"] for one in known)
        by_module = Counter(one["module"] for one in known if one["killed"])
        summary = {
            "seed": self.seed,
            "tried": len(known),
            "killed": sum(by_module.values()),
            "killed_at_first": sum(one["at_first"] for one in known),
            "modules": {n: {"tried": tried[n], "killed": by_module[n]} for n in sorted(tried)},
            "outcomes": known,
        }
        text = json.dumps(summary, indent=1, ensure_ascii=False)
        self.path.write_text(text + "\n", encoding="utf-8")


def copy_tree(tree: Path) -> None:
    """Copy what the tests need."""
    for part in ("src", "tests", "docs", "recipes", "benchmarks"):
        shutil.copytree(ROOT / part, tree / part, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tree)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--modules", nargs="+", choices=TESTS, default=list(TESTS))
    parser.add_argument("--count", type=int, default=14, help="mutations of each module")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds for the tests")
    parser.add_argument("--minutes", type=float, default=40.0, help="most time for all of it")
    parser.add_argument("--output", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    preload()
    deadline = time.monotonic() + 60 * arguments.minutes
    results = Results(arguments.output, arguments.seed)
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "main"
        copy_tree(tree)
        every = dict.fromkeys(test for name in arguments.modules for test in TESTS[name])
        if run_tests(tree, [*every], 10 * arguments.timeout) != "passed":
            told = tree.with_name("tests.log").read_text(encoding="utf-8")
            sys.exit(f"{told}\nThe tests fail before anything was broken.")
        for mutation in sample(arguments.modules, arguments.count, arguments.seed):
            if time.monotonic() > deadline:
                break
            if results.is_settled(mutation):
                continue
            verdict = examine(tree, mutation, arguments.timeout)
            results.add(mutation, verdict)
            where = f"{mutation.module}:{mutation.line}: {mutation.change}"
            print(f"{where}: {'SURVIVED' if verdict == 'passed' else verdict}", flush=True)
    killed_ones = [one for one in results.outcomes.values() if one["killed"]]
    print(f"{len(killed_ones)} of {len(results.outcomes)} killed")


if __name__ == "__main__":
    main()
