"""Settings that must be made before any test module is imported."""

import os
from importlib.util import find_spec
from pathlib import Path

os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "false"  # read when Haystack is imported
if not any(Path("/dev").glob("nvidia[0-9]*")):
    os.environ.setdefault("TRITON_INTERPRET", "1")  # read when Triton is imported
_KERNELS = [] if find_spec("triton") else ["jpr/models/kernels/inference.py"]
_KERNELS += [] if find_spec("triton") else ["jpr/models/kernels/training.py"]
collect_ignore = ["jpr/adapters", *_KERNELS]
