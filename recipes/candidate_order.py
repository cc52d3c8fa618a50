"""How much the order of the candidates decides what a joint model chooses, head by head.

Needs: a run with texts, joint models (or a Hugging Face T5, which is tried with an untrained head
of each kind); minutes on a CPU.

    python -m recipes.candidate_order RUN MODEL… [--questions 20] [--orders 4] [--out FILE.json]

Each question's candidates are given in several random orders; what the model knows of the first
stage's rank is left out. Counted is how often the likeliest passage, and the set of five that
TreeDecode chooses, differ from those for the first order. A pointer's should never differ but by
rounding; an index head's do, since the numbers that it knows candidates by go by their places.
"""

import json
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np

from jpr.decode.search import Limits, chosen_passages, decode_many
from jpr.decode.sequences import independent
from jpr.decode.tree import tree
from jpr.encode.tokenizer import read_tokenizer
from jpr.formats.runs import load_rankings
from jpr.io.atomic import publish
from jpr.io.manifest import manifest
from jpr.models.joint import JointModel
from jpr.models.joint_checkpoint import joint_over_t5, read_joint
from jpr.rerank.joint import model_input
from jpr.rerank.prompt import Prompts, PromptSettings, read_prompt_settings
from jpr.rerank.torch_scorer import TorchScorer
from jpr.types import Ranking
from recipes.command_line import parser_of

K = 5
NUMBERS = 100


def models(source: Path) -> Iterator[tuple[str, JointModel, Prompts]]:
    """Yield a trained model, or a T5 with both heads."""
    tokenizer = read_tokenizer(source / "tokenizer.json")
    if (source / "joint.json").exists():
        settings = read_prompt_settings(source)
        yield source.name, read_joint(source), Prompts(tokenizer, settings)
        return
    for head, count in (("pointer", 1), ("index", NUMBERS)):
        tokens = tuple(tokenizer.token_to_id(f"<extra_id_{i}>") or 0 for i in range(count))
        settings = PromptSettings("t5", number_tokens=tokens)
        name = f"{source.name}, {head} head, untrained"
        yield name, joint_over_t5(source, head, tokens).eval(), Prompts(tokenizer, settings)


def choices(scorer: TorchScorer, prompts: Prompts, ranking: Ranking) -> tuple[str, frozenset[str]]:
    """Return the likeliest passage and the five of TreeDecode."""
    steps = scorer.open([model_input(prompts, scorer.index_tokens, ranking)]).ask
    n = len(ranking.hits)

    (first,) = decode_many([independent(n, Limits(1))], steps)
    (five,) = decode_many([tree(n, Limits(K), 2.0)], steps)
    ids = [hit.passage.id for hit in ranking.hits]
    return ids[chosen_passages(first)[0]], frozenset(ids[p] for p in chosen_passages(five))


def measured(
    model: JointModel, prompts: Prompts, rankings: Sequence[Ranking], orders: int
) -> dict[str, float]:
    """Return how often other orders give other choices."""
    if (prior := getattr(model.head, "prior", None)) is not None:
        prior.data.zero_()
    scorer, chance = TorchScorer(model), np.random.default_rng(0)
    first = five = shared = 0.0
    for ranking in rankings:
        found = []
        for _ in range(orders):
            order = chance.permutation(len(ranking.hits)).tolist()
            moved = Ranking(ranking.question, tuple(ranking.hits[i] for i in order))
            found.append(choices(scorer, prompts, moved))
        first += sum(other[0] != found[0][0] for other in found[1:])
        five += sum(other[1] != found[0][1] for other in found[1:])
        shared += sum(len(other[1] & found[0][1]) / K for other in found[1:])
    n = len(rankings) * (orders - 1)
    return {"other first": first / n, "other five": five / n, "shared of five": shared / n}


def main() -> None:
    """Measure, print, and keep the numbers."""
    parser = parser_of(__doc__, "run")
    parser.add_argument("models", type=Path, nargs="+")
    parser.add_argument("--questions", type=int, default=20)
    parser.add_argument("--candidates", type=int, default=25)
    parser.add_argument("--orders", type=int, default=4)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    start = time.perf_counter()
    some = islice(load_rankings(options.run), options.questions)
    rankings = [Ranking(one.question, one.hits[: options.candidates]) for one in some]
    rows = []
    for source in options.models:
        for name, model, prompts in models(source):
            numbers = measured(model, prompts, rankings, options.orders)
            rows.append({"model": name, **numbers})
            print(json.dumps(rows[-1]), flush=True)
    about = manifest(
        "recipes/candidate_order.py",
        {"run": options.run},
        time.perf_counter() - start,
        packages=("torch",),
    )
    setup = {name: getattr(options, name) for name in ("questions", "candidates", "orders")}
    if options.out:
        with publish(options.out) as stream:
            json.dump({**setup, "rows": rows, "manifest": about}, stream, indent=1)
            stream.write("\n")


if __name__ == "__main__":
    main()
