"""`python -m tests`: everything that must hold before a change is merged, cheapest first."""

import os
import subprocess
import sys

WORKERS = (os.cpu_count() or 1) + 1
"""One more than there are cores: some tests wait, for a browser or a process that is killed."""
CHECKS = (
    ("ruff", "format", "--check", "."),
    ("ruff", "check", "."),
    ("mypy",),
    ("pytest", "-n", str(WORKERS), "--dist", "worksteal"),
)

# Tests run beside each other: a thread for each of them is enough.
environment = {**os.environ, "OMP_NUM_THREADS": "1"}
for check in CHECKS:
    sys.stderr.write(f"— {' '.join(check)}\n")
    subprocess.run([sys.executable, "-m", *check], check=True, env=environment)
