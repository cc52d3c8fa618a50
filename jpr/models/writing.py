"""Answers written token by token by a T5, freely or as runs of passages only.

What may come next is a matter of tensors: a trie of each question's runs (`jpr.decode.substrings`)
lies on the device, and a step looks up the children of the nodes that sequences are at.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Protocol

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from jpr.errors import ConfigError
from jpr.models.recorded import recorded
from jpr.models.t5 import T5, Memory, T5Config
from jpr.models.t5_blocks import attention, working_dtype

_NEVER = -1e30
"""What is chosen only where there is nothing else: unlike −∞, it can be added up."""
_LOOK = 4
"""To look whether all have ended is to wait for the device: not at every step."""


@dataclass(frozen=True, slots=True)
class Ways:
    """How to write."""

    separator: int
    """The token between answers."""
    longest: int = 40
    """Tokens of all answers together, separators among them."""
    width: int = 1
    """Sequences that are kept; 1 writes the likeliest token after token."""
    stop_penalty: float = 0.0
    """What is taken off the log-probability to end, so that more answers are written."""

    def __post_init__(self) -> None:
        for name, least in (("separator", 0), ("longest", 1), ("width", 1)):
            if type(value := getattr(self, name)) is not int or value < least:
                raise ConfigError(f"{name} is {value!r}; give a whole number from {least} on")
        if type(self.stop_penalty) not in (int, float) or not isfinite(self.stop_penalty):
            raise ConfigError(f"stop_penalty is {self.stop_penalty!r}; give a number")


@dataclass(frozen=True, slots=True)
class Written:
    """An answer's tokens, and the log-probability of them and of what ends them."""

    tokens: tuple[int, ...]
    log_prob: float


class Trie(Protocol):
    """The runs of a question's passages: what is needed of `jpr.decode.substrings.Substrings`."""

    @property
    def tokens(self) -> NDArray[np.int64]:
        """The last token of each node."""

    @property
    def first(self) -> NDArray[np.int64]:
        """The first child of each."""

    @property
    def counts(self) -> NDArray[np.int64]:
        """How many children each has."""

    @property
    def is_whole(self) -> NDArray[np.bool_]:
        """Whether an answer may end there."""

    @property
    def below(self) -> NDArray[np.int64]:
        """How many answers there are at a node or farther on."""


class Tries:
    """The runs of several questions' passages on a device, end to end."""

    def __init__(self, tries: Sequence[Trie], device: torch.device) -> None:
        """Lay them there."""
        sizes = torch.tensor([len(trie.tokens) for trie in tries])
        roots = sizes.cumsum(0) - sizes
        tokens, first, counts, whole = (
            torch.cat([torch.from_numpy(getattr(trie, name)) for trie in tries])
            for name in ("tokens", "first", "counts", "is_whole")
        )
        self.roots, self.is_whole = roots.to(device), whole.to(device)
        self.tokens, self.counts = tokens.clamp(min=0).to(device), counts.to(device)
        self.first = (first + torch.repeat_interleave(roots, sizes)).to(device)
        self.widest = max(int(trie.counts.max()) for trie in tries)
        self.below = torch.zeros(len(tries), int(sizes.max()) + 1, dtype=torch.int32, device=device)
        for row, trie in zip(self.below, tries, strict=True):
            row[: len(trie.below)] = torch.from_numpy(trie.below)


@torch.inference_mode()
def write(
    model: T5, memory: Tensor, lengths: Tensor, ways: Ways, tries: Tries | None = None
) -> list[list[Written]]:
    """Return the answers of each question, given memories (N, d) of `lengths` (B,) end to end."""
    done = _done(_Writing(model, memory, lengths, ways, tries), ways.longest)
    return [_answers(*row, ways, model.config) for row in done.best()]


@torch.inference_mode()
def generate(model: T5, memory: Tensor, lengths: Tensor, longest: int) -> list[list[int]]:
    """Return the likeliest word after word of each question, to its end or the longest."""
    done = _done(_Writing(model, memory, lengths, Ways(0, longest), None), longest)
    end = model.config.eos_token_id
    rows = [tokens for tokens, _ in done.best()]
    return [row[: row.index(end) + 1] if end in row else row for row in rows]


def _done(writing: "_Writing", longest: int) -> "_Writing":
    """Write to the end."""
    writing.advance()
    # On a GPU a step is hundreds of small operations: recorded once, it is started as one.
    advance = recorded(writing.advance) if writing.done.is_cuda and longest > 2 else writing.advance
    for step in range(1, longest):
        if step % _LOOK == 0 and bool(writing.done.all()):
            break
        advance()
    return writing


class _Writing:
    """Sequences of some questions, all at the same length; every tensor keeps its place."""

    def __init__(
        self, model: T5, memory: Tensor, lengths: Tensor, ways: Ways, tries: Tries | None
    ) -> None:
        questions, width, device = len(lengths), ways.width, memory.device
        rows = questions * width
        self._config, self._width = model.config, width
        self._base = torch.arange(questions, device=device)[:, None] * width
        self._steps = _Steps(model, memory, lengths, ways)
        self._rules: _Rules = _Free(model, ways) if tries is None else _Grounded(model, ways, tries)
        self._gives_up = tries is not None
        self._step = torch.zeros(1, dtype=torch.long, device=device)
        self._tokens = torch.zeros(rows, ways.longest, dtype=torch.long, device=device)
        self._gains = torch.zeros(rows, ways.longest, device=device)
        self._last = torch.full((rows,), model.config.decoder_start_token_id, device=device)
        self.done = torch.zeros_like(self._last, dtype=torch.bool)
        self._total = torch.full((questions, width), _NEVER, device=device)
        self._total[:, 0] = 0.0  # all begin alike: one is enough

    def advance(self) -> None:
        """Write one more token of every sequence."""
        rows, config, done = len(self._last), self._config, self.done
        log_probs = F.log_softmax(self._steps(self._last, self._step).float(), dim=-1)
        scores = self._rules.scores(log_probs).masked_fill(done[:, None], _NEVER)
        # What has ended stays as it is: the last choice leads nowhere, the first down the trie.
        scores[:, -1] = torch.where(done, 0.0, scores[:, -1])
        choices = scores.shape[1]
        each = (self._total.view(rows, 1) + scores).view(len(self._base), -1)
        one = self._width == 1
        total, best = each.max(1, keepdim=True) if one else each.topk(self._width)
        source, column = (self._base + best // choices).flatten(), (best % choices).flatten()
        done = done[source]
        last = self._rules.take(source, column).masked_fill(done, config.pad_token_id)
        gained = log_probs[source].gather(1, last[:, None])[:, 0].masked_fill(done, 0.0)
        if self._width > 1:
            self._tokens.copy_(self._tokens[source])
            self._gains.copy_(self._gains[source])
            self._steps.reorder(source)
        self._tokens.index_copy_(1, self._step, last[:, None])
        self._gains.index_copy_(1, self._step, gained[:, None])
        ended = last == config.eos_token_id
        if self._gives_up:
            ended |= last == config.pad_token_id
        self.done.copy_(done | ended)
        self._last.copy_(last)
        self._total.copy_(total)
        self._step += 1

    def best(self) -> Iterator[tuple[list[int], list[float]]]:
        """Yield the tokens of each question's best sequence, and what each has gained."""
        rows = (self._base[:, 0] + self._total.argmax(1)).cpu()
        found = self._tokens.cpu()[rows].tolist(), self._gains.cpu()[rows].tolist()
        return zip(*found, strict=True)


def _answers(tokens: list[int], gains: list[float], ways: Ways, config: T5Config) -> list[Written]:
    """Cut a sequence at its separators; what was not ended in time, or again, is left out."""
    found: list[Written] = []
    own: list[int] = []
    total = 0.0
    for token, gained in zip(tokens, gains, strict=True):
        total += gained
        if token in (ways.separator, config.eos_token_id):
            found.append(Written(tuple(own), total))
            own, total = [], 0.0
        else:
            own.append(token)
        if token == config.eos_token_id:
            break
    first = {answer.tokens: answer for answer in reversed(found) if answer.tokens}
    return [answer for answer in found if first.get(answer.tokens) is answer]


class _Rules(Protocol):
    """What may come next, of R sequences."""

    def scores(self, log_probs: Tensor) -> Tensor:
        """Return how good each choice (R, C) is, given log P of all tokens (R, V)."""

    def take(self, source: Tensor, column: Tensor) -> Tensor:
        """Go on with sequences `source` (R,) by choice `column`; return the tokens written."""


class _Free:
    """Any token."""

    def __init__(self, model: T5, ways: Ways) -> None:
        self._end, self._penalty = model.config.eos_token_id, ways.stop_penalty

    def scores(self, log_probs: Tensor) -> Tensor:
        scores = log_probs.clone()
        scores[:, self._end] -= self._penalty
        return scores

    def take(self, source: Tensor, column: Tensor) -> Tensor:
        return column


class _Grounded:
    """The next token of a run that was not written yet, and where such a run may end, its end.

    Choices are the children of a node, the separator, the end and, where there is no run at all, to
    give up (padding).
    """

    def __init__(self, model: T5, ways: Ways, tries: Tries) -> None:
        self._tries, self._penalty = tries, ways.stop_penalty
        config, device = model.config, tries.roots.device
        ends = [ways.separator, config.eos_token_id, config.pad_token_id]
        self._ends = torch.tensor(ends, device=device)
        self._root = tries.roots.repeat_interleave(ways.width)
        self._node = self._root.clone()
        self._left = tries.below.repeat_interleave(ways.width, 0)
        """(R, n + 1) how many runs there are at each node or farther on that were not written."""
        self._path = torch.full((len(self._root), ways.longest + 1), -1, device=device)
        """(R, …) the nodes of the run that is being written, counted from its root; -1 for none."""
        self._path[:, 0] = 0
        self._column = torch.arange(tries.widest, device=device)
        self._child = self._node[:, None] + self._column
        """(R, …) the children of the nodes that sequences are at."""

    def scores(self, log_probs: Tensor) -> Tensor:
        tries, node = self._tries, self._node
        child = tries.first[node][:, None] + self._column
        self._child.copy_(child.clamp(max=len(tries.tokens) - 1))
        inside = self._column < tries.counts[node][:, None]
        place = (self._child - self._root[:, None]).clamp(0, self._left.shape[1] - 1)
        farther = self._left.gather(1, place) * inside  # runs not written, child by child
        tokens = tries.tokens[self._child]
        goes_on = log_probs.gather(1, tokens).masked_fill(farther <= 0, 2 * _NEVER)
        ends = log_probs[:, self._ends]
        ends[:, 1] -= self._penalty
        # A run that was not written is one more than those that go on with it.
        here = self._left.gather(1, (node - self._root)[:, None])[:, 0]
        may_end = tries.is_whole[node] & (here > farther.sum(1))
        more = may_end & (self._left[:, 0] > 1)
        ends[:, 0].masked_fill_(~more, 2 * _NEVER)
        ends[:, 1].masked_fill_(~may_end, 2 * _NEVER)
        ends[:, 2] = _NEVER
        return torch.cat([goes_on, ends], dim=1)

    def take(self, source: Tensor, column: Tensor) -> Tensor:
        tries, widest = self._tries, self._tries.widest
        inside = column.clamp(max=max(widest - 1, 0))
        child = self._child[source].gather(1, inside[:, None])[:, 0] if widest else self._root
        goes_on = column < widest
        path = self._path[source]
        self._left.copy_(self._left[source])
        last = self._left.shape[1] - 1  # a place that is of no node
        ended = (~goes_on)[:, None] & (path >= 0)
        self._left.scatter_add_(1, path.where(ended, last), -ended.int())
        depth = (path >= 0).sum(1).clamp(max=path.shape[1] - 1)
        longer = path.scatter(1, depth[:, None], (child - self._root)[:, None])
        begun = torch.full_like(path, -1)
        begun[:, 0] = 0
        self._path.copy_(torch.where(goes_on[:, None], longer, begun))
        self._node.copy_(torch.where(goes_on, child, self._root))
        return torch.where(goes_on, tries.tokens[child], self._ends[(column - widest).clamp(min=0)])


class _Steps:
    """The decoder, a token further at each call; keys and values of earlier ones are kept."""

    def __init__(self, model: T5, memory: Tensor, lengths: Tensor, ways: Ways) -> None:
        self._model, self._questions = model, len(lengths)
        found = Memory(memory, lengths)
        blocks, config = model.decoder.layers, model.config
        self._crosses = [found.attend(block.cross) for block in blocks]
        shape = (2, len(lengths) * ways.width, ways.longest, config.num_heads, config.d_kv)
        dtype, device = working_dtype(memory), memory.device
        self._caches = [torch.zeros(shape, dtype=dtype, device=device) for _ in blocks]
        place = torch.arange(ways.longest, device=device)
        bias = model.decoder.relative(place - place[:, None]).to(dtype)  # (step, key, heads)
        hidden = (place > place[:, None])[..., None]
        self._masks = bias.masked_fill(hidden, torch.finfo(dtype).min).transpose(1, 2)
        """(longest, heads, longest) what is added to scores at a step; later places are hidden."""

    def __call__(self, last: Tensor, step: Tensor) -> Tensor:
        """Return logits (R, V) of what follows, given the last tokens (R,) and their place (1,)."""
        x = self._model.encoder.words(last).view(self._questions, -1, self._model.config.d_model)
        mask = self._masks.index_select(0, step)[:, :, None].expand(len(last), -1, -1, -1)
        for block, cache, cross in zip(
            self._model.decoder.layers, self._caches, self._crosses, strict=True
        ):

            def attend(q: Tensor, k: Tensor, v: Tensor, cache: Tensor = cache) -> Tensor:
                new = torch.stack([k.flatten(0, 1), v.flatten(0, 1)])[:, :, None]
                cache.index_copy_(2, step, new)
                keys, values = cache
                return attention(q.flatten(0, 1)[:, None], keys, values, mask).view_as(q)

            x = block(x, attend, cross)
        return self._model.words_from(self._model.decoder.norm(x)).flatten(0, 1)

    def reorder(self, source: Tensor) -> None:
        """Go on with these sequences."""
        for cache in self._caches:
            cache.copy_(cache[:, source])
