"""Bring back defects that were found and repaired once, and see whether their tests fail.

    python benchmarks/defects.py [--rows 3 7]

Every row is a way in which iada once lost, spoilt or misjudged something. Each of its defects is
put back into a copy of the tree, as the smallest change of today's code that has it again, and the
tests named beside it run there: all of them must fail, and all of them must pass on the code as it
is. A test that passes on both could not have found the defect.
"""

import json
import re
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro
from known_defects import DEFECTS, Defect
from mutations import copy_tree, preload, run_tests


@dataclass(frozen=True)
class Options:
    """Which defects, and where the results go."""

    rows: tuple[int, ...] = tuple(sorted({defect.row for defect in DEFECTS}))
    """Rows to try; results of others stay in the file."""
    timeout: float = 300.0
    """Seconds for the tests of one defect."""
    output: Path = Path("benchmarks/results/defects.json")
    """Where the results go."""


def examine(tree: Path, defect: Defect, timeout: float) -> list[str]:
    """Bring a defect back, run its tests and repair the copy; return the tests that passed.

    Tests that do not end have noticed it too.
    """
    path = tree / "src" / "iada" / defect.file
    source = path.read_text(encoding="utf-8")
    if source.count(defect.now) != 1:
        sys.exit(f"{defect.file} holds {source.count(defect.now)} times: {defect.now}")
    try:
        path.write_text(source.replace(defect.now, defect.then), encoding="utf-8")
        if run_tests(tree, defect.tests, timeout, first_failure=False) == "endless":
            return []
    finally:
        path.write_text(source, encoding="utf-8")
    told = tree.with_name("tests.log").read_text(encoding="utf-8", errors="replace")
    failed = set(re.findall(r"^(?:FAILED|ERROR) (\S+)", told, re.M))
    # Of a test with several cases, named in brackets, one must fail.
    failed |= {name.partition("[")[0] for name in failed}
    return [test for test in defect.tests if test not in failed]


def main(options: Options) -> None:
    """Try the defects and say which tests find them."""
    preload()
    stories = [defect.story for defect in DEFECTS]
    results: list[dict[str, Any]] = []
    if options.output.is_file():
        known = json.loads(options.output.read_text(encoding="utf-8"))
        kept = [one for one in known if one["story"] in stories]
        results = [one for one in kept if one["row"] not in options.rows]
    chosen = [defect for defect in DEFECTS if defect.row in options.rows]
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "main"
        copy_tree(tree)
        every = dict.fromkeys(test for defect in chosen for test in defect.tests)
        if run_tests(tree, [*every], 10 * options.timeout) != "passed":
            told = tree.with_name("tests.log").read_text(encoding="utf-8")
            sys.exit(f"{told}\nTests fail on the code as it is.")
        for defect in chosen:
            blind = examine(tree, defect, options.timeout)
            found = [test.partition("::test_")[2] for test in defect.tests if test not in blind]
            print(f"row {defect.row} ({defect.story}): {', '.join(found)} fail as they should")
            if blind:
                print(f"row {defect.row}: {', '.join(blind)} PASS", flush=True)
            results.append({"row": defect.row, "story": defect.story, "fail": found, "pass": blind})
            results.sort(key=lambda one: stories.index(one["story"]))
            text = json.dumps(results, indent=1, ensure_ascii=False)
            options.output.write_text(text + "\n", encoding="utf-8")
    if any(one["pass"] for one in results):
        raise SystemExit(1)


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
