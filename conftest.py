"""Modules that cannot be imported here are not looked through for examples."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("triton") else ["jpr/models/kernels.py"]
