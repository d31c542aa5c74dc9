"""Run several `iada` commands in one process of a launcher: each line of a file is one."""

import sys
from pathlib import Path

from iada.cli.main import main

for line in Path(sys.argv[1]).read_text(encoding="utf-8").splitlines():
    code = main(line.split("\t"))
    if code != 0:
        sys.exit(code)
