"""Train the joint rerankers of the tables, and let each choose for every question: on a GPU.

Needs: `packs/train` and the packs named below (docs/train.md), and `models/e5`: e5-small as trained
by recipes/dpr_plus.py; for some, `packs/cloze` (recipes/cloze.py), and for T5 `models/flan`
(flan-t5-small) and packs with its tokens. For the contrasts, encoders as they come (`models/`
e5-small, gte-small, minilm, mpnet; the last with BERT's order of words), `packs/mixed`, the same
with strict labels, `packs/strict`, `models/inside` and `models/half` (recipes/half_layers.py).
torch, safetensors and tokenizers are enough. Existing models and choices are not made again, and
training that was stopped resumes. The eight models of the main table took 37 minutes on one H200.

    python -m recipes.joint_models --choices choices --commit $(git rev-parse --short HEAD)

Writes `models/NAME` and `choices/NAME.json`: for every pack and way to choose, the places of the
ten passages (five in the sweep of decoders) chosen for each question among its candidates, and how
deep the sweep's trees were; recipes/joint_table.py scores them.
"""

import hashlib
import json
import platform
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from jpr.io.atomic import publish
from jpr.models.candidates import PackedCandidates
from jpr.models.joint import JointModel
from jpr.rerank.decoding import Decoding
from jpr.rerank.evidence import Vocabulary
from jpr.train.batch import BatchBuilder
from jpr.train.development import Chooser, chosen_places
from jpr.train.distributed import World
from jpr.train.joint import load_model, open_dataset, train_joint
from jpr.train.recipe import DataConfig, JointTraining, ModelConfig, read_recipe
from jpr.types import Node
from recipes.command_line import parser_of

RECIPES = Path(__file__).parent / "joint"
DEV = ("ambignq_dev", "webquestions_dev")
TEST = ("webqsp_test", "trec_test")
PACKS = ("train", "cloze", "mixed", "strict", *DEV, *TEST)
SEEDS = (0, 1, 2)


@dataclass(frozen=True, slots=True)
class Run:
    """A model to train; without a recipe, one that exists."""

    recipe: str = ""
    seed: int = 0
    changes: tuple[str, ...] = ()
    """Changes of the recipe, as `jpr train --set` takes them."""
    tokens: str = ""
    """Prefix of the names of its packs, if their tokens are not BERT's."""


SETS = ("webquestions_train", "ambignq_train", "trec_train")


def fed(*extra: str, pack: str = "mixed") -> str:
    """Return the change that takes these extra questions beside the three sets, four to one."""
    datasets = [f'{{pack = "packs/{pack}", sources = {json.dumps(SETS)}, weight = 1.0}}']
    if extra:
        datasets += [f'{{pack = "packs/{pack}", sources = {json.dumps(extra)}, weight = 4.0}}']
    return f"data=[{', '.join(datasets)}]"


EXTRA = ("extra_search", "extra_facts", "extra_trivia")
CONTRASTS: dict[str, tuple[str, ...]] = {
    "contrast": (),
    "contrast_alone": (fed(),),
    **{f"contrast_{kind.removeprefix('extra_')}": (fed(kind),) for kind in EXTRA},
    "contrast_no_dropout": ("model.dropout=0.0",),
    "contrast_dropout": ("model.dropout=0.3",),
    "contrast_strict": (fed(*EXTRA, pack="strict"),),
    "contrast_gte": ("model.weights=models/gte-small",),
    "contrast_minilm": ("model.weights=models/minilm",),
    "contrast_taught": (
        "model.weights=models/minilm",
        "objective.teacher=models/inside",
        "objective.teacher_weight=0.5",
    ),
    "contrast_mpnet": ("model.weights=models/mpnet", "loop.micro_batches=4"),
}
RUNS = {
    "first": Run("first"),
    **{f"joint-{seed}": Run("joint", seed) for seed in SEEDS},
    **{f"independent-{seed}": Run("independent", seed) for seed in SEEDS},
    **{
        f"{name}-0": Run(name)
        for name in (
            "pointwise",
            "no_negatives",
            "teacher_forcing",
            "printed",
            "gamma_half",
            "gamma_more",
            "random_negatives",
            "random_negatives_long",
        )
    },
    **{name: Run(name) for name in ("short", "short_cloze")},
    **{name: Run("contrast", changes=changes) for name, changes in CONTRASTS.items()},
    "inside": Run(),
    "half_taught": Run("half"),
    **{
        name: Run(name, tokens="t5_")
        for name in (
            "t5_pointer",
            "t5_index_alone",
            "t5_index_marks",
            "t5_index_pairs",
            "t5_index",
        )
    },
    "t5_pointer_long": Run(
        "t5_pointer",
        changes=("loop.steps=2500", "loop.learning_rate=5e-4", "model.memory=passages"),
        tokens="t5_",
    ),
}
K = 10
WAYS = {
    "independent": Decoding("independent"),
    "sequence": Decoding("seq"),
    "sequence, passages alone": Decoding("seq", conditioning="none"),
}
BETAS = (-2.0, -1.0, 0.0, 1.0, 2.0)
SWEPT = "joint-0"
SWEEP = {
    **{f"tree, β = {beta:g}": Decoding("tree", beta) for beta in BETAS},
    **{
        f"tree, β = {beta:g}, passages alone": Decoding("tree", beta, conditioning="none")
        for beta in BETAS
    },
    "beam": Decoding("beam"),
}
SWEEP_K = 5
Choices = dict[str, list[list[int]]]


def trained(name: str, folder: Path, device: str, steps: int) -> float:
    """Train a model unless it exists; return the seconds that its steps took."""
    run = RUNS[name]
    if not run.recipe:
        return 0.0
    config = read_recipe(RECIPES / f"{run.recipe}.toml", run.changes)
    assert isinstance(config, JointTraining)
    loop = replace(config.loop, seed=run.seed, steps=steps or config.loop.steps)
    if (folder / "model.safetensors").exists():
        return seconds_of(folder, loop.steps)
    model = config.model
    if model.init:
        model = replace(model, init=str(folder.parent / Path(model.init).name))
    objective = config.objective
    if objective.teacher:
        teacher = str(folder.parent / Path(objective.teacher).name)
        objective = replace(objective, teacher=teacher)
    done = train_joint(
        replace(config, loop=loop, model=model, objective=objective),
        folder,
        report=lambda line: print(name, json.dumps(line), flush=True),
        world=World(device=device),
    )
    return done.seconds


def seconds_of(folder: Path, steps: int) -> float:
    """Return how long a model was trained; the number of steps must be the recipe's."""
    last = json.loads((folder / "log.jsonl").read_text(encoding="utf-8").splitlines()[-1])
    if last["step"] != steps:
        raise SystemExit(f"{folder} was trained for {last['step']} steps, not {steps}; remove it")
    seconds: float = last["seconds"]
    return seconds


class DepthRecorder(Chooser):
    """A chooser that records how deep its trees are."""

    def __init__(self, model: JointModel, words: Vocabulary, ways: Mapping[str, Decoding]) -> None:
        super().__init__(model, words, ways)
        self.depths: dict[str, list[int]] = {way: [] for way in ways}

    def __call__(self, candidates: PackedCandidates, k: int) -> dict[str, list[tuple[Node, ...]]]:
        """Return what is chosen in each way."""
        found = super().__call__(candidates, k)
        for way, decoded in found.items():
            for nodes in decoded:
                self.depths[way].append(max((len(node.prefix) + 1 for node in nodes), default=0))
        return found


def choose(
    folder: Path, pack: str, ways: Mapping[str, Decoding], k: int, device: str, limit: int
) -> tuple[Choices, dict[str, float]]:
    """Return what a model chooses for every question of a pack, and the trees' mean depths."""
    model, prompts = load_model(ModelConfig(init=str(folder)))
    dataset = open_dataset(DataConfig(f"packs/{pack}"))
    builder = BatchBuilder(dataset.pack, prompts, device)
    chooser = DepthRecorder(model.to(device).eval(), Vocabulary.of(prompts.tokenizer), ways)
    found: Choices = {way: [] for way in ways}
    for batch in dataset.batches(np.arange(len(dataset.pack)), limit, 32):
        chosen = chosen_places(chooser, builder, batch, k)
        for way in ways:
            found[way] += [[int(place) for place in places] for places in chosen[way]]
    return found, {way: float(np.mean(depths)) for way, depths in chooser.depths.items()}


def about(device: str, tokens: str) -> dict[str, object]:
    """Return what the results depend on."""
    files = {f"{tokens}{pack}": Path(f"packs/{tokens}{pack}/pack.json") for pack in PACKS}
    hashes = {
        pack: hashlib.sha256(file.read_bytes()).hexdigest()
        for pack, file in files.items()
        if file.exists()
    }
    kind = torch.cuda.get_device_name() if device == "cuda" else platform.processor()
    versions = {"python": platform.python_version(), "torch": torch.__version__}
    return {"packs": hashes, "device": kind, "versions": {**versions, "numpy": np.__version__}}


def check(file: Path, asked_for: Mapping[str, object]) -> None:
    """Reject choices that were made with other options, such as a trial's."""
    made = json.loads(file.read_text(encoding="utf-8"))["asked for"]
    if made != asked_for:
        raise SystemExit(f"{file} was made with {made}, not {asked_for}; remove it")


def main() -> None:
    """Train, choose, write."""
    parser = parser_of(__doc__)
    parser.add_argument("--choices", type=Path, required=True)
    parser.add_argument("--models", type=Path, default=Path("models"))
    parser.add_argument("--commit", required=True)
    parser.add_argument("--only", nargs="*", default=list(RUNS), choices=list(RUNS))
    parser.add_argument("--packs", nargs="*", default=[*DEV, *TEST], help="none: train alone")
    parser.add_argument("--steps", type=int, default=0, help="fewer steps, to try it out")
    parser.add_argument("--limit", type=int, default=0, help="fewer questions, to try it out")
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    options.choices.mkdir(parents=True, exist_ok=True)
    for name in options.only:
        folder, file = options.models / name, options.choices / f"{name}.json"
        asked_for = {"steps": options.steps, "limit": options.limit, "packs": list(options.packs)}
        if file.exists():
            check(file, asked_for)
            continue
        seconds = trained(name, folder, device, options.steps)
        if not options.packs:
            continue
        began, packs, depths, asked = time.perf_counter(), {}, {}, {}
        for pack in options.packs:
            own = f"{RUNS[name].tokens}{pack}"
            asked[pack] = open_dataset(DataConfig(f"packs/{own}")).pack.question_ids
            packs[pack], _ = choose(folder, own, WAYS, K, device, options.limit)
            if name == SWEPT and pack in DEV:
                swept = choose(folder, own, SWEEP, SWEEP_K, device, options.limit)
                packs[pack] |= swept[0]
                depths[pack] = swept[1]
        made = {
            "model": name,
            "asked for": asked_for,
            "commit": options.commit,
            "seconds": {"training": seconds, "choosing": time.perf_counter() - began},
            **about(device, RUNS[name].tokens),
            "depths": depths,
            "questions": asked,
            "choices": packs,
        }
        with publish(file) as stream:
            stream.write(json.dumps(made))
        print(name, "chose in", round(time.perf_counter() - began, 1), "s", flush=True)


if __name__ == "__main__":
    main()
