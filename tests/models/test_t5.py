"""Parity of our T5 with the library's, on tiny random weights, and what must hold besides."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from jpr.errors import DataError
from jpr.models.config import T5Config
from jpr.models.t5 import T5, Memory, T5Encoder
from jpr.models.t5_blocks import attention
from tests.models.t5_models import (
    GENERATIONS,
    LENGTHS,
    SHAPE,
    batch,
    close,
    generate_tokens,
    generations,
    ours,
    theirs,
)


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> None:
    """Tiny matrices are multiplied faster than threads are woken."""
    torch.set_num_threads(1)


@generations
def test_the_encoder_gives_what_theirs_gives(generation: str) -> None:
    model = theirs(generation)
    ids, lengths, inside = batch()
    with torch.inference_mode():
        expected = model.encoder(ids, attention_mask=inside.long()).last_hidden_state[inside]
        encoder = ours(model).encoder
        close(encoder.forward_packed(ids[inside], lengths), expected)


@generations
def test_the_decoder_gives_what_theirs_gives(generation: str) -> None:
    model = theirs(generation)
    ids, lengths, inside = batch()
    decoder_ids = torch.randint(2, 50, (len(LENGTHS), 12), generator=torch.manual_seed(3))
    with torch.inference_mode():
        expected = model(ids, attention_mask=inside.long(), decoder_input_ids=decoder_ids).logits
        mine = ours(model)
        memory = mine.encoder.forward_packed(ids[inside], lengths)
        close(mine.logits(decoder_ids, memory, lengths), expected)


@generations
def test_generation_gives_what_theirs_gives(generation: str) -> None:
    model = theirs(generation)
    ids, lengths, inside = batch()
    mine = ours(model)
    with torch.inference_mode():
        memory = mine.encoder.forward_packed(ids[inside], lengths)
        end = generate_tokens(mine, memory, lengths, 15)[2][1]  # so that rows end at unlike places
        mine.config = replace(mine.config, eos_token_id=end)
        found = generate_tokens(mine, memory, lengths, 15)
        limits = {"max_new_tokens": 15, "do_sample": False, "eos_token_id": end}
        expected = model.generate(ids, attention_mask=inside.long(), **limits)[:, 1:]
    assert len(found[2]) < max(map(len, found)) == expected.shape[1]
    assert [own + [0] * (expected.shape[1] - len(own)) for own in found] == expected.tolist()


def test_generation_ends_at_the_end_or_the_limit() -> None:
    """Where all logits are equal, the first word is the likeliest: it is the end, or not."""
    memory, lengths = torch.randn(5, 24), torch.tensor([2, 3])
    for end, expected in ((0, [[0], [0]]), (1, [[0] * 4] * 2)):
        shape = T5Config.from_dict({**SHAPE, "model_type": "t5", "eos_token_id": end})
        model = T5(shape).eval()
        torch.nn.init.zeros_(model.decoder.norm.weight)
        assert generate_tokens(model, memory, lengths, 4) == expected


def test_memory_of_several_passages_is_their_states_end_to_end() -> None:
    model = theirs("v1.1")
    ids, lengths, inside = batch()
    decoder_ids = torch.tensor([[0, 7, 8], [0, 9, 4]])
    with torch.inference_mode():
        mine = ours(model)
        memory = mine.encoder.forward_packed(ids[inside], lengths)
        found = mine.logits(decoder_ids, memory, torch.tensor([10, 56]))  # 2 and 3 passages
        for row, states in enumerate(torch.split(memory, [10, 56])):
            given = {"decoder_input_ids": decoder_ids[row : row + 1]}
            expected = model(encoder_outputs=(states[None],), **given)
            close(found[row : row + 1], expected.logits)


def test_steps_over_a_cache_give_what_whole_sequences_give() -> None:
    model = ours(theirs("v1.0"))
    x, memory = torch.randn(2, 6, 24), Memory(torch.randn(7, 24), torch.tensor([3, 4]))
    kept: list[list[tuple[Tensor, Tensor]]] = [[] for _ in model.decoder.layers]

    def over(cache: list[tuple[Tensor, Tensor]]) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
        def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            cache.append((k, v))
            distance = torch.arange(len(cache)) - (len(cache) - 1)
            bias = model.decoder.relative(distance).T[None, :, None]
            keys, values = (torch.cat([pair[i] for pair in cache], dim=1) for i in (0, 1))
            return attention(q, keys, values, bias)

        return attend

    with torch.inference_mode():
        expected = model.decoder(x, memory)
        for t in range(x.shape[1]):
            step = x[:, t : t + 1]
            for block, cache in zip(model.decoder.layers, kept, strict=True):
                step = block(step, over(cache), memory.attend(block.cross))
            close(model.decoder.norm(step), expected[:, t : t + 1])


def test_keys_and_values_can_be_absorbed() -> None:
    """Cross attention over the memory itself: keys go into the query, values come after the sum."""
    model = ours(theirs("v1.0"))
    cross, memory, q = model.decoder.layers[0].cross, torch.randn(7, 24), torch.randn(1, 3, 4, 8)
    keys, values = (part.weight.view(4, 8, 24) for part in (cross.k, cross.v))
    with torch.inference_mode():
        expected = Memory(memory, torch.tensor([7])).attend(cross)(q)
        weights = (torch.einsum("bthk,hkd->bthd", q, keys) @ memory.T).softmax(dim=-1)
        found = torch.einsum("bthd,hkd->bthk", weights @ memory, values)
    close(found, expected)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 40), min_size=1, max_size=12), st.integers(0, 100))
def test_a_row_does_not_depend_on_the_others(lengths: list[int], seed: int) -> None:
    torch.manual_seed(seed)
    encoder = T5Encoder(T5Config(50, 16, 4, 24, 2, 4, 2)).eval()
    ids = torch.randint(0, 50, (sum(lengths),))
    with torch.inference_mode():
        together = encoder.forward_packed(ids, torch.tensor(lengths))
        alone = [
            encoder.forward_packed(row, torch.tensor([len(row)]))
            for row in torch.split(ids, lengths)
        ]
    close(together, torch.cat(alone))


def test_many_tokens_go_in_parts() -> None:
    encoder = T5Encoder(T5Config(50, 16, 4, 24, 2, 4, 2)).eval()
    lengths = torch.arange(300) % 60  # 8850 tokens; a CPU takes 8192 at once
    ids = torch.randint(0, 50, (int(lengths.sum()),))
    with torch.inference_mode():
        found = torch.split(encoder.forward_packed(ids, lengths), lengths.tolist())
        rows = torch.split(ids, lengths.tolist())
        for i in (1, 59, 277, 278, 299):
            close(found[i], encoder.forward_packed(rows[i], lengths[i : i + 1]))


def test_threads_share_a_model() -> None:
    model = ours(theirs("v1.1"))

    def run(seed: int) -> tuple[Tensor, list[list[int]]]:
        chance = torch.Generator().manual_seed(seed)
        lengths = torch.randint(1, 30, (6,), generator=chance)
        ids = torch.randint(2, 50, (int(lengths.sum()),), generator=chance)
        with torch.inference_mode():
            memory = model.encoder.forward_packed(ids, lengths)
            return memory, generate_tokens(model, memory, lengths.view(2, 3).sum(dim=1), 8)

    alone = [run(seed) for seed in range(24)]
    with ThreadPoolExecutor(6) as pool:
        together = list(pool.map(run, range(24)))
    for expected, found in zip(alone, together, strict=True):
        assert torch.equal(expected[0], found[0])
        assert expected[1] == found[1]


def test_dropout_and_gradients() -> None:
    shape = T5Config.from_dict({**SHAPE, **GENERATIONS["v1.1"], "model_type": "t5"})
    model = T5(shape, dropout=0.3)
    ids, lengths, inside = batch()

    def logits() -> Tensor:
        memory = model.encoder.forward_packed(ids[inside], lengths)
        return model.logits(ids[:, :4], memory, lengths)

    assert not torch.equal(logits(), logits())
    logits().square().mean().backward()  # type: ignore[no-untyped-call]  # no types there
    for name, weight in model.named_parameters():
        assert weight.grad is not None, name
        assert weight.grad.abs().sum() > 0, name
    model.eval()
    assert torch.equal(logits(), logits())


def test_it_begins_with_sound_sizes() -> None:
    """Without training, scores of attention and logits spread by about 1, whatever the width."""
    torch.manual_seed(0)
    wide = T5(T5Config(300, 128, 16, 256, 4, 8, 4))
    lengths = torch.tensor([20, 30])
    memory = wide.encoder.forward_packed(torch.randint(0, 300, (50,)), lengths)
    spread = wide.logits(torch.randint(0, 300, (2, 5)), memory, lengths).std()
    assert 0.5 < spread < 2
    x = torch.randn(40, 128)
    qkv = wide.decoder.layers[0].attention.qkv(x)
    q, k, _ = qkv.view(40, 3, 8, 16).permute(1, 2, 0, 3)
    assert 0.5 < (q @ k.mT).std() < 2


def test_sixteen_bits_by_autocast_are_close() -> None:
    model = ours(theirs("v1.0"))
    ids, lengths, inside = batch()

    def logits() -> Tensor:
        memory = model.encoder.forward_packed(ids[inside], lengths)
        return model.logits(ids[:, :4], memory, lengths).float()

    with torch.inference_mode():
        expected = logits()
        with torch.autocast("cpu", torch.bfloat16):
            found = logits()
    assert not torch.equal(found, expected)
    torch.testing.assert_close(found, expected, atol=0.05, rtol=0)


def test_memory_must_fit() -> None:
    with pytest.raises(DataError, match="nothing to attend to"):
        Memory(torch.randn(3, 24), torch.tensor([3, 0]))
    with pytest.raises(DataError, match="rows of 5 tokens in all do not make up 3"):
        Memory(torch.randn(3, 24), torch.tensor([3, 2]))
