"""Modules that cannot be imported here are not looked through for examples, nor adapters."""

import os
from importlib.util import find_spec

os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "false"  # read when Haystack is imported
_KERNELS = (
    []
    if find_spec("triton")
    else ["jpr/models/kernels/inference.py", "jpr/models/kernels/training.py"]
)
collect_ignore = ["jpr/adapters", *_KERNELS]
