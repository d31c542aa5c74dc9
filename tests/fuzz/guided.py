"""Search for inputs of one target that reach new code, with atheris (`pip install 'iada[fuzz]'`).

    python tests/fuzz/guided.py recipe FOLDER -max_total_time=60

FOLDER keeps what was found, and begins with what the target reads when nothing is wrong; the other
arguments are those of libFuzzer. An input that ends in a traceback is written to `crash-*`; once
its cause is removed, it belongs into `regressions/<target>`.
"""

import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["iada"]):
    from targets import TARGETS, pack, try_target, unpack


def main() -> None:
    name, folder, *arguments = sys.argv[1:]
    found = Path(folder)
    found.mkdir(parents=True, exist_ok=True)
    files = TARGETS[name].files()
    (found / "seed").write_bytes(pack(files))

    def once(data: bytes) -> None:
        with tempfile.TemporaryDirectory() as temporary:
            try_target(name, unpack(list(files), data), Path(temporary))

    atheris.Setup([sys.argv[0], *arguments, str(found)], once)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
