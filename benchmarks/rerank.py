"""Speed of the joint reranker on a GPU, against transformers' T5 and against matrix products.

python benchmarks/rerank.py [--small] [--alone] [--out FILE.json]

Weights are random: speed does not depend on them, except through the shape of the decode tree. As
they give all passages nearly the same probability, β = 2 grows a wide tree, most of which can be
expanded ahead, and β = -2 a chain, of which nothing can. Lengths are padded (360
tokens, the paper's) or real: drawn from the distribution of 10,000 candidates of 100 AmbigNQ
development questions in T5's tokens (mean 167). Times are medians of several repetitions, each from
token ids on the GPU to the choice on the CPU, with the GPU idle before. Peers, in the same run,
where transformers is installed and unless `--alone` leaves them out:

- transformers' T5 encoder, eager, sdpa, compiled;
- a direct implementation: transformers' encoder over the padded passages, its vectors
  concatenated, `generate` of k tokens (Fusion in Decoder);
- monoT5: transformers' encoder and one step of its decoder per passage;
- the products of square matrices, as the floor.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from ceiling import ceiling
from peer import peer_config

from jpr.decode.search import Limits, decode_many
from jpr.decode.sequences import independent
from jpr.decode.tree import tree
from jpr.models.candidates import PackedCandidates
from jpr.models.config import T5Config
from jpr.models.decoder_cache import CachePool, PrefixScorer
from jpr.models.heads import PointerHead
from jpr.models.joint import JointModel
from jpr.models.t5 import T5

PADDED = 360
QUANTILES = (
    *(41, 96, 128, 148, 154, 158, 161, 164, 166, 168, 170),
    *(173, 175, 178, 180, 183, 187, 192, 199, 210, 360),
)
"""Lengths of real candidates at 0 %, 5 %, … 100 %."""
SHAPES = {
    "small": T5Config(32128, 512, 64, 2048, 6, 8, 6),
    "base": T5Config(32128, 768, 64, 3072, 12, 12, 12),
    "large": T5Config(32128, 1024, 64, 4096, 24, 16, 24),
    "3b": T5Config(32128, 1024, 128, 16384, 24, 32, 24),
}
K, AHEAD = 10, 12
Row = dict[str, object]


def lengths_of(kind: str, count: int) -> np.ndarray:
    """Return how many tokens each candidate has."""
    if kind == "padded":
        return np.full(count, PADDED)
    at = np.random.default_rng(0).random(count)
    return np.interp(at, np.linspace(0, 1, len(QUANTILES)), QUANTILES).astype(np.int64)


def measured(work: Callable[..., object], *given: object, repetitions: int = 12) -> Row:
    """Time something several times, after runs that are not counted, and note the peak memory."""
    for _ in range(3):
        work(*given)
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    taken = []
    for _ in range(repetitions):
        torch.cuda.synchronize()
        start = time.perf_counter()
        work(*given)
        torch.cuda.synchronize()
        taken.append((time.perf_counter() - start) * 1e3)
    ends = float(np.quantile(taken, 0.1)), float(np.quantile(taken, 0.9))
    peak = torch.cuda.max_memory_allocated() / 1e9
    return {"ms": median(taken), "ms 10 % and 90 %": ends, "peak GB": peak}


class Ours:
    """The joint model of this package, with questions to decode."""

    def __init__(self, shape: T5Config) -> None:
        """Make a model in bfloat16."""
        with torch.device("cuda"):
            t5, head = T5(shape), PointerHead(shape.d_model)
        self.model = JointModel(t5.encoder, t5.decoder, head, "tokens").bfloat16().eval()
        self.pool = CachePool(self.model)

    def candidates(self, questions: int, each: int, kind: str) -> PackedCandidates:
        """Sample token ids."""
        lengths = torch.from_numpy(np.concatenate([lengths_of(kind, each)] * questions))
        count = questions * each
        return PackedCandidates(
            torch.randint(0, 32000, (int(lengths.sum()),), device="cuda"),
            lengths.cuda(),
            (each,) * questions,
            torch.ones(count, dtype=torch.long, device="cuda"),
            torch.full((count,), 16, device="cuda"),
            torch.arange(each, device="cuda").repeat(questions),
            torch.zeros(count, device="cuda"),
        )

    @torch.inference_mode()
    def encode(self, candidates: PackedCandidates) -> None:
        """Encode alone."""
        self.pool.encode(candidates)

    @torch.inference_mode()
    def decode(
        self, candidates: PackedCandidates, beta: float | None = 2.0, ahead: int = AHEAD
    ) -> None:
        """Encode and decode; without β the best of the first step."""
        steps = PrefixScorer(self.model, self.pool.encode(candidates), self.pool)
        limits = Limits(K)
        searches = [
            independent(n, limits) if beta is None else tree(n, limits, beta, ahead)
            for n in candidates.counts
        ]
        decode_many(searches, steps)


class Theirs:
    """transformers' T5 of the same shape, used directly."""

    def __init__(self, shape: T5Config, attention: str) -> None:
        """Make a model in bfloat16."""
        import transformers

        config = peer_config(shape)
        config.decoder_start_token_id = 0
        with torch.device("cuda"):
            made = transformers.T5ForConditionalGeneration._from_config(  # type: ignore[no-untyped-call]
                config, attn_implementation=attention
            )
        self.model = made.cuda().bfloat16().eval()
        self.encoder = self.model.encoder

    def rows(self, each: int, kind: str) -> tuple[torch.Tensor, torch.Tensor]:
        """Sample token ids, padded to the longest, and their mask."""
        lengths = torch.from_numpy(lengths_of(kind, each)).cuda()
        longest = int(lengths.max())
        mask = torch.arange(longest, device="cuda")[None] < lengths[:, None]
        ids = torch.randint(1, 32000, (each, longest), device="cuda").masked_fill(~mask, 0)
        return ids, mask.long()

    @torch.inference_mode()
    def encode(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Encode alone."""
        hidden: torch.Tensor = self.encoder(input_ids=ids, attention_mask=mask).last_hidden_state
        return hidden

    @torch.inference_mode()
    def fusion(self, ids: torch.Tensor, mask: torch.Tensor) -> None:
        """Fuse in the decoder and generate k tokens."""
        from transformers.modeling_outputs import BaseModelOutput

        hidden: Any = self.encode(ids, mask).flatten(0, 1)[None]
        self.model.generate(
            encoder_outputs=BaseModelOutput(last_hidden_state=hidden),
            attention_mask=mask.flatten()[None],
            max_new_tokens=K,
            min_new_tokens=K,
            do_sample=False,
        ).cpu()

    @torch.inference_mode()
    def pointwise(self, ids: torch.Tensor, mask: torch.Tensor) -> None:
        """Take one step of the decoder for every passage."""
        start = torch.zeros(len(ids), 1, dtype=torch.long, device="cuda")
        found = self.model(input_ids=ids, attention_mask=mask, decoder_input_ids=start)
        found.logits[:, 0].float().softmax(-1).cpu()


def operations(shape: T5Config, lengths: np.ndarray) -> float:
    """Count the operations of the encoder's matrix products."""
    inner, wide = shape.num_heads * shape.d_kv, 2 * shape.d_model * shape.d_ff
    weights = 4 * shape.d_model * inner + wide
    each = 2.0 * weights * lengths + 4.0 * inner * lengths**2
    return float(shape.num_layers * each.sum())


def against_transformers(each: int, small: bool, peers: tuple[str, ...]) -> Iterator[Row]:
    """Compare on T5-base, one question."""
    name = "small" if small else "base"
    shape = SHAPES[name]
    ours = Ours(shape)
    for kind in ("padded", "real"):
        about: Row = {"shape": name, "lengths": kind, "passages": each}
        given = ours.candidates(1, each, kind)
        work = operations(shape, lengths_of(kind, each))
        yield about | {"what": "floor of the encoder", "ms": work / ceiling() * 1e3}
        yield about | {"what": "jpr: encoder"} | measured(ours.encode, given)
        ways: dict[str, tuple[float | None, int]] = {
            "TreeDecode, β = 2": (2.0, AHEAD),
            "TreeDecode, β = 2, nothing asked ahead": (2.0, 1),
            "TreeDecode, β = -2, a chain": (-2.0, AHEAD),
            "IndepPR": (None, 1),
        }
        for way, (beta, ahead) in ways.items():
            yield about | {"what": f"jpr: {way}"} | measured(ours.decode, given, beta, ahead)
        for attention in peers:
            yield from _theirs(shape, attention, about, each, kind)


def _theirs(shape: T5Config, attention: str, about: Row, each: int, kind: str) -> Iterator[Row]:
    theirs = Theirs(shape, attention)
    rows = theirs.rows(each, kind)
    name = f"transformers {attention}"
    yield about | {"what": f"{name}: encoder"} | measured(theirs.encode, *rows)
    yield about | {"what": f"{name}: fusion and generate"} | measured(theirs.fusion, *rows)
    yield about | {"what": f"{name}: monoT5"} | measured(theirs.pointwise, *rows)
    if kind == "padded":
        theirs.encoder = torch.compile(theirs.encoder, dynamic=False)
        yield about | {"what": f"{name}, compiled: encoder"} | measured(theirs.encode, *rows)


def by_size(small: bool) -> Iterator[Row]:
    """Vary the questions of a batch, the number of candidates and the size of the model."""
    name = "small" if small else "base"
    ours = Ours(SHAPES[name])
    what: Row = {"what": "jpr: TreeDecode, β = 2"}
    for kind in ("padded", "real"):
        for questions, each in ((1, 25), (1, 100), (1, 250), (1, 1000), (16, 100)):
            given = ours.candidates(questions, each, kind)
            size = {"shape": name, "lengths": kind, "passages": each, "questions": questions}
            yield size | what | measured(ours.decode, given, repetitions=6)
    for name in ["small"] if small else SHAPES:
        ours = Ours(SHAPES[name])
        for kind in ("padded", "real"):
            given = ours.candidates(1, 100, kind)
            about: Row = {"shape": name, "lengths": kind, "passages": 100}
            encoder = measured(ours.encode, given, repetitions=6)
            yield about | {"what": "jpr: encoder"} | encoder
            yield about | what | measured(ours.decode, given, repetitions=6)


def main() -> None:
    """Measure, print, and save the numbers."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--small", action="store_true", help="a T5-small and few passages, to try")
    parser.add_argument("--alone", action="store_true", help="time jpr alone, to compare commits")
    parser.add_argument("--commit", default="", help="to record")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.manual_seed(0)
    start, rows, most = time.perf_counter(), [], ceiling()
    each = 25 if options.small else 100
    has_peers = find_spec("transformers") and not options.alone
    peers = ("eager", "sdpa") if has_peers else ()
    for row in chain(against_transformers(each, options.small, peers), by_size(options.small)):
        rows.append(row)
        cells = (f"{v:.2f}" if isinstance(v, float) else str(v) for v in row.values())
        print(f"[{time.perf_counter() - start:5.0f}]", *cells, flush=True)
        report = {
            "device": torch.cuda.get_device_name(),
            "torch": torch.__version__,
            "transformers": version("transformers") if find_spec("transformers") else "",
            "commit": options.commit,
            "k": K,
            "TFLOP/s of matrix products": most / 1e12,
            "seconds": time.perf_counter() - start,
            "rows": rows,
        }
        if options.out:  # after every row, so that an interrupted run keeps its numbers
            options.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
