"""T5 of both generations, with Hugging Face's weights (`t5_checkpoint`).

The first generation has a plain feed-forward layer and one matrix for input and output words; v1.1
and flan have gates and an output layer of their own.

Fusion in Decoder: the encoder reads each passage separately; the decoder attends to all passages
of its question concatenated, the question's memory. What `T5Encoder.forward_packed` returns are
the concatenated memories of several questions: only the lengths differ.
"""

from functools import partial

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from jpr.errors import DataError
from jpr.models import padding, t5_blocks
from jpr.models.config import T5Config
from jpr.models.kernels import dispatch

_KERNEL_HEADS = (16, 32, 64, 128)  # head sizes that the training kernels take


class T5Encoder(nn.Module):
    """Token ids to vectors; stateless, so that threads may share it."""

    def __init__(self, config: T5Config, dropout: float = 0.0) -> None:
        super().__init__()
        self.config, self.dropout = config, dropout
        self.words = nn.Embedding(config.vocab_size, config.d_model)
        self.relative = t5_blocks.RelativeBias.of(config, both_ways=True)
        self.blocks = nn.ModuleList(
            t5_blocks.EncoderBlock(config, dropout) for _ in range(config.num_layers)
        )
        self.norm = t5_blocks.T5Norm(config)
        self.checkpointing = False  # recompute activations in the backward pass, to save memory

    def forward_packed(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """Map concatenated rows of `lengths` (B,), ids (N,), to (N, d)."""
        rows, weight = padding.row_lengths(lengths, len(ids)), self.words.weight
        if not len(ids):
            return weight[:0]
        if dispatch.uses_training_kernels(weight) and self.config.d_kv in _KERNEL_HEADS:
            return self._run_varlen(ids, rows)
        fast = dispatch.uses_inference_kernels(weight)
        run = self._run_varlen if fast else self._run_padded
        return padding.in_parts(ids, rows, run)

    def _run_varlen(self, ids: Tensor, rows: padding.Ints) -> Tensor:
        ends = torch.from_numpy(np.append(0, rows.cumsum()).astype(np.int32)).to(ids.device)
        return self.forward_varlen(ids, ends, int(rows.max()))

    def forward_varlen(self, ids: Tensor, ends: Tensor, longest: int) -> Tensor:
        """Map concatenated ids (N,), row boundaries `ends` (B + 1,) from 0 on, to (N, d).

        By kernels, in bfloat16 on a GPU only, without any padding.
        """
        from jpr.models.kernels import inference, training

        if dispatch.uses_training_kernels(self.words.weight):
            dropout = self.dropout if self.training else 0.0
            tiles = self.relative.tiles(inference.TILE, torch.float32)
            given = tiles, ends, longest, dropout
            return self._run_blocks(ids, lambda q, k, v: training.attend(q, k, v, *given))
        tiles = self.relative.tiles(inference.TILE, self.words.weight.dtype)
        attend = partial(inference.attend, tiles=tiles, ends=ends, longest=longest)
        return self._run_blocks(ids, attend)

    def _run_padded(self, ids: Tensor, rows: padding.Ints) -> Tensor:
        """Map ids (N,) to (N, d), padded in groups in between."""
        to = padding.layout(rows, padding.Grouping.of(ids.device))
        slots = to.slots.to(ids.device)
        padded = ids.new_full((to.size,), self.config.pad_token_id)
        padded[slots] = ids
        masks, sizes = self._masks(to), [rows * longest for rows, longest in to.shapes]
        dropout = self.dropout if self.training else 0.0

        def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            groups = zip(*(torch.split(part, sizes) for part in (q, k, v)), strict=True)
            mixed = []
            for group, shape, mask in zip(groups, to.shapes, masks, strict=True):
                q, k, v = (part.view(*shape, *part.shape[1:]) for part in group)
                mixed.append(t5_blocks.attention(q, k, v, mask, dropout).flatten(0, 1))
            return mixed[0] if len(mixed) == 1 else torch.cat(mixed)

        return self._run_blocks(padded, attend)[slots]

    def _masks(self, to: padding.Layout) -> list[Tensor]:
        """Return what is added to the scores of each group (B, heads, T, T)."""
        dtype = dispatch.working_dtype(self.words.weight)
        bias = self.relative.square(max(longest for _, longest in to.shapes)).to(dtype)
        masks = []
        by_group = torch.split(to.lengths, [rows for rows, _ in to.shapes])
        for (rows, longest), own in zip(to.shapes, by_group, strict=True):
            mask = bias[:, :longest, :longest].expand(rows, -1, -1, -1)
            if bool((own < longest).any()):
                outside = ~padding.length_mask(own.to(bias.device), longest)
                mask = mask.masked_fill(outside[:, None, None], torch.finfo(dtype).min)
            masks.append(mask)
        return masks

    def _run_blocks(self, ids: Tensor, attend: t5_blocks.Attend) -> Tensor:
        x = F.dropout(self.words(ids), self.dropout, self.training)
        x = padding.run_blocks(self.blocks, x, attend, self.checkpointing)
        return F.dropout(self.norm(x), self.dropout, self.training)


class Memory:
    """What the decoder attends to: concatenated vectors (N, d) of the questions."""

    def __init__(self, vectors: Tensor, lengths: Tensor) -> None:
        """Take vectors, and their number for each question, `lengths` (B,)."""
        rows = torch.from_numpy(padding.row_lengths(lengths, len(vectors)))
        if not len(rows) or int(rows.min()) < 1:
            raise DataError("a question has nothing to attend to; give it at least one passage")
        self._vectors, self._shape = vectors, (len(rows), int(rows.max()))
        self._slots: Tensor | None = None
        self._mask: Tensor | None = None
        if int(rows.min()) < self._shape[1]:
            inside = padding.length_mask(rows, self._shape[1])
            self._slots = inside.flatten().nonzero()[:, 0].to(vectors.device)
            dtype = dispatch.working_dtype(vectors)
            mask = inside.new_zeros(inside.shape, dtype=dtype)
            mask = mask.masked_fill(~inside, torch.finfo(dtype).min)[:, None, None]
            self._mask = mask.to(vectors.device)

    def attend(
        self, cross: t5_blocks.CrossAttention, dropout: float = 0.0
    ) -> t5_blocks.AttendCross:
        """Return a layer's attention; its keys and values are computed now, once."""
        k, v = (self._padded(part(self._vectors), cross.heads) for part in (cross.k, cross.v))
        return lambda q: t5_blocks.attention(q, k, v, self._mask, dropout)

    def _padded(self, part: Tensor, heads: int) -> Tensor:
        """Pad (N, heads · d_kv) to (B, T, heads, d_kv)."""
        part = part.view(len(part), heads, -1)
        if self._slots is not None:  # a copy, whose gradients need no sum
            whole = part.new_zeros(self._shape[0] * self._shape[1], *part.shape[1:])
            part = whole.index_copy_(0, self._slots, part)
        return part.view(*self._shape, *part.shape[1:])


class T5Decoder(nn.Module):
    """Vectors of tokens, and a memory, to vectors that predict the next token."""

    def __init__(self, config: T5Config, dropout: float = 0.0) -> None:
        super().__init__()
        self.config, self.dropout = config, dropout
        self.relative = t5_blocks.RelativeBias.of(config, both_ways=False)
        layers = range(config.num_decoder_layers)
        self.blocks = nn.ModuleList(t5_blocks.DecoderBlock(config, dropout) for _ in layers)
        self.norm = t5_blocks.T5Norm(config)

    @property
    def layers(self) -> list[t5_blocks.DecoderBlock]:
        """The blocks with their type."""
        return [block for block in self.blocks if isinstance(block, t5_blocks.DecoderBlock)]

    def forward(self, x: Tensor, memory: Memory) -> Tensor:
        """Map whole sequences (B, T, d), causally, to (B, T, d)."""
        x = F.dropout(x.clone(), self.dropout, self.training)  # blocks may work in place
        dropout = self.dropout if self.training else 0.0
        ahead = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        dtype = dispatch.working_dtype(x)
        bias = self.relative.square(x.shape[1]).to(dtype)
        mask = bias.masked_fill(ahead, torch.finfo(dtype).min).expand(len(x), -1, -1, -1)
        for block in self.layers:
            cross = memory.attend(block.cross, dropout)
            x = block(x, partial(t5_blocks.attention, mask=mask, dropout=dropout), cross)
        return F.dropout(self.norm(x), self.dropout, self.training)


class T5(nn.Module):
    """Encoder, decoder and output layer; stateless, so that threads may share it."""

    def __init__(self, config: T5Config, dropout: float = 0.0) -> None:
        super().__init__()
        self.config = config
        self.encoder = T5Encoder(config, dropout)
        self.decoder = T5Decoder(config, dropout)
        if not config.tie_word_embeddings:
            self.head = nn.Linear(config.d_model, config.vocab_size, bias=False)

    def logits(self, decoder_ids: Tensor, memory: Tensor, memory_lengths: Tensor) -> Tensor:
        """Map decoder ids (B, T) and concatenated memories (N, d) to (B, T, vocabulary)."""
        words = self.encoder.words(decoder_ids)
        return self.output(self.decoder(words, Memory(memory, memory_lengths)))

    def output(self, x: Tensor) -> Tensor:
        """Map the decoder's vectors (…, d) to logits (…, vocabulary)."""
        if self.config.scale_decoder_outputs:
            x = x * self.config.d_model**-0.5
        tied = self.config.tie_word_embeddings
        return F.linear(x, self.encoder.words.weight if tied else self.head.weight)
