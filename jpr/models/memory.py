"""How much memory a T5 reader needs: arithmetic over its shape, without torch.

A reader is Fusion in Decoder (`jpr.models.t5`): its encoder reads passages apart, its decoder
attends to all of a question's. Tensors are counted as the code makes them. Training is that of
`jpr.train.loop`: weights, gradients and AdamW's moments in 32 bits, bfloat16 by autocast, dropout;
inference is in bfloat16 throughout. Bytes are those that torch allocates; what a device needs
besides, `OUTSIDE`, comes on top. docs/plan.md compares with what was measured.
"""

from collections.abc import Callable
from dataclasses import dataclass

from jpr.models.t5_config import T5Config

HALF, FULL = 2, 4
"""Bytes of a number in bfloat16 and in float32."""
WORKSPACE = 64 * 2**20
"""What the library of matrix products keeps for itself on an H200: two places of 32 MiB."""
OUTSIDE = 10**9
"""What a driver and gaps between tensors take: an allowance, not a measured number."""
_AT_ONCE = 65_536
"""Tokens that the encoder reads at once without gradients (`jpr.models.ragged.Grain`)."""

SHAPES = {
    "small": T5Config(32128, 512, 64, 2048, 6, 8, 6),
    "base": T5Config(32128, 768, 64, 3072, 12, 12, 12),
    "large": T5Config(32128, 1024, 64, 4096, 24, 16, 24),
    "3b": T5Config(32128, 1024, 128, 16384, 24, 32, 24),
    "11b": T5Config(32128, 1024, 128, 65536, 24, 128, 24),
}
"""T5's own sizes, the first generation."""


@dataclass(frozen=True, slots=True)
class Load:
    """What is read and written at once: for each question of a batch, k passages and an answer."""

    passages: int
    tokens: int = 200
    """Of each passage, with the question before it."""
    answer: int = 40
    batch: int = 1

    @property
    def read(self) -> int:
        """All tokens that the encoder reads."""
        return self.batch * self.passages * self.tokens

    @property
    def written(self) -> int:
        """All tokens of answers."""
        return self.batch * self.answer


@dataclass(frozen=True, slots=True)
class Peak:
    """Bytes at the moment that needs most."""

    weights: int
    optimiser: int
    """AdamW's two moments."""
    copies: int
    """Of weights, in bfloat16."""
    gradients: int
    kept: int
    """For the backward pass; at inference, for the steps to come."""
    working: int
    """What one operation needs beside all that."""

    @property
    def total(self) -> int:
        """All of it."""
        parts = self.weights, self.optimiser, self.copies, self.gradients, self.kept, self.working
        return sum(parts)


def training(shape: T5Config, load: Load, *, checkpointing: bool, fused: bool = True) -> Peak:
    """Return the peak of a step of training.

    `checkpointing` keeps of the encoder's blocks only what goes in. Where our kernels do not work,
    say in other precision, the encoder is not `fused`: torch keeps masks of dropout and gradients
    of the bias of all pairs of tokens.
    """
    block, through = load.read * kept_in_block(shape, fused), FULL * load.read * shape.d_model
    kept = shape.num_layers * (through if checkpointing else block)
    kept += load.read * _ends(shape, fused)
    at_loss = kept + _decoder(shape, load, fused)
    one, copies = HALF * shape.encoder_block, HALF * shape.num_layers * shape.encoder_block
    of_decoder = HALF * shape.num_decoder_layers * shape.decoder_block
    words, everything = FULL * shape.words, FULL * shape.weights
    back = _back(shape, load, fused)
    moments = (
        # The loss is known; copies of weights go only now, where no gradient needs them.
        (copies + of_decoder + HALF * shape.words, 0, at_loss, _logits(shape, load)),
        # Back through the decoder's last layer: gradients of its keys and values, and two of
        # the memory, which are added up.
        (
            of_decoder + (0 if checkpointing else copies),
            words,
            at_loss,
            2 * HALF * load.read * (shape.inner + shape.d_model),
        ),
        # Back through the encoder's last block, which checkpointing computes again.
        (
            one if checkpointing else copies,
            2 * of_decoder + words,
            kept + (block - through if checkpointing else 0),
            back,
        ),
        # Back through its first, and into the words.
        (one, everything, block, max(back, words + through)),
    )
    peaks = [
        Peak(everything, 2 * everything, copied, gradients, held, work + WORKSPACE)
        for copied, gradients, held, work in moments
    ]
    return max(peaks, key=lambda peak: peak.total)


def kept_in_block(shape: T5Config, fused: bool) -> int:
    """Return what a token leaves in a block of the encoder for the way back."""
    normed = 2 * (FULL + HALF) * shape.d_model + 2 * FULL  # twice: input, output, scale
    attended = HALF * 4 * shape.inner + FULL * shape.num_heads  # q, k, v, mixed; log-sum
    fed = HALF * shape.d_ff + (HALF * shape.wide if shape.is_gated else 0)
    if fused:
        return normed + attended + fed
    masks = 2 * shape.d_model + shape.d_ff  # of dropout, a byte each
    return normed + attended + fed + HALF * shape.d_ff + masks  # before dropout and after


def _ends(shape: T5Config, fused: bool) -> int:
    """Return what a token leaves before the first block and after the last.

    Its id, two masks of dropout, what the last norm was taken of, and its vector in memory.
    """
    return 8 + shape.d_model * (2 + FULL + (HALF if fused else FULL))


def _back(shape: T5Config, load: Load, fused: bool) -> int:
    """Return what it takes to go back through a block of the encoder."""
    each = FULL * shape.d_model + HALF * (shape.d_ff + shape.wide)  # gradients around the ReLU
    if not fused:  # the gradient of the bias of all pairs, and the sum of those so far
        each += 2 * HALF * shape.num_heads * -(-load.tokens // 8) * 8
    return load.read * each + HALF * shape.d_model * shape.wide  # and of a matrix


def _decoder(shape: T5Config, load: Load, fused: bool) -> int:
    """Return what the decoder's layers keep: keys and values of the memory, little of answers."""
    d, of_memory = shape.d_model, 2 * HALF * shape.inner
    if not fused:  # the memory is in 32 bits, and copied for keys and for values
        of_memory += 2 * HALF * d
    cross = (FULL + HALF + 1) * d + 2 * HALF * shape.inner + FULL * (shape.num_heads + 1)
    of_answer = kept_in_block(shape, fused=False) + cross
    layer = load.read * of_memory + load.written * of_answer
    return shape.num_decoder_layers * layer + load.written * 16 * d


def _logits(shape: T5Config, load: Load) -> int:
    """Return logits in 32 bits thrice: themselves, log-probabilities and, later, gradients."""
    return 3 * FULL * load.written * shape.vocab_size


def inference(shape: T5Config, load: Load) -> Peak:
    """Return the peak of reading and then writing word by word."""
    return max(reading(shape, load), writing(shape, load), key=lambda peak: peak.total)


def reading(shape: T5Config, load: Load) -> Peak:
    """Return the peak of the encoder without gradients, which reads so many tokens at a time."""
    rows = min(load.batch * load.passages, max(1, _AT_ONCE // load.tokens))
    now, d = rows * load.tokens, HALF * shape.d_model
    fed = shape.d_ff + (shape.wide if shape.is_gated else 0)
    within = HALF * max(4 * shape.inner, fed)  # q, k, v, mixed; or around the ReLU
    work = now * (2 * d + within) + (load.read - now) * d
    if now < load.read:  # parts are laid end to end
        work = max(work, 2 * load.read * d)
    return Peak(HALF * shape.weights, 0, 0, 0, 0, work + WORKSPACE)


def writing(shape: T5Config, load: Load) -> Peak:
    """Return the peak of the decoder without gradients: keys and values of all its layers."""
    layers = 2 * HALF * shape.inner * shape.num_decoder_layers
    kept = HALF * shape.d_model * load.read + layers * (load.read + load.written)
    logits = HALF * load.batch * shape.vocab_size
    # A recorded step (`jpr.models.recorded`) has a third place.
    return Peak(HALF * shape.weights, 0, 0, 0, kept, logits + WORKSPACE * 3 // 2)


def most_passages(needs: Callable[[int], int], memory: int) -> int:
    """Return the largest k whose need fits, 0 where one passage does not.

    >>> most_passages(lambda k: 10 + 3 * k, memory=20)
    3
    """
    if needs(1) > memory:
        return 0
    fits = 1
    while needs(2 * fits) <= memory:
        fits *= 2
    beyond = 2 * fits
    while beyond - fits > 1:
        middle = (fits + beyond) // 2
        fits, beyond = (middle, beyond) if needs(middle) <= memory else (fits, middle)
    return fits
