"""Answers generated token by token by a T5, freely or restricted to spans of the passages.

What may come next is looked up in tensors: a trie of each question's spans (`jpr.models.tries`) is
on the device, and a step gathers the children of the nodes that sequences are at.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite

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
"""Score of what is chosen only if nothing else is possible; unlike −∞, it can be summed."""
_CHECK_EVERY = 4
"""Checking whether all sequences have ended waits for the device: not at every step."""


@dataclass(frozen=True, slots=True)
class GenerateOptions:
    """How to generate answers."""

    separator: int
    """The token between answers."""
    longest: int = 40
    """Tokens of all answers together, with separators."""
    width: int = 1
    """Beams; 1 is greedy."""
    stop_penalty: float = 0.0
    """Subtracted from the log-probability of the end, so that more answers are generated."""

    def __post_init__(self) -> None:
        for name, least in (("separator", 0), ("longest", 1), ("width", 1)):
            if type(value := getattr(self, name)) is not int or value < least:
                raise ConfigError(f"{name} is {value!r}; give an integer of {least} or more")
        if type(self.stop_penalty) not in (int, float) or not isfinite(self.stop_penalty):
            raise ConfigError(f"stop_penalty is {self.stop_penalty!r}; give a number")


@dataclass(frozen=True, slots=True)
class GeneratedAnswer:
    """An answer's tokens, and the log-probability of them and of the token that ends them."""

    tokens: tuple[int, ...]
    log_prob: float


def generate_answers(
    model: T5, memory: Tensor, lengths: Tensor, options: GenerateOptions, tries: Tries | None = None
) -> list[list[GeneratedAnswer]]:
    """Return the answers of each question, given concatenated memories (N, d) of `lengths` (B,)."""
    found = best_sequences(model, memory, lengths, options, tries)
    return [_split(*row, options, model.config) for row in found]


@torch.inference_mode()
def best_sequences(
    model: T5, memory: Tensor, lengths: Tensor, options: GenerateOptions, tries: Tries | None = None
) -> Iterator[tuple[list[int], list[float]]]:
    """Return the tokens of each question's best sequence, and the log-probability of each."""
    search = _Search(model, _Decoder(model, memory, lengths, options), options, tries)
    search.advance()
    # On a GPU a step is hundreds of small operations: a CUDA graph launches them as one.
    graph = memory.is_cuda and options.longest > 2
    advance = capture(search.advance) if graph else search.advance
    for step in range(1, options.longest):
        if step % _CHECK_EVERY == 0 and bool(search.done.all()):
            break
        advance()
    return search.best()


class _Search:
    """Beam search for some questions, all at the same length; every tensor keeps its address."""

    def __init__(
        self, model: T5, decoder: "_Decoder", options: GenerateOptions, tries: Tries | None
    ) -> None:
        questions, width, device = decoder.questions, options.width, decoder.device
        rows = questions * width
        self._config, self._width, self._decoder = model.config, width, decoder
        self._base = torch.arange(questions, device=device)[:, None] * width
        self._choices: _AnyToken | _SpanTokens = (
            _AnyToken(model, options) if tries is None else _SpanTokens(model, options, tries)
        )
        self._gives_up = tries is not None
        self._step = torch.zeros(1, dtype=torch.long, device=device)
        self._tokens = torch.zeros(rows, options.longest, dtype=torch.long, device=device)
        self._gains = torch.zeros(rows, options.longest, device=device)
        self._last = torch.full((rows,), model.config.decoder_start_token_id, device=device)
        self.done = torch.zeros_like(self._last, dtype=torch.bool)
        self._total = torch.full((questions, width), _NEVER, device=device)
        self._total[:, 0] = 0.0  # all beams start equal: one is enough

    def advance(self) -> None:
        """Add one token to every sequence."""
        config = self._config
        log_probs = F.log_softmax(self._decoder(self._last, self._step).float(), dim=-1)  # (R, V)
        scores = self._choices.scores(log_probs).masked_fill_(self.done[:, None], _NEVER)
        # An ended sequence stays as it is: the last choice leads nowhere, the first into the trie.
        scores[:, -1].masked_fill_(self.done, 0.0)
        total, source, choice = self._best_choices(scores.add_(self._total.view(-1, 1)))
        last = self._choices.take(choice).masked_fill_(self.done, config.pad_token_id)
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
        """Keep the best; return totals (B, width), the previous rows, and choices (R,)."""
        if self._width == 1:
            total, choice = scores.max(1)
            return total[:, None], self._base[:, 0], choice
        total, best = scores.view(len(self._base), -1).topk(self._width)
        source = (self._base + best // scores.shape[1]).flatten()
        for part in (self._tokens, self._gains, self.done):
            part.copy_(part[source])
        self._decoder.reorder(source)
        self._choices.reorder(source)
        return total, source, (best % scores.shape[1]).flatten()

    def best(self) -> Iterator[tuple[list[int], list[float]]]:
        """Return each question's best sequence; see `best_sequences`."""
        rows = (self._base[:, 0] + self._total.argmax(1)).cpu()
        found = self._tokens.cpu()[rows].tolist(), self._gains.cpu()[rows].tolist()
        return zip(*found, strict=True)


def _split(
    tokens: list[int], gains: list[float], options: GenerateOptions, config: T5Config
) -> list[GeneratedAnswer]:
    """Split a sequence at its separators, without unfinished and repeated answers."""
    found: dict[tuple[int, ...], GeneratedAnswer] = {}
    own: tuple[int, ...] = ()
    total = 0.0
    for token, gained in zip(tokens, gains, strict=True):
        total += gained
        if token in (options.separator, config.eos_token_id):
            if own:
                found.setdefault(own, GeneratedAnswer(own, total))
            own, total = (), 0.0
        else:
            own = *own, token
        if token == config.eos_token_id:
            break
    return list(found.values())


class _AnyToken:
    """Free generation."""

    def __init__(self, model: T5, options: GenerateOptions) -> None:
        self._end, self._penalty = model.config.eos_token_id, options.stop_penalty

    def scores(self, log_probs: Tensor) -> Tensor:
        """Return the score of each choice (R, C), given log P of all tokens (R, V)."""
        scores = log_probs.clone()
        scores[:, self._end] -= self._penalty
        return scores

    def reorder(self, source: Tensor) -> None: ...

    def take(self, choice: Tensor) -> Tensor:
        """Take these choices (R,); return their tokens."""
        return choice


class _SpanTokens:
    """The next token of a span that was not generated yet, or the end of one where it may end.

    Choices are the children of a node, the separator, the end token and, where there is no span at
    all, padding, to give up.
    """

    def __init__(self, model: T5, options: GenerateOptions, tries: Tries) -> None:
        config, device, widest = model.config, tries.roots.device, max(tries.widest, 1)
        self._root = tries.roots.repeat_interleave(options.width)
        self._node = self._root.clone()
        self._children = torch.stack([tries.first, tries.counts], 1)
        # (…, widest) the tokens from each node on
        self._tokens = F.pad(tries.tokens, (0, widest)).unfold(0, widest, 1)
        ends = [options.separator, config.eos_token_id, config.pad_token_id]
        rows, self._size = len(self._root), tries.largest
        self._ends = torch.tensor(ends, device=device).expand(rows, -1)
        self._rest = tries.below[self._root].int()  # (R,) how many spans were not generated
        self._shift = torch.arange(rows, device=device) * self._size - self._root
        known = F.pad(2 * tries.below + tries.is_whole, (0, self._size)).int()
        known = known.unfold(0, self._size, 1)[self._root]
        self._left = F.pad(known.flatten(), (0, widest))
        """(R · size + …,) for each node of each sequence, twice the number of its spans that were
        not begun, plus one where a span ends that was not generated."""
        self._farther = self._left.unfold(0, widest, 1)
        # Of each choice, the last three being the ends: its column among the children, the least
        # `left` with which it is possible, and what is added to its log-probability.
        least = torch.tensor([2, 1, 0], dtype=torch.int32, device=device)
        gain = torch.tensor([0.0, -options.stop_penalty, _NEVER], device=device)
        self._column = F.pad(torch.arange(widest, device=device), (0, 3), value=-1)
        self._least, self._gain = F.pad(least, (widest, 0), value=2), F.pad(gain, (widest, 0))

    def scores(self, log_probs: Tensor) -> Tensor:
        self._found = self._children[self._node]
        first, count = self._found.unbind(1)
        self._choices = torch.cat([self._tokens[first], self._ends], 1)
        # Where a span may end: the number of spans that were not generated, this one included.
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
        # A span is subtracted on its way: one that is begun is always finished.
        place = torch.where(ends, self._node, child) + self._shift
        self._left.index_add_(0, place, ended - 2)
        self._rest -= ended
        torch.where(ends, self._root, child, out=self._node)
        return self._choices.gather(1, choice[:, None])[:, 0]


class _Decoder:
    """The decoder, one token further at each call, over cached keys and values."""

    def __init__(
        self, model: T5, memory: Tensor, lengths: Tensor, options: GenerateOptions
    ) -> None:
        self._model, self.questions, self.device = model, len(lengths), memory.device
        found = Memory(memory, lengths)
        blocks, config, longest = model.decoder.layers, model.config, options.longest
        self._crosses = [found.attend(block.cross) for block in blocks]
        shape = (2, len(lengths) * options.width, longest, config.num_heads, config.d_kv)
        dtype = working_dtype(memory)
        self._caches = [torch.zeros(shape, dtype=dtype, device=memory.device) for _ in blocks]
        place = torch.arange(longest, device=memory.device)
        bias = model.decoder.relative(place - place[:, None]).to(dtype)  # (step, key, heads)
        hidden = (place > place[:, None])[..., None]
        self._masks = bias.masked_fill(hidden, torch.finfo(dtype).min).transpose(1, 2)
        """(longest, heads, longest) added to the scores of a step; later places are hidden."""

    def __call__(self, last: Tensor, step: Tensor) -> Tensor:
        """Return logits (R, V) of the next token, given the last tokens (R,) and their place."""
        x = self._model.encoder.words(last).view(self.questions, -1, self._model.config.d_model)
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
        """Continue with these sequences."""
        for cache in self._caches:
            cache.copy_(cache[:, source])
