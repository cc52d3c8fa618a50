"""Heads of the joint model: which candidate comes next, and where its answer is.

`PointerHead` compares the decoder's query with a key of every candidate. Any number of candidates;
their order does not matter. `IndexHead` is the paper's: every candidate has an index token, in its
text and in the decoder's vocabulary; the next passage is the next token. `SpanHead` scores tokens
as the begin or the end of an answer; `jpr.rerank.evidence` finds the best spans.
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
    """Scores tokens as the begin and the end of an answer."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.ends = nn.Linear(d, 2, bias=False)

    def forward(self, hidden: Tensor, lengths: Tensor, passage_starts: Tensor) -> Tensor:
        """Return log P (N, 2) of each token to begin and to end the answer of its row.

        Rows of `lengths` (R,) tokens are concatenated in `hidden` (N, d). Only tokens of passages,
        from `passage_starts` (R,) to before the last token, have a probability.
        """
        with torch.autocast(hidden.device.type, enabled=False):
            scores = F.linear(hidden.float(), self.ends.weight.float())  # (N, 2)
        row = torch.repeat_interleave(lengths, output_size=len(hidden))  # (N,)
        inside = torch.nonzero(in_passages(row, lengths, passage_starts))[:, 0]
        scores, row = scores[inside], row[inside]
        columns = [segment_logsumexp(column, row, len(lengths)) for column in scores.unbind(1)]
        none = scores.new_full((len(hidden), 2), -torch.inf)
        return none.index_copy(0, inside, scores - torch.stack(columns, 1)[row])


def in_passages(row: Tensor, lengths: Tensor, passage_starts: Tensor) -> Tensor:
    """Return which tokens (N,), given the row of each, belong to passages."""
    position = torch.arange(len(row), device=row.device) - (lengths.cumsum(0) - lengths)[row]
    return (position >= passage_starts[row]) & (position < lengths[row] - 1)


def segment_logsumexp(values: Tensor, row: Tensor, rows: int) -> Tensor:
    """Return log Σ exp of the values (N,) of each row (R,); −∞ for a row without any."""
    none = values.new_full((rows,), -torch.inf)
    most = none.scatter_reduce(0, row, values.detach(), "amax")
    sums = values.new_zeros(rows).index_add(0, row, (values - most[row]).exp())
    return sums.log() + most
