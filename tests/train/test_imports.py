"""Training runs where torch, numpy, tokenizers and safetensors alone are installed."""

import subprocess
import sys

_ABSENT = "regex rich typer zstandard tantivy faiss onnxruntime lxml distributed httpx"
_SCRIPT = """
import importlib, pkgutil, sys
for name in sys.argv[1].split():
    sys.modules[name] = None
import jpr.models, jpr.train
for package in (jpr.models, jpr.train):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if "kernels" not in module.name:
            importlib.import_module(module.name)
"""


def test_training_modules_import_with_few_packages() -> None:
    command = [sys.executable, "-c", _SCRIPT, _ABSENT]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
