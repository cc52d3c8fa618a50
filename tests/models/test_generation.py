"""Writing: as T5 generates, or only what passages say."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from jpr.models.config import T5Config
from jpr.models.generation import GeneratedAnswer, GenerateOptions, generate_answers
from jpr.models.t5 import T5
from jpr.models.tries import Tries
from tests.models.spans import Text, tries_of, whole_spans
from tests.models.t5_models import generate_tokens

SEPARATOR, END, VOCABULARY = 2, 1, 12
CONFIG = T5Config(VOCABULARY, 16, 8, 32, 1, 2, 2)
LENGTHS = torch.tensor([5, 3, 9])


def model(seed: int = 0, sharp: float = 3.0) -> T5:
    torch.manual_seed(seed)
    made = T5(CONFIG).eval()
    made.encoder.words.weight.data *= sharp  # such a one has preferences
    return made


def memory(lengths: torch.Tensor = LENGTHS) -> torch.Tensor:
    return torch.randn(int(lengths.sum()), 16, generator=torch.Generator().manual_seed(1))


def words(passages: list[list[int]]) -> list[Text]:
    return [[(token, token >= 9) for token in passage] for passage in passages]


def tries(*passages: list[list[int]]) -> Tries:
    return tries_of([words(some) for some in passages], 4)


PASSAGES = [[3, 4, 9, 5], [6, 7, 10, 11, 3]], [[8, 3]], [[5, 5, 4], [], [7]]


def spans(passages: list[list[int]]) -> set[tuple[int, ...]]:
    return whole_spans(words(passages), 4)


@pytest.mark.parametrize("seed", range(5))
def test_free_writing_is_t5s_own(seed: int) -> None:
    t5 = model(seed)
    expected = generate_tokens(t5, memory(), LENGTHS, 12)
    for found, ended in zip(
        generate_answers(t5, memory(), LENGTHS, GenerateOptions(SEPARATOR, 12)),
        expected,
        strict=True,
    ):
        answers: list[tuple[int, ...]] = []
        rest: list[int] = []
        for token in ended:
            if token in (SEPARATOR, END):
                answers, rest = [*answers, tuple(rest)], []
            else:
                rest.append(token)
        assert [answer.tokens for answer in found] == [answer for answer in answers if answer]


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("seed", range(5))
def test_grounded_answers_are_runs_of_the_passages_and_differ(seed: int, width: int) -> None:
    ways = GenerateOptions(SEPARATOR, 14, width, stop_penalty=20.0)
    found = generate_answers(model(seed), memory(), LENGTHS, ways, tries(*PASSAGES))
    assert any(len(answers) > 1 for answers in found)
    for answers, passages in zip(found, PASSAGES, strict=True):
        written = [answer.tokens for answer in answers]
        assert written
        assert set(written) <= spans(passages)
        assert len(set(written)) == len(written)


@pytest.mark.parametrize("width", [1, 2])
def test_questions_do_not_touch_each_other(width: int) -> None:
    ways, t5 = GenerateOptions(SEPARATOR, 10, width), model(3)
    together = generate_answers(t5, memory(), LENGTHS, ways, tries(*PASSAGES))
    parts = torch.split(memory(), LENGTHS.tolist())
    for at, (part, answers) in enumerate(zip(parts, together, strict=True)):
        (alone,) = generate_answers(t5, part, LENGTHS[at : at + 1], ways, tries(PASSAGES[at]))
        assert [one.tokens for one in alone] == [one.tokens for one in answers]
        assert [one.log_prob for one in alone] == pytest.approx([one.log_prob for one in answers])


@pytest.mark.parametrize("width", [1, 2])
@pytest.mark.parametrize("seed", range(8))
def test_a_question_that_has_ended_waits_for_the_others(seed: int, width: int) -> None:
    passages = [[3, 4, 5, 6, 7, 8, 3, 5, 7]], [[8, 3, 4, 5, 6]], [[5, 5, 4], [7, 6, 3, 4]]
    ways, t5 = GenerateOptions(SEPARATOR, 60, width), model(seed)
    together = generate_answers(t5, memory(), LENGTHS, ways, tries(*passages))
    parts = torch.split(memory(), LENGTHS.tolist())
    for part, own, answers in zip(parts, passages, together, strict=True):
        (alone,) = generate_answers(t5, part, torch.tensor([len(part)]), ways, tries(own))
        assert [one.tokens for one in alone] == [one.tokens for one in answers]


def log_prob(t5: T5, answers: list[tuple[int, ...]]) -> list[float]:
    """Of each answer with what ends it, of a question's only sequence, computed at once."""
    ends = [SEPARATOR] * (len(answers) - 1) + [END]
    whole = [token for answer, end in zip(answers, ends, strict=True) for token in (*answer, end)]
    ids = torch.tensor([[0, *whole[:-1]]])
    with torch.inference_mode():
        logits = t5.logits(ids, memory()[:5], LENGTHS[:1])[0].log_softmax(-1)
    each = logits.gather(1, torch.tensor(whole)[:, None])[:, 0]
    sizes = [len(answer) + 1 for answer in answers]
    return [float(part.sum()) for part in torch.split(each, sizes)]


def test_log_probabilities_are_the_models_own() -> None:
    t5 = model(1)
    (found,) = generate_answers(
        t5, memory()[:5], LENGTHS[:1], GenerateOptions(SEPARATOR, 14), tries(PASSAGES[0])
    )
    expected = log_prob(t5, [answer.tokens for answer in found])
    assert [answer.log_prob for answer in found] == pytest.approx(expected, abs=1e-4)


def sequences(passages: list[list[int]], longest: int) -> list[list[tuple[int, ...]]]:
    """All lists of different spans that fit."""
    some, found = sorted(spans(passages)), []
    waiting: list[list[tuple[int, ...]]] = [[span] for span in some]
    while waiting:
        own = waiting.pop()
        if sum(len(span) + 1 for span in own) <= longest:
            found.append(own)
            waiting += [[*own, span] for span in some if span not in own]
    return found


@pytest.mark.parametrize("seed", range(4))
def test_a_beam_as_wide_as_all_sequences_finds_the_likeliest(seed: int) -> None:
    passages, t5 = [[3, 4], [5]], model(seed, 1.0)
    every = sequences(passages, 7)
    (found,) = generate_answers(
        t5, memory()[:5], LENGTHS[:1], GenerateOptions(SEPARATOR, 7, 200), tries(passages)
    )
    best = max(every, key=lambda answers: sum(log_prob(t5, answers)))
    assert [answer.tokens for answer in found] == best


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("seed", range(6))
def test_every_run_can_be_written(seed: int, width: int) -> None:
    passages = [[3, 9], [4], [5, 10, 11], [5, 10, 9, 3]]
    ways = GenerateOptions(SEPARATOR, 60, width, stop_penalty=1e6)
    (found,) = generate_answers(model(seed), memory()[:5], LENGTHS[:1], ways, tries(passages))
    assert {answer.tokens for answer in found} == spans(passages)
    assert len(found) == len(spans(passages))


def test_a_penalty_makes_more_answers() -> None:
    counts = [
        sum(map(len, generate_answers(model(2), memory(), LENGTHS, ways, tries(*PASSAGES))))
        for ways in (
            GenerateOptions(SEPARATOR, 30, stop_penalty=penalty) for penalty in (-50.0, 0.0, 50.0)
        )
    ]
    assert counts[0] == 3
    assert counts[0] <= counts[1] <= counts[2]
    assert counts[2] > counts[0]


def test_passages_without_tokens_have_no_answers() -> None:
    found = generate_answers(
        model(), memory()[:5], LENGTHS[:1], GenerateOptions(SEPARATOR, 9), tries([[]])
    )
    assert found == [[]]


@settings(max_examples=20)
@given(
    st.lists(st.lists(st.integers(3, 11), max_size=6), min_size=1, max_size=3), st.integers(1, 3)
)
def test_whatever_the_passages(passages: list[list[int]], width: int) -> None:
    ways = GenerateOptions(SEPARATOR, 12, width, stop_penalty=3.0)
    (found,) = generate_answers(model(), memory()[:5], LENGTHS[:1], ways, tries(passages))
    written = [answer.tokens for answer in found]
    assert set(written) <= spans(passages)
    assert all(isinstance(answer, GeneratedAnswer) and answer.log_prob <= 0 for answer in found)
