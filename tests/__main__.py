"""`python -m tests`: everything that must hold before a change is merged, cheapest first."""

import subprocess
import sys

CHECKS = (
    ("ruff", "format", "--check", "."),
    ("ruff", "check", "."),
    ("mypy",),
    ("pytest",),
)

for check in CHECKS:
    sys.stderr.write(f"— {' '.join(check)}\n")
    subprocess.run([sys.executable, "-m", *check], check=True)
