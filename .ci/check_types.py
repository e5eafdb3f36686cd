"""Run mypy over the package as it is installed: with hooks/ as responses_plugin.hooks, which it is not in the checkout.
The examples of the documentation are checked against it.

``python .ci/check_types.py [MYPY OPTION ...]``; the exit code is mypy's.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: Where the modules of the documentation are, by folder.
EXAMPLES = {"docs": "demo", "docs/examples": "rehearsal", "docs/examples/sql_tool": "responses_sql_tool"}


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="responses-plugin-types-") as folder:
        package = Path(folder, "responses_plugin")
        package.mkdir()
        for path in (ROOT / "responses_plugin").iterdir():
            (package / path.name).symlink_to(path)
        (package / "hooks").symlink_to(ROOT / "hooks")
        command = [
            sys.executable,
            *("-m", "mypy", "--package", "responses_plugin"),
            *(option for module in EXAMPLES.values() for option in ("--module", module)),
            *("--config-file", str(ROOT / "pyproject.toml")),
            *("--cache-dir", str(ROOT / ".mypy_cache")),
            *sys.argv[1:],
        ]
        # From inside the folder, so that messages name responses_plugin/… and not a temporary path.
        path = os.pathsep.join([folder, *(str(ROOT / examples) for examples in EXAMPLES)])
        return subprocess.run(command, cwd=folder, env=os.environ | {"MYPYPATH": path}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
