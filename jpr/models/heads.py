"""Heads of the joint model: which candidate comes next, and where its answer is.

`PointerHead` compares the decoder's query with a key of every candidate. Any number of candidates;
their order does not matter. `IndexHead` is the paper's: every candidate has an index token, in its
text and in the decoder's vocabulary; the next passage is the next token. `SpanHead` scores every
short span of a passage as an answer; `jpr.rerank.evidence` finds the best ones.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from jpr.errors import ConfigError
from jpr.models.candidates import EncodedBatch


class PointerHead(nn.Module):
    """Points at candidates by a query and their keys."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.start = nn.Parameter(torch.randn(d))  # the decoder's input for the empty prefix
        self.query, self.key, self.chosen = (nn.Linear(d, d, bias=False) for _ in range(3))
        self.prior = nn.Parameter(torch.zeros(()))
        self.scale = d**-0.5

    def keys(self, encoded: EncodedBatch) -> Tensor:
        """Return the keys of candidates (Q, C, d)."""
        keys: Tensor = self.key(encoded.marked)
        return keys

    def inputs(self, encoded: EncodedBatch) -> Tensor:
        """Return the decoder's input after each candidate (Q, C, d)."""
        chosen: Tensor = self.chosen(self.keys(encoded))
        return chosen

    def logits(self, hidden: Tensor, keys: Tensor, prior: Tensor) -> Tensor:
        """Map the decoder's vectors (Q, T, d) to logits of candidates (Q, T, C)."""
        agreement = self.query(hidden) @ keys.transpose(1, 2)
        logits: Tensor = agreement.float() * self.scale + self.prior * prior[:, None]
        return logits


class IndexHead(nn.Module):
    """Predicts the index token of a candidate, with the vocabulary of a T5."""

    def __init__(
        self, words: nn.Embedding, out: Tensor, start: int, tokens: tuple[int, ...]
    ) -> None:
        """Take a T5's input and output embeddings, its start token, and the index tokens."""
        super().__init__()
        self.words, self.start_token = words, start
        self.out = nn.Parameter(out) if out is not words.weight else None
        index = torch.tensor(tokens, device="cpu")  # also where a model of shapes only is made
        self.register_buffer("tokens", index, persistent=False)
        self.tokens: Tensor

    @torch.no_grad()
    def reset_index_tokens(self) -> None:
        """Give index tokens new, distant vectors: input as large as words, output of length 1.

        So they stand out among words, and all are about equally likely at first.
        """
        words = self.words.weight
        fresh = F.normalize(torch.randn(len(self.tokens), words.shape[1]), dim=1).to(words)
        if self.out is None:
            self.out = nn.Parameter(words.clone())
        words[self.tokens], self.out[self.tokens] = words.norm(dim=1).mean() * fresh, fresh

    @property
    def output_words(self) -> Tensor:
        """The output embeddings (vocabulary, d): tied to the input, or separate."""
        return self.words.weight if self.out is None else self.out

    @property
    def scale(self) -> float:
        """The factor of logits: tied embeddings are scaled."""
        return float(self.words.embedding_dim**-0.5) if self.out is None else 1.0

    @property
    def start(self) -> Tensor:
        """The decoder's input for the empty prefix (d,)."""
        return self.words.weight[self.start_token]

    def inputs(self, encoded: EncodedBatch) -> Tensor:
        """Return the decoder's input after each candidate (Q, C, d)."""
        chosen: Tensor = self.words(self._tokens_of(encoded))
        return chosen

    def keys(self, encoded: EncodedBatch) -> Tensor:
        """Return the output embeddings of candidates' index tokens (Q, C, d)."""
        return self.output_words[self._tokens_of(encoded)]

    def logits(self, hidden: Tensor, keys: Tensor, prior: Tensor) -> Tensor:
        """Map the decoder's vectors (Q, T, d) to logits of candidates (Q, T, C)."""
        return (hidden @ keys.transpose(1, 2)).float() * self.scale

    def all_logits(self, hidden: Tensor) -> Tensor:
        """Map the decoder's vectors (Q, T, d) to logits of all index tokens."""
        every = self.output_words[self.tokens].expand(len(hidden), -1, -1)
        return self.logits(hidden, every, hidden.new_zeros(len(hidden), 0))

    def _tokens_of(self, encoded: EncodedBatch) -> Tensor:
        if int(encoded.index_ids.max()) >= len(self.tokens):
            raise ConfigError(
                f"{encoded.index_ids.max().item() + 1} candidates, but the index head has "
                f"{len(self.tokens)} index tokens; give fewer candidates or use a pointer head"
            )
        return self.tokens[encoded.index_ids]


class SpanHead(nn.Module):
    """Scores every span of up to `longest` tokens as an answer, yes or no."""

    def __init__(self, d: int, rank: int = 64, longest: int = 16) -> None:
        super().__init__()
        self.ends = nn.Linear(d, 2)
        nn.init.constant_(self.ends.bias, -3.0)  # few spans are answers
        self.first, self.last = (nn.Linear(d, rank, bias=False) for _ in range(2))
        self.lengths = nn.Parameter(torch.zeros(longest))

    def forward(self, hidden: Tensor, lengths: Tensor, passage_starts: Tensor) -> Tensor:
        """Return logits (N, longest): column l is of the span of l + 1 tokens from each token.

        Rows of `lengths` (R,) tokens are concatenated in `hidden` (N, d). Spans that do not lie
        within a passage, from `passage_starts` (R,) to before the last token, have −∞.
        """
        count, longest = len(hidden), len(self.lengths)
        with torch.autocast(hidden.device.type, enabled=False):
            x = hidden.float()
            begin, end = F.linear(x, self.ends.weight.float(), self.ends.bias.float()).unbind(1)
            first = F.linear(x, self.first.weight.float() * self.first.out_features**-0.5)
            last = F.pad(F.linear(x, self.last.weight.float()), (0, 0, 0, longest))
            end = F.pad(end, (0, longest))
            columns = [
                end[more : count + more] + (first * last[more : count + more]).sum(1)
                for more in range(longest)
            ]
            logits = begin[:, None] + torch.stack(columns, 1) + self.lengths.float()
        row = torch.repeat_interleave(lengths, output_size=count)  # (N,)
        left = tokens_left(row, lengths, passage_starts)
        outside = torch.arange(longest, device=row.device) >= left[:, None]
        return logits.masked_fill(outside, -torch.inf)


def tokens_left(row: Tensor, lengths: Tensor, passage_starts: Tensor) -> Tensor:
    """Return how many tokens of its passage are left from each token on (N,), itself included.

    It is given the row of each token. Tokens that do not belong to a passage have 0.
    """
    position = torch.arange(len(row), device=row.device) - (lengths.cumsum(0) - lengths)[row]
    return (lengths[row] - 1 - position).masked_fill(position < passage_starts[row], 0)
