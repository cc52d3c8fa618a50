import json
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from jpr.encode.encoder_folder import export_encoder
from jpr.rerank.save import export_joint
from tests.encode.texts import passages
from tests.encode.tiny import write_encoder
from tests.rerank.tiny import NAMES, write_pointer
from tests.train import tiny

RECIPE = """
k = 2
batch = 4
candidates = 4
[model]
weights = "in/to-train"
layers = 1
max_tokens = 128
[[data]]
pack = "in/pack"
[dev]
packs = ["in/pack"]
[loop]
steps = 4
save_every = 2
"""


def lines(records: Iterable[Mapping[str, object]]) -> str:
    return "".join(f"{json.dumps(record)}\n" for record in records)


@pytest.fixture(scope="session")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models, texts and questions, all tiny, in a folder `in`."""
    home = tmp_path_factory.mktemp("given") / "in"
    export_encoder(write_encoder(home / "torch-encoder"), home / "encoder")
    (home / "joint").mkdir()
    export_joint(write_pointer(home / "torch-joint", answers=True), home / "joint")
    tiny.write_encoder(home / "to-train")
    tiny.write_invented(home / "pack", n=8)
    many = [{"id": one.id, "title": one.title, "text": one.text} for one in passages(400)]
    (home / "corpus.jsonl").write_text(lines(many[:300]))
    (home / "more.jsonl").write_text(lines(many[300:]))
    asked = [{"id": f"q{n}", "question": "which colour ?", "answers": [["red"]]} for n in range(12)]
    ctxs = [
        {"id": name, "title": name, "text": f"{name} which {name}", "score": 1} for name in NAMES
    ]
    (home / "asked.jsonl").write_text(lines(asked))
    (home / "run.jsonl").write_text(lines([{**one, "ctxs": ctxs} for one in asked]))
    (home / "recipe.toml").write_text(RECIPE)
    return home
