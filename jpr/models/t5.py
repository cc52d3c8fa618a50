"""T5, both generations: our own few lines, which load Hugging Face weights (`t5_names`).

The first generation has a plain feed-forward layer and one matrix for words in and out; v1.1 and
flan have gates and a head of their own.

Fusion in the decoder: the encoder sees passages apart (`T5Encoder.packed`); the decoder attends to
all passages of its question end to end, which are the question's memory. Memories of several
questions, laid end to end in their turn, are what `packed` gives: only the lengths differ.
"""

from functools import partial

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from jpr.errors import DataError
from jpr.models.config import T5Config
from jpr.models.padding import Grouping, Layout, Whole, counts, in_parts, layout, run_block
from jpr.models.padding import length_mask as inside_of
from jpr.models.t5_blocks import (
    AttendCross,
    CrossAttention,
    DecoderBlock,
    EncoderBlock,
    RelativeBias,
    T5Norm,
    attention,
    uses_inference_kernels,
    uses_training_kernels,
    working_dtype,
)

__all__ = ["T5", "Memory", "T5Config", "T5Decoder", "T5Encoder"]

_FUSED = (16, 32, 64, 128)
"""Sizes of heads that the kernels with gradients take."""


class T5Encoder(nn.Module):
    """Token ids to vectors; stateless, so that threads may share it."""

    def __init__(self, config: T5Config, dropout: float = 0.0) -> None:
        super().__init__()
        self.config, self.dropout = config, dropout
        self.words = nn.Embedding(config.vocab_size, config.d_model)
        self.relative = RelativeBias.of(config, both_ways=True)
        self.blocks = nn.ModuleList(EncoderBlock(config, dropout) for _ in range(config.num_layers))
        self.norm = T5Norm(config)
        self.checkpointing = False
        """Whether to compute blocks twice in training instead of keeping what is in them."""

    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """Map ids (B, T), of which the first `lengths` (B,) of each row count, to (B, T, d)."""
        rows, longest = ids.shape
        x = self._through(ids.flatten(), ((rows, longest),), lengths.cpu())
        return x.view(rows, longest, -1)

    def forward_packed(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """Map rows of `lengths` (B,) laid end to end, ids (N,), to (N, d)."""
        grain, rows = Grouping.of(ids.device), counts(lengths, len(ids))
        if not len(ids):
            return self.words.weight[:0]
        if uses_inference_kernels(self.words.weight):
            return in_parts(ids, rows, grain.budget, self._fused)
        if uses_training_kernels(self.words.weight) and self.config.d_kv in _FUSED:
            return self._trained(ids, _ends(rows, ids), int(rows.max()))
        return in_parts(
            ids, rows, grain.budget, lambda some, of: self._laid(some, layout(of, grain))
        )

    def _fused(self, ids: Tensor, rows: Whole) -> Tensor:
        return self.forward_varlen(ids, _ends(rows, ids), int(rows.max()))

    def forward_varlen(self, ids: Tensor, ends: Tensor, longest: int) -> Tensor:
        """Map rows end to end, ids (N,), which end at `ends` (B + 1,) from 0 on, to (N, d).

        In bfloat16 on a GPU only, without any padding.
        """
        from jpr.models.kernels import inference

        x = self.words(ids)
        tiles = inference.bias_tiles(self.relative, x.dtype)
        attend = partial(inference.attend, tiles=tiles, ends=ends, longest=longest)
        for block in self.blocks:
            x = block(x, attend)
        out: Tensor = self.norm(x)
        return out

    def _trained(self, ids: Tensor, ends: Tensor, longest: int) -> Tensor:
        """Do the same with gradients, checkpoints and dropout."""
        from jpr.models.kernels import inference, training

        dropout = self.dropout if self.training else 0.0
        x = F.dropout(self.words(ids), dropout)
        tiles = inference.bias_tiles(self.relative, torch.float32)
        attend = partial(training.attend, tiles=tiles, ends=ends, longest=longest, dropout=dropout)
        for block in self.blocks:
            x = run_block(block, x, attend, self.checkpointing)
        return F.dropout(self.norm(x), dropout)

    def _laid(self, ids: Tensor, to: Layout) -> Tensor:
        """Map ids (N,) to (N, d) by a layout."""
        slots = to.slots.to(ids.device)
        padded = ids.new_full((to.size,), self.config.pad_token_id)
        padded[slots] = ids
        return self._through(padded, to.shapes, to.lengths)[slots]

    def _through(self, ids: Tensor, shapes: tuple[tuple[int, int], ...], lengths: Tensor) -> Tensor:
        """Map padded groups of rows, laid end to end, from ids (M,) to (M, d)."""
        x = F.dropout(self.words(ids), self.dropout, self.training)
        masks = self._masks(shapes, lengths, working_dtype(x))
        sizes = [rows * longest for rows, longest in shapes]
        dropout = self.dropout if self.training else 0.0

        def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            groups = zip(*(torch.split(part, sizes) for part in (q, k, v)), strict=True)
            mixed = []
            for group, shape, mask in zip(groups, shapes, masks, strict=True):
                q, k, v = (part.view(*shape, *part.shape[1:]) for part in group)
                mixed.append(attention(q, k, v, mask, dropout).flatten(0, 1))
            return mixed[0] if len(mixed) == 1 else torch.cat(mixed)

        for block in self.blocks:
            x = run_block(block, x, attend, self.checkpointing)
        return F.dropout(self.norm(x), self.dropout, self.training)

    def _masks(
        self, shapes: tuple[tuple[int, int], ...], lengths: Tensor, dtype: torch.dtype
    ) -> list[Tensor]:
        """Return what is added to the scores of each group (B, heads, T, T).

        The bias of a shorter sequence is a corner of a longer one's.
        """
        bias = self.relative.square(max(longest for _, longest in shapes)).to(dtype)
        masks = []
        by_group = torch.split(lengths, [rows for rows, _ in shapes])
        for (rows, longest), own in zip(shapes, by_group, strict=True):
            mask = bias[:, :longest, :longest].expand(rows, -1, -1, -1)
            if bool((own < longest).any()):
                outside = ~inside_of(own.to(bias.device), longest)
                mask = mask.masked_fill(outside[:, None, None], torch.finfo(dtype).min)
            masks.append(mask)
        return masks


def _ends(rows: Whole, ids: Tensor) -> Tensor:
    """Return where rows end (B + 1,), from 0 on, beside their ids."""
    return torch.from_numpy(np.append(0, rows.cumsum()).astype(np.int32)).to(ids.device)


class Memory:
    """What the decoder attends to: vectors (N, d) of questions laid end to end."""

    def __init__(self, vectors: Tensor, lengths: Tensor) -> None:
        """Note how many vectors are whose, `lengths` (B,)."""
        rows = torch.from_numpy(counts(lengths, len(vectors)))
        if not len(rows) or int(rows.min()) < 1:
            raise DataError("a question has nothing to attend to; give it at least one passage")
        self._vectors, self._shape = vectors, (len(rows), int(rows.max()))
        self._slots: Tensor | None = None
        self._mask: Tensor | None = None
        if int(rows.min()) < self._shape[1]:
            length_mask = inside_of(rows, self._shape[1])
            self._slots = length_mask.flatten().nonzero()[:, 0].to(vectors.device)
            dtype = working_dtype(vectors)
            mask = length_mask.new_zeros(length_mask.shape, dtype=dtype)
            mask = mask.masked_fill(~length_mask, torch.finfo(dtype).min)[:, None, None]
            self._mask = mask.to(vectors.device)

    def attend(self, cross: CrossAttention, dropout: float = 0.0) -> AttendCross:
        """Return a layer's attention; its keys and values are computed now, and once."""
        k, v = (self._padded(part) for part in cross.remember(self._vectors))
        return lambda q: attention(q, k, v, self._mask, dropout)

    def _padded(self, part: Tensor) -> Tensor:
        """Lay out (N, …) question by question (B, T, …)."""
        if self._slots is not None:  # a copy, of which gradients are taken without adding up
            whole = part.new_zeros(self._shape[0] * self._shape[1], *part.shape[1:])
            part = whole.index_copy_(0, self._slots, part)
        return part.view(*self._shape, *part.shape[1:])


class T5Decoder(nn.Module):
    """Vectors of tokens and a memory to vectors of what comes next."""

    def __init__(self, config: T5Config, dropout: float = 0.0) -> None:
        super().__init__()
        self.config, self.dropout = config, dropout
        self.relative = RelativeBias.of(config, both_ways=False)
        layers = range(config.num_decoder_layers)
        self.blocks = nn.ModuleList(DecoderBlock(config, dropout) for _ in layers)
        self.norm = T5Norm(config)

    @property
    def layers(self) -> list[DecoderBlock]:
        """The blocks, for those who give each its own attention."""
        return [block for block in self.blocks if isinstance(block, DecoderBlock)]

    def forward(self, x: Tensor, memory: Memory) -> Tensor:
        """Map whole sequences (B, T, d), in which each token sees those before it, to the same."""
        x = F.dropout(x.clone(), self.dropout, self.training)  # blocks may work in place
        dropout = self.dropout if self.training else 0.0
        ahead = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        dtype = working_dtype(x)
        bias = self.relative.square(x.shape[1]).to(dtype)
        mask = bias.masked_fill(ahead, torch.finfo(dtype).min).expand(len(x), -1, -1, -1)
        for block in self.layers:
            cross = memory.attend(block.cross, dropout)
            x = block(x, partial(attention, mask=mask, dropout=dropout), cross)
        return F.dropout(self.norm(x), self.dropout, self.training)


class T5(nn.Module):
    """An encoder, a decoder and a head over the words; stateless, so that threads may share it."""

    def __init__(self, config: T5Config, dropout: float = 0.0) -> None:
        super().__init__()
        self.config = config
        self.encoder = T5Encoder(config, dropout)
        self.decoder = T5Decoder(config, dropout)
        if not config.tie_word_embeddings:
            self.head = nn.Linear(config.d_model, config.vocab_size, bias=False)

    def logits(self, decoder_ids: Tensor, memory: Tensor, memory_lengths: Tensor) -> Tensor:
        """Map decoder ids (B, T) and memories, (N, d) end to end, to (B, T, vocabulary)."""
        words = self.encoder.words(decoder_ids)
        return self.words_from(self.decoder(words, Memory(memory, memory_lengths)))

    def words_from(self, x: Tensor) -> Tensor:
        """Map the decoder's vectors (…, d) to logits (…, vocabulary)."""
        if self.config.scale_decoder_outputs:
            x = x * self.config.d_model**-0.5
        tied = self.config.tie_word_embeddings
        return F.linear(x, self.encoder.words.weight if tied else self.head.weight)
