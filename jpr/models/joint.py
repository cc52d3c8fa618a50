"""P(next passage | question, candidates, passages already chosen): the joint model (paper, 3.1).

An encoder reads each candidate separately, together with its question. A decoder attends to all
candidates of a question and takes the passages chosen so far as its input; a head scores each
candidate as the next passage.

The decoder's memory is every token (`tokens`, Fusion in Decoder), or one vector per candidate
(`passages`), which suffices where the encoder sees question and passage together.

A model may also have a span head, so that passages can be chosen for the answers they add.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from jpr.errors import ConfigError, DataError
from jpr.models.bert import Bert
from jpr.models.candidates import EncodedBatch, PackedCandidates
from jpr.models.heads import IndexHead, PointerHead, SpanHead
from jpr.models.padding import length_mask, pad_rows
from jpr.models.t5 import Memory, T5Decoder, T5Encoder

MEMORIES = ("tokens", "passages")


class JointModel(nn.Module):
    """Encoder, decoder and heads; stateless, so that threads may share it."""

    def __init__(
        self,
        encoder: Bert | T5Encoder,
        decoder: T5Decoder,
        head: PointerHead | IndexHead,
        memory: str = "tokens",
        answers: bool = False,
    ) -> None:
        """Put the parts together; with `answers`, add a span head."""
        super().__init__()
        if memory not in MEMORIES:
            raise ConfigError(f"memory {memory!r}; choose from {', '.join(MEMORIES)}")
        d = decoder.config.d_model
        width = encoder.words.embedding_dim
        if width != d:
            raise ConfigError(f"the encoder's width is {width}, the decoder's {d}; they must agree")
        self.encoder, self.decoder, self.head, self.memory = encoder, decoder, head, memory
        self.answers = SpanHead(d) if answers else None

    def encode(self, candidates: PackedCandidates, hidden: Tensor | None = None) -> EncodedBatch:
        """Encode every candidate separately, unless the encoder's vectors (N, d) are given."""
        if not candidates.counts or min(candidates.counts) < 1:
            raise DataError("a question has no candidates; give it at least one")
        if hidden is None:
            hidden = self.encoder.forward_packed(candidates.ids, candidates.lengths)
        first = candidates.lengths.cumsum(0) - candidates.lengths
        marked = hidden[first + candidates.marks]  # (R, d)
        counts = torch.tensor(candidates.counts, device=hidden.device)
        if self.memory == "tokens":
            row = torch.repeat_interleave(counts, output_size=len(marked))
            lengths = torch.zeros_like(counts).index_add(0, row, candidates.lengths)
            memory = hidden
        else:
            lengths, memory = counts, marked
        mask = length_mask(counts, int(counts.max()))  # (Q, C)
        answers = None
        if self.answers is not None:
            answers = self.answers(hidden, candidates.lengths, candidates.passage_starts)
        return EncodedBatch(
            memory,
            lengths,
            pad_rows(marked, mask),
            mask,
            pad_rows(candidates.index_ids, mask),
            pad_rows(candidates.prior, mask),
            candidates.counts,
            answers,
        )

    def log_probs(
        self, encoded: EncodedBatch, prefixes: Tensor, all_index_tokens: bool = False
    ) -> Tensor:
        """Return log P(candidate | prefix) after each passage of the prefixes (Q, T).

        The result is (Q, T + 1, C), from the empty prefix on. Chosen and absent candidates have
        probability 0. With `all_index_tokens`, those of absent candidates share in the probability,
        as in training.
        """
        inputs = self.head.inputs(encoded)
        chosen = inputs.gather(1, prefixes[..., None].expand(-1, -1, inputs.shape[-1]))
        first = self.head.start.to(chosen.dtype).expand(len(prefixes), 1, -1)
        x = torch.cat([first, chosen], dim=1)  # (Q, T + 1, d)
        if torch.is_autocast_enabled(x.device.type):
            x = x.float()  # residual sums need more digits than their terms
        hidden = self.decoder(x, Memory(encoded.memory, encoded.memory_lengths))
        taken = F.one_hot(prefixes, encoded.mask.shape[1]).cumsum(1) > 0  # (Q, T, C)
        taken = torch.cat([torch.zeros_like(encoded.mask)[:, None], taken], dim=1)
        logits = self.head.logits(hidden, self.head.keys(encoded), encoded.prior)
        excluded = taken | ~encoded.mask[:, None]
        if all_index_tokens and isinstance(self.head, IndexHead):
            everything = self.head.all_logits(hidden).logsumexp(dim=-1, keepdim=True)
            return logits.masked_fill(excluded, -torch.inf) - everything
        return masked_log_softmax(logits, excluded)


def masked_log_softmax(logits: Tensor, excluded: Tensor) -> Tensor:
    """Map logits (…, C) to log-probabilities, −∞ for the `excluded` candidates."""
    return F.log_softmax(logits.masked_fill(excluded, -torch.inf), dim=-1)
