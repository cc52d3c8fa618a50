"""How many passages a T5 reader has memory for, by arithmetic over its shape, without torch.

    python -m recipes.reader_memory --memory 24GB
    python -m recipes.reader_memory --memory 80GiB --tokens 256 --batch 4 --model models/reader

A reader is Fusion in Decoder (`jpr.models.t5`): its encoder reads each passage separately, its
decoder attends to all of a question's. Tensors are counted as the code makes them. Training is that
of `jpr.train.loop`: weights, gradients and AdamW's moments in float32, bfloat16 by autocast,
dropout; inference is in bfloat16 throughout. Bytes are those that torch allocates; `OUTSIDE` is
added for the driver. docs/reader-memory.md compares with measured peaks.
"""

import argparse
import json
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from jpr.errors import ConfigError, JprError
from jpr.io.json_files import read_object
from jpr.models.config import T5Config

HALF, FULL = 2, 4
"""Bytes of a number in bfloat16 and in float32."""
WORKSPACE = 64 * 2**20
"""cuBLAS workspace on an H200: two of 32 MiB."""
OUTSIDE = 10**9
"""Allowance for the driver and for gaps between tensors; not measured."""
_AT_ONCE = 65_536
"""Tokens that the encoder reads at once without gradients (`jpr.models.padding.Grouping`)."""

SHAPES = {
    "small": T5Config(32128, 512, 64, 2048, 6, 8, 6),
    "base": T5Config(32128, 768, 64, 3072, 12, 12, 12),
    "large": T5Config(32128, 1024, 64, 4096, 24, 16, 24),
    "3b": T5Config(32128, 1024, 128, 16384, 24, 32, 24),
    "11b": T5Config(32128, 1024, 128, 65536, 24, 128, 24),
}
"""T5's own sizes, the first generation."""


def wide(shape: T5Config) -> int:
    """Width of a feed-forward layer's first product: twice the inner width with gates."""
    return shape.d_ff * (2 if shape.is_gated else 1)


def embedding_weights(shape: T5Config) -> int:
    """Weights of the input embeddings."""
    return shape.vocab_size * shape.d_model


def encoder_block(shape: T5Config) -> int:
    """Weights in the matrices of an encoder block."""
    return shape.d_model * (4 * shape.inner + wide(shape) + shape.d_ff)


def decoder_block(shape: T5Config) -> int:
    """Weights in the matrices of a decoder block."""
    return encoder_block(shape) + 4 * shape.d_model * shape.inner


def weights(shape: T5Config) -> int:
    """All weights of a T5."""
    blocks = shape.num_layers * encoder_block(shape)
    blocks += shape.num_decoder_layers * decoder_block(shape)
    norms = (2 * shape.num_layers + 3 * shape.num_decoder_layers + 2) * shape.d_model
    biases = 2 * shape.relative_attention_num_buckets * shape.num_heads
    return blocks + norms + biases + embedding_weights(shape) * (2 - shape.tie_word_embeddings)


@dataclass(frozen=True, slots=True)
class Load:
    """A batch: for each question, k passages and an answer."""

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
    """Bytes at the moment of the highest use."""

    weights: int
    optimiser: int
    """AdamW's two moments."""
    copies: int
    """Of weights, in bfloat16."""
    gradients: int
    kept: int
    """For the backward pass; at inference, for the steps to come."""
    working: int
    """Temporary tensors of one operation."""

    @property
    def total(self) -> int:
        """The sum."""
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
    one, copies = HALF * encoder_block(shape), HALF * shape.num_layers * encoder_block(shape)
    of_decoder = HALF * shape.num_decoder_layers * decoder_block(shape)
    words, everything = FULL * embedding_weights(shape), FULL * weights(shape)
    back = _back(shape, load, fused)
    moments = (
        # The loss is known; copies of weights go only now, where no gradient needs them.
        (copies + of_decoder + HALF * embedding_weights(shape), 0, at_loss, _logits(shape, load)),
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
    """Return what a token leaves in a block of the encoder for the backward pass."""
    normed = 2 * (FULL + HALF) * shape.d_model + 2 * FULL  # twice: input, output, scale
    attended = HALF * 4 * shape.inner + FULL * shape.num_heads  # q, k, v, mixed; log-sum
    fed = HALF * shape.d_ff + (HALF * wide(shape) if shape.is_gated else 0)
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
    """Return what the backward pass of an encoder block needs."""
    each = FULL * shape.d_model + HALF * (shape.d_ff + wide(shape))  # gradients around the ReLU
    if not fused:  # the gradient of the bias of all pairs, and the sum of those so far
        each += 2 * HALF * shape.num_heads * -(-load.tokens // 8) * 8
    return load.read * each + HALF * shape.d_model * wide(shape)  # and of a matrix


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
    """Return float32 logits three times: themselves, log-probabilities and gradients."""
    return 3 * FULL * load.written * shape.vocab_size


def inference(shape: T5Config, load: Load) -> Peak:
    """Return the peak of reading, then generating token by token."""
    return max(reading(shape, load), writing(shape, load), key=lambda peak: peak.total)


def reading(shape: T5Config, load: Load) -> Peak:
    """Return the peak of the encoder without gradients, at most `_AT_ONCE` tokens at a time."""
    rows = min(load.batch * load.passages, max(1, _AT_ONCE // load.tokens))
    now, d = rows * load.tokens, HALF * shape.d_model
    fed = shape.d_ff + (wide(shape) if shape.is_gated else 0)
    within = HALF * max(4 * shape.inner, fed)  # q, k, v, mixed; or around the ReLU
    work = now * (2 * d + within) + (load.read - now) * d
    if now < load.read:  # parts are laid end to end
        work = max(work, 2 * load.read * d)
    return Peak(HALF * weights(shape), 0, 0, 0, 0, work + WORKSPACE)


def writing(shape: T5Config, load: Load) -> Peak:
    """Return the peak of the decoder without gradients: keys and values of all its layers."""
    layers = 2 * HALF * shape.inner * shape.num_decoder_layers
    kept = HALF * shape.d_model * load.read + layers * (load.read + load.written)
    logits = HALF * load.batch * shape.vocab_size
    # A step captured as a CUDA graph has a third workspace.
    return Peak(HALF * weights(shape), 0, 0, 0, kept, logits + WORKSPACE * 3 // 2)


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


Plan = dict[str, Any]
WAYS = {
    "training": "training",
    "checkpointing": "training, checkpointing",
    "inference": "inference",
}
"""What memory is needed for: key in the JSON, and column of the tables."""
PAPER = (("base", 140), ("large", 40), ("3b", 10))
"""Readers and passages that the paper fits on the same hardware."""
_UNITS = {"MB": 10**6, "GB": 10**9, "TB": 10**12, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}


def read_memory(text: str) -> int:
    """Return a size in bytes; a GB is 10⁹ bytes, a GiB 2³⁰.

    >>> read_memory("1.5 GB")
    1500000000
    """
    found = re.fullmatch(r"\s*([0-9]{1,9}(?:\.[0-9]{1,9})?)\s*([a-zA-Z]+)\s*", text)
    unit = _UNITS.get(found[2].upper()) if found else None
    size = int(float(found[1]) * unit) if found and unit else 0
    if size < 1:
        raise ConfigError(f"--memory {text}: give a number above 0 and its unit, such as 24GB")
    return size


def plan(memory: int, load: Load, shapes: dict[str, T5Config], ways: Sequence[str]) -> Plan:
    """Return the largest k of each shape, and what the paper's readers need, in bytes."""

    def needs(shape: T5Config, way: str, k: int) -> int:
        given = replace(load, passages=k)
        if way == "inference":
            return inference(shape, given).total + OUTSIDE
        return training(shape, given, checkpointing=way == "checkpointing").total + OUTSIDE

    def fits(shape: T5Config, way: str) -> int:
        return most_passages(lambda k: needs(shape, way, k), memory)

    return {
        "memory": memory,
        "tokens": load.tokens,
        "answer": load.answer,
        "batch": load.batch,
        "fits": [
            {"size": name, "weights": weights(shape), **{way: fits(shape, way) for way in ways}}
            for name, shape in shapes.items()
        ],
        "paper": [
            {"size": name, "k": k, "k x weights": k * weights(SHAPES[name])}
            | {way: needs(SHAPES[name], way, k) for way in ways}
            for name, k in PAPER
        ],
    }


def shapes_of(sizes: str | None, model: Path | None) -> dict[str, T5Config]:
    """Return the shapes to plan for, by name: T5's own sizes, and that of a model's folder."""
    names = [] if sizes is None else [name.strip().lower() for name in sizes.split(",")]
    for name in names:
        if name not in SHAPES:
            known = ", ".join(SHAPES)
            raise ConfigError(f"--sizes {sizes}: no size {name!r}; choose from {known}")
    found = {name: SHAPES[name] for name in names}
    if model is not None:
        found[str(model)] = T5Config.from_dict(read_object(model / "config.json"))
    return found or dict(SHAPES)


def print_tables(found: Plan, ways: Sequence[str], memory: str) -> None:
    """Print a plan as two tables."""
    each = f"{found['tokens']} tokens each, {found['answer']} of answers, batch {found['batch']}"
    columns = [WAYS[way] for way in ways]
    print(f"The most passages that fit into {memory} ({each}):\n")
    rows = [
        [row["size"], f"{row['weights'] / 1e6:,.0f} M"]
        + [f"{row[way]:,}" if row[way] else "none fits" for way in ways]
        for row in found["fits"]
    ]
    _print_table(["size", "weights", *columns], rows)
    print("\nThe paper's readers on the same hardware, by what they need here:\n")
    rows = [
        [f"{row['k']} passages, {row['size']}", f"{row['k x weights'] / 1e9:.1f} G"]
        + [f"{row[way] / 1e9:.1f} GB" for way in ways]
        for row in found["paper"]
    ]
    _print_table(["reader", "k x weights", *columns], rows)


def _print_table(header: list[str], rows: list[list[str]]) -> None:
    sizes = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    for first, *rest in [header, *rows]:
        cells = [cell.rjust(size) for cell, size in zip(rest, sizes[1:], strict=True)]
        print("  ".join([first.ljust(sizes[0]), *cells]))


def main(arguments: Sequence[str] | None = None) -> None:
    """Print what fits."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--memory", required=True, help="of the device, such as 24GB or 80GiB")
    parser.add_argument("--tokens", type=int, default=200, help="of a question with a passage")
    parser.add_argument("--answer", type=int, default=40, help="tokens of all answers together")
    parser.add_argument("--batch", type=int, default=1, help="questions at a time")
    parser.add_argument("--sizes", help="of T5, comma-separated; all by default, none with --model")
    parser.add_argument("--model", type=Path, help="folder of a T5 with its config.json")
    parser.add_argument(
        "--checkpointing",
        action=argparse.BooleanOptionalAction,
        help="train with activation checkpointing of the encoder, or without; both by default",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args(arguments)
    for name in ("tokens", "answer", "batch"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} must be 1 or more: {getattr(options, name)}")
    left_out = {None: "", True: "training", False: "checkpointing"}[options.checkpointing]
    ways = [way for way in WAYS if way != left_out]
    load = Load(1, options.tokens, options.answer, options.batch)
    try:
        shapes = shapes_of(options.sizes, options.model)
        found = plan(read_memory(options.memory), load, shapes, ways)
    except JprError as error:
        parser.error(str(error))
    if options.json:
        print(json.dumps(found))
    else:
        print_tables(found, ways, options.memory)
    if not any(row[way] for row in found["fits"] for way in ways):
        problem = f"nothing fits into {options.memory}; give fewer --tokens or a smaller --batch"
        print(problem, file=sys.stderr)


if __name__ == "__main__":
    main()
