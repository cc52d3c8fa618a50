"""Answers written token by token by a T5, freely or as runs of passages only.

What may come next is a matter of tensors: a trie of each question's runs (`jpr.models.tries`)
lies on the device, and a step looks up the children of the nodes that sequences are at.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from jpr.errors import ConfigError
from jpr.models.config import T5Config
from jpr.models.kernels.cuda_graph import capture
from jpr.models.kernels.dispatch import working_dtype
from jpr.models.t5 import T5, Memory
from jpr.models.t5_blocks import attention
from jpr.models.tries import Tries

_NEVER = -1e30
"""What is chosen only where there is nothing else: unlike −∞, it can be added up."""
_LOOK = 4
"""To look whether all have ended is to wait for the device: not at every step."""


@dataclass(frozen=True, slots=True)
class GenerateOptions:
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
class GeneratedAnswer:
    """An answer's tokens, and the log-probability of them and of what ends them."""

    tokens: tuple[int, ...]
    log_prob: float


@torch.inference_mode()
def generate_answers(
    model: T5, memory: Tensor, lengths: Tensor, ways: GenerateOptions, tries: Tries | None = None
) -> list[list[GeneratedAnswer]]:
    """Return the answers of each question, given memories (N, d) of `lengths` (B,) end to end."""
    done = _done(_Writing(model, memory, lengths, ways, tries), ways.longest)
    return [_answers(*row, ways, model.config) for row in done.best()]


@torch.inference_mode()
def generate_tokens(model: T5, memory: Tensor, lengths: Tensor, longest: int) -> list[list[int]]:
    """Return the likeliest word after word of each question, to its end or the longest."""
    done = _done(_Writing(model, memory, lengths, GenerateOptions(0, longest), None), longest)
    end = model.config.eos_token_id
    rows = [tokens for tokens, _ in done.best()]
    return [row[: row.index(end) + 1] if end in row else row for row in rows]


def _done(writing: "_Writing", longest: int) -> "_Writing":
    """Write to the end."""
    writing.advance()
    # On a GPU a step is hundreds of small operations: recorded once, it is started as one.
    advance = capture(writing.advance) if writing.done.is_cuda and longest > 2 else writing.advance
    for step in range(1, longest):
        if step % _LOOK == 0 and bool(writing.done.all()):
            break
        advance()
    return writing


class _Writing:
    """Sequences of some questions, all at the same length; every tensor keeps its place."""

    def __init__(
        self, model: T5, memory: Tensor, lengths: Tensor, ways: GenerateOptions, tries: Tries | None
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
        config = self._config
        log_probs = F.log_softmax(self._steps(self._last, self._step).float(), dim=-1)
        scores = self._rules.scores(log_probs).masked_fill_(self.done[:, None], _NEVER)
        # What has ended stays as it is: the last choice leads nowhere, the first down the trie.
        scores[:, -1].masked_fill_(self.done, 0.0)
        total, source, choice = self._best_choices(scores.add_(self._total.view(-1, 1)))
        last = self._rules.take(choice).masked_fill_(self.done, config.pad_token_id)
        gained = log_probs[source, last].masked_fill_(self.done, 0.0)
        self._tokens.index_copy_(1, self._step, last[:, None])
        self._gains.index_copy_(1, self._step, gained[:, None])
        self.done |= last == config.eos_token_id
        if self._gives_up:
            self.done |= last == config.pad_token_id
        self._last.copy_(last)
        self._total.copy_(total)
        self._step += 1

    def _best_choices(self, scores: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Go on with the best; return totals (B, width), what these were, and choices (R,)."""
        if self._width == 1:
            total, choice = scores.max(1)
            return total[:, None], self._base[:, 0], choice
        total, best = scores.view(len(self._base), -1).topk(self._width)
        source = (self._base + best // scores.shape[1]).flatten()
        for part in (self._tokens, self._gains, self.done):
            part.copy_(part[source])
        self._steps.reorder(source)
        self._rules.reorder(source)
        return total, source, (best % scores.shape[1]).flatten()

    def best(self) -> Iterator[tuple[list[int], list[float]]]:
        """Yield the tokens of each question's best sequence, and what each has gained."""
        rows = (self._base[:, 0] + self._total.argmax(1)).cpu()
        found = self._tokens.cpu()[rows].tolist(), self._gains.cpu()[rows].tolist()
        return zip(*found, strict=True)


def _answers(
    tokens: list[int], gains: list[float], ways: GenerateOptions, config: T5Config
) -> list[GeneratedAnswer]:
    """Cut a sequence at its separators; what was not ended in time, or again, is left out."""
    found: list[GeneratedAnswer] = []
    own: list[int] = []
    total = 0.0
    for token, gained in zip(tokens, gains, strict=True):
        total += gained
        if token in (ways.separator, config.eos_token_id):
            found.append(GeneratedAnswer(tuple(own), total))
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

    def reorder(self, source: Tensor) -> None:
        """Go on with these sequences (R,)."""

    def take(self, choice: Tensor) -> Tensor:
        """Go on by these choices (R,); return the tokens written."""


class _Free:
    """Any token."""

    def __init__(self, model: T5, ways: GenerateOptions) -> None:
        self._end, self._penalty = model.config.eos_token_id, ways.stop_penalty

    def scores(self, log_probs: Tensor) -> Tensor:
        scores = log_probs.clone()
        scores[:, self._end] -= self._penalty
        return scores

    def reorder(self, source: Tensor) -> None: ...

    def take(self, choice: Tensor) -> Tensor:
        return choice


class _Grounded:
    """The next token of a run that was not written yet, and where such a run may end, its end.

    Choices are the children of a node, the separator, the end and, where there is no run at all, to
    give up (padding).
    """

    def __init__(self, model: T5, ways: GenerateOptions, tries: Tries) -> None:
        config, device, widest = model.config, tries.roots.device, max(tries.widest, 1)
        self._root = tries.roots.repeat_interleave(ways.width)
        self._node = self._root.clone()
        self._children = torch.stack([tries.first, tries.counts], 1)
        self._tokens = F.pad(tries.tokens, (0, widest)).unfold(0, widest, 1)
        """(…, widest) the tokens from each node on."""
        ends = [ways.separator, config.eos_token_id, config.pad_token_id]
        rows, size = len(self._root), tries.largest
        self._size = size
        self._ends = torch.tensor(ends, device=device).expand(rows, -1)
        self._rest = tries.below[self._root].int()
        """(R,) how many runs were not written."""
        self._shift = torch.arange(rows, device=device) * size - self._root
        known = F.pad(2 * tries.below + tries.is_whole, (0, size)).int()
        self._left = F.pad(known.unfold(0, size, 1)[self._root].flatten(), (0, widest))
        """(R · size + …,) twice the runs at each node or farther on that were not begun, and one
        more where a run may end that was not written; all nodes of one sequence after another."""
        self._farther = self._left.unfold(0, widest, 1)
        self._column = torch.arange(widest + 3, device=device)
        self._column[widest:] = -1
        self._least = torch.full((widest + 3,), 2, dtype=torch.int32, device=device)
        self._least[-2], self._least[-1] = 1, 0
        self._gain = torch.zeros(widest + 3, device=device)
        self._gain[-2], self._gain[-1] = -ways.stop_penalty, _NEVER

    def scores(self, log_probs: Tensor) -> Tensor:
        self._found = self._children[self._node]
        first, count = self._found.unbind(1)
        self._choices = torch.cat([self._tokens[first], self._ends], 1)
        # Where a run may end, there are so many that were not written, this one among them.
        may_end = (self._left[self._node + self._shift] & 1) * self._rest
        left = torch.cat([self._farther[first + self._shift], may_end[:, None].expand(-1, 3)], 1)
        never = (left < self._least) | (self._column >= count[:, None])
        found = log_probs.gather(1, self._choices).add_(self._gain)
        return found.masked_fill_(never, 2 * _NEVER)

    def reorder(self, source: Tensor) -> None:
        rows = self._left[: len(source) * self._size].view(len(source), -1)
        for part in (self._node, self._rest, rows):
            part.copy_(part[source])
        self._found, self._choices = self._found[source], self._choices[source]

    def take(self, choice: Tensor) -> Tensor:
        first, count = self._found.unbind(1)
        ends, child = choice >= count, first + choice
        ended = ends.int()
        # A run is counted out on its way: one that is begun is brought to its end.
        place = torch.where(ends, self._node, child) + self._shift
        self._left.index_add_(0, place, ended - 2)
        self._rest -= ended
        torch.where(ends, self._root, child, out=self._node)
        return self._choices.gather(1, choice[:, None])[:, 0]


class _Steps:
    """The decoder, a token further at each call; keys and values of earlier ones are kept."""

    def __init__(self, model: T5, memory: Tensor, lengths: Tensor, ways: GenerateOptions) -> None:
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
        return self._model.output(self._model.decoder.norm(x)).flatten(0, 1)

    def reorder(self, source: Tensor) -> None:
        """Go on with these sequences."""
        for cache in self._caches:
            cache.copy_(cache[:, source])
