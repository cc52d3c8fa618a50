"""One step of the decoder for any prefixes of any questions, over caches shared along the tree.

Keys and values of every prefix's last passage are computed once; a longer prefix attends to those
of its ancestors. Attention to the memory is turned round: instead of keys and values of the whole
memory, for every layer, the query is taken to the memory and the mixture brought back, which is the
same by associativity and costs no keys and values (`tests/models/test_steps.py`).
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from jpr.errors import DataError
from jpr.models.joint import Encoded, JointModel
from jpr.models.ragged import inside, padded
from jpr.models.t5_blocks import CrossAttention

Prefix = tuple[int, ...]


class Steps:
    """The decoder over the candidates of some questions; belongs to one thread."""

    def __init__(self, model: JointModel, encoded: Encoded) -> None:
        """Begin with no prefix at all."""
        self._model, self._encoded = model, encoded
        self._inputs = model.head.inputs(encoded)  # (Q, C, d)
        self._memory, self._outside = _padded(encoded)
        self._places: dict[tuple[int, Prefix], int] = {}  # where a prefix is in the caches
        self._count = 0
        self._caches: list[tuple[Tensor, Tensor] | None] = [None for _ in model.decoder.layers]

    @torch.inference_mode()
    def __call__(self, wanted: Sequence[tuple[int, Prefix]]) -> list[NDArray[np.float32]]:
        """Return log P(candidate | prefix) for each (question, prefix), a number per candidate."""
        found: dict[tuple[int, Prefix], NDArray[np.float32]] = {}
        for pairs in self._by_depth(wanted):
            rows = self._step(pairs).float().cpu().numpy()
            for (question, prefix), row in zip(pairs, rows, strict=True):
                found[question, prefix] = row[: self._encoded.counts[question]]
        return [found[pair] for pair in wanted]

    def _by_depth(self, wanted: Sequence[tuple[int, Prefix]]) -> list[list[tuple[int, Prefix]]]:
        """Put ancestors that are not cached yet first, each depth a round of its own."""
        needed = dict.fromkeys(wanted)
        for question, prefix in wanted:
            for depth in range(len(prefix)):
                ancestor = (question, prefix[:depth])
                if ancestor not in self._places:
                    needed.setdefault(ancestor)
        depths = sorted({len(prefix) for _, prefix in needed})
        if len(depths) > 1 and all(
            (question, prefix[:-1]) in self._places for question, prefix in needed if prefix
        ):
            return [list(needed)]  # every parent is there: one round for all depths
        return [[pair for pair in needed if len(pair[1]) == depth] for depth in depths]

    def _step(self, pairs: list[tuple[int, Prefix]]) -> Tensor:
        """Run the decoder on the last passage of each prefix, and remember it."""
        device = self._memory.device
        self._check(pairs)
        for at, pair in enumerate(pairs, start=self._count):
            self._places[pair] = at
        self._count += len(pairs)
        questions = torch.tensor([question for question, _ in pairs], device=device)
        x = self._last_passages(pairs, questions)
        path, back = self._paths(pairs, device)
        bias = self._model.decoder.relative(back)  # (P, D, heads)
        bias = bias.masked_fill((path < 0)[..., None], -torch.inf)
        slots = _Slots(questions, len(self._memory))
        for layer, block in enumerate(self._model.decoder.layers):

            def attend_self(q: Tensor, k: Tensor, v: Tensor, layer: int = layer) -> Tensor:
                keys, values = self._remember(layer, k, v)
                scores = torch.einsum("phk,pdhk->pdh", q.float(), keys[path].float()) + bias
                return torch.einsum("pdh,pdhk->phk", scores.softmax(1), values[path].float()).to(
                    q.dtype
                )

            def attend_cross(q: Tensor, cross: CrossAttention = block.cross) -> Tensor:
                return self._look_up(q, cross, slots)

            x = block(x, attend_self, attend_cross)
        hidden = self._model.decoder.norm(x)  # (P, d)
        return self._distribution(hidden, pairs, slots)

    def _check(self, pairs: list[tuple[int, Prefix]]) -> None:
        for question, prefix in pairs:
            n = self._encoded.counts[question]
            if len(set(prefix)) < len(prefix) or any(not 0 <= p < n for p in prefix):
                raise DataError(f"prefix {prefix} is no choice of {n} candidates")

    def _last_passages(self, pairs: list[tuple[int, Prefix]], questions: Tensor) -> Tensor:
        """Return the decoder's inputs (P, d)."""
        last = torch.tensor([p[-1] if p else -1 for _, p in pairs], device=questions.device)
        chosen = self._inputs[questions, last.clamp(min=0)]
        first = self._model.head.first().to(chosen.dtype)
        return torch.where((last >= 0)[:, None], chosen, first)

    def _paths(
        self, pairs: list[tuple[int, Prefix]], device: torch.device
    ) -> tuple[Tensor, Tensor]:
        """Return where each prefix's ancestors and itself are cached (P, D), -1 for none.

        And how far back each is, as a negative distance.
        """
        deepest = max(len(prefix) for _, prefix in pairs) + 1
        path = np.full((len(pairs), deepest), -1)
        back = np.zeros((len(pairs), deepest), dtype=np.int64)
        for at, (question, prefix) in enumerate(pairs):
            for depth in range(len(prefix) + 1):
                path[at, depth] = self._places[question, prefix[:depth]]
                back[at, depth] = depth - len(prefix)
        return torch.from_numpy(path).to(device), torch.from_numpy(back).to(device)

    def _remember(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Add keys and values of new prefixes (P, heads, d_kv) to a layer's cache."""
        known = self._caches[layer]
        kept = (k, v) if known is None else (torch.cat([known[0], k]), torch.cat([known[1], v]))
        self._caches[layer] = kept
        return kept

    def _look_up(self, q: Tensor, cross: CrossAttention, slots: "_Slots") -> Tensor:
        """Attend to each prefix's own memory, queries (P, heads, d_kv) to the same."""
        heads, d_kv = q.shape[1:]
        key, value = (w.weight.view(heads, d_kv, -1).to(q.dtype) for w in (cross.k, cross.v))
        asked = slots.spread(torch.einsum("phk,hkd->phd", q, key))  # (Q, S, heads, d)
        q_count, s_count = asked.shape[:2]
        memory = self._memory.to(q.dtype)
        scores = asked.flatten(1, 2) @ memory.transpose(1, 2)  # (Q, S · heads, M)
        scores = scores.float().masked_fill(self._outside[:, None], -torch.inf)
        mixed = scores.softmax(-1).to(q.dtype) @ memory  # (Q, S · heads, d)
        mixed = slots.gather(mixed.view(q_count, s_count, heads, -1))  # (P, heads, d)
        return torch.einsum("phd,hkd->phk", mixed, value)

    def _distribution(
        self, hidden: Tensor, pairs: list[tuple[int, Prefix]], slots: "_Slots"
    ) -> Tensor:
        """Return log-probabilities (P, C)."""
        taken = np.zeros((len(pairs), self._encoded.inside.shape[1]), dtype=np.bool_)
        for at, (_, prefix) in enumerate(pairs):
            taken[at, list(prefix)] = True
        spread = slots.spread(torch.from_numpy(taken).to(hidden.device))
        log_probs = self._model.distribution(slots.spread(hidden), self._encoded, spread)
        return slots.gather(log_probs)


class _Slots:
    """Prefixes of several questions as a rectangle: (P, …) to (Q, S, …) and back."""

    def __init__(self, questions: Tensor, n_questions: int) -> None:
        self._question = questions
        same = questions[:, None] == questions[None]
        self._slot = same.tril(-1).sum(1)  # how many of the same question stand before
        self._shape = n_questions, int(self._slot.max()) + 1

    def spread(self, values: Tensor) -> Tensor:
        out = values.new_zeros(*self._shape, *values.shape[1:])
        out[self._question, self._slot] = values
        return out

    def gather(self, values: Tensor) -> Tensor:
        return values[self._question, self._slot]


def _padded(encoded: Encoded) -> tuple[Tensor, Tensor]:
    """Return the memory (Q, M, d) and which places of it are no one's (Q, M)."""
    places = inside(encoded.memory_lengths, int(encoded.memory_lengths.max()))
    if bool(places.all()):
        return encoded.memory.view(*places.shape, -1), ~places
    return padded(encoded.memory, places), ~places
