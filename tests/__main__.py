"""`python -m tests`: everything that must hold before a change is merged.

Style and the documentation site come first, as they take seconds; mypy, which uses one core, runs
while the tests do.
"""

import os
import subprocess
import sys

WORKERS = (os.cpu_count() or 1) + 1
"""One more than there are cores: some tests wait, for a browser or a process that is killed."""
FAST = (("ruff", "format", "--check", "."), ("ruff", "check", "."), ("docs.make_site",))
TYPES = ("mypy",)
TESTS = ("pytest", "-n", str(WORKERS), "--dist", "worksteal")


def start(check: tuple[str, ...], output: int | None = None) -> subprocess.Popen[str]:
    """Start a check; tests run beside each other, so each uses one thread."""
    sys.stderr.write(f"— {' '.join(check)}\n")
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", *check]
    return subprocess.Popen(command, env=environment, stdout=output, text=True)


def main() -> int:
    """Run all checks; return 0 if all of them pass."""
    for check in FAST:
        if start(check).wait():
            return 1
    types = start(TYPES, subprocess.PIPE)
    failed = start(TESTS).wait()
    report, _ = types.communicate()
    sys.stderr.write(f"— {' '.join(TYPES)}\n{report}")
    return int(bool(failed or types.returncode))


if __name__ == "__main__":
    sys.exit(main())
