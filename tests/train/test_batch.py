import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from jpr.errors import ConfigError
from jpr.models.candidates import PackedCandidates
from jpr.rerank.prompt import Prompts, PromptSettings
from jpr.train.batch import BatchBuilder
from jpr.train.pack import TYPES, Pack
from jpr.train.packing import PackSettings, PackSource, make_pack
from jpr.train.sampler import CandidateBatch
from jpr.types import Hit, Passage, Question, Ranking
from tests.rerank.tiny import NAMES, NUMBER_TOKENS, WORDS, tokenizer

ANSWERS = (("red",), ("lime gold", "pink"), ("white", "white grey", "red blue"), ("gold",))


def text(chance: np.random.Generator, most: int) -> str:
    return " ".join(chance.choice([*NAMES, "unknown"], chance.integers(0, most)))


def invented() -> list[Ranking]:
    """Questions, titles and texts of all lengths, some of the last two empty."""
    chance = np.random.default_rng(0)
    passages = [Passage(str(i), text(chance, 12), f"{text(chance, 90)} gold") for i in range(30)]
    passages += [Passage("title only", "red lime", ""), Passage("text only", "", "blue . grey")]
    return [
        Ranking(
            Question(str(i), f"which {text(chance, 15)}", ANSWERS),
            tuple(Hit(passages[j], 0.0) for j in chance.permutation(len(passages))[:n]),
        )
        for i, n in enumerate([12, 0, 1, 7, 32])
    ]


RANKINGS = invented()


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Pack:
    folder = tmp_path_factory.mktemp("assemble")
    (folder / "tokenizer.json").write_text(tokenizer().to_str(), encoding="utf-8")
    source = PackSource("some", len(RANKINGS), lambda done: RANKINGS[done:])
    return make_pack([source], folder, folder / "pack", PackSettings(), inputs={})


@st.composite
def settings(draw: st.DrawFn) -> PromptSettings:
    style = draw(st.sampled_from(["bert", "t5"]))
    question, title = draw(st.integers(1, 20)), draw(st.integers(0, 12))
    whole = question + title + 16 + draw(st.integers(0, 120))
    numbers = draw(st.sampled_from([NUMBER_TOKENS, NUMBER_TOKENS[:1]])) if style == "t5" else ()
    return PromptSettings(style, question, title, whole, numbers)


def expected(
    prompts: Prompts, questions: list[int], chosen: list[list[int]], numbers: list[list[int]]
) -> list[tuple[list[int], int]]:
    found = []
    for question, ranks, of_question in zip(questions, chosen, numbers, strict=True):
        ranking = RANKINGS[question]
        passages = [ranking.hits[rank].passage for rank in ranks]
        found += prompts.build(ranking.question.text, passages, of_question[: len(ranks)])
    return [(prompted.ids, prompted.mark) for prompted in found]


def unpacked(made: PackedCandidates) -> list[tuple[list[int], int]]:
    texts = torch.split(made.ids, made.lengths.tolist())
    return [(ids.tolist(), mark) for ids, mark in zip(texts, made.marks.tolist(), strict=True)]


def batch(pack: Pack, data: st.DataObject) -> tuple[list[int], list[list[int]], torch.Tensor]:
    """Some questions, places of some of their candidates, and these counted through the pack."""
    questions = data.draw(st.lists(st.integers(0, len(RANKINGS) - 1), min_size=1, max_size=4))
    n = data.draw(st.integers(1, 9))
    ranks = []
    for question in questions:
        places = data.draw(st.permutations(range(len(RANKINGS[question].hits))))
        ranks.append(places[: data.draw(st.integers(0, n))])
    edges = torch.full((len(questions), n), -1)
    for row, (question, places) in enumerate(zip(questions, ranks, strict=True)):
        first = int(pack.candidate_starts[question])
        edges[row, : len(places)] = torch.tensor(places, dtype=torch.long) + first
    return questions, ranks, edges


def asked_for(questions: list[int], edges: torch.Tensor) -> CandidateBatch:
    none = np.zeros((*edges.shape, 1), dtype=np.uint8)
    return CandidateBatch(np.array(questions), edges.numpy(), none)


def parts(made: PackedCandidates) -> tuple[list[list[int]], list[int]]:
    """The tokens of each candidate, and where its passage begins."""
    split = torch.split(made.ids, made.lengths.tolist())
    return [ids.tolist() for ids in split], made.passage_starts.tolist()


def before(prompts: Prompts, made: PackedCandidates) -> list[list[int]]:
    """What stands before each passage: all to the first [SEP], or to "title:" after the number."""
    found = []
    for ids, mark in unpacked(made):
        if prompts.settings.style == "bert":
            found.append(ids[: ids.index(WORDS["[SEP]"]) + 1])
        else:
            found.append([*ids[: mark + 1], *prompts.words["title:"]])
    return found


@given(settings(), st.data())
def test_texts_are_those_of_the_prompt(
    pack: Pack, settings: PromptSettings, data: st.DataObject
) -> None:
    questions, ranks, edges = batch(pack, data)
    numbers = [data.draw(st.permutations(range(12)))[: edges.shape[1]] for _ in questions]
    prompts = Prompts(tokenizer(), settings)
    made = BatchBuilder(pack, prompts).build(asked_for(questions, edges), np.array(numbers))
    assert unpacked(made) == expected(prompts, questions, ranks, numbers)
    assert made.counts == tuple(map(len, ranks))
    assert made.index_ids.tolist() == [
        number
        for places, of_question in zip(ranks, numbers, strict=True)
        for number in of_question[: len(places)]
    ]
    assert [part[:at] for part, at in zip(*parts(made), strict=True)] == before(prompts, made)
    flat = [rank for places in ranks for rank in places]
    assert torch.allclose(made.prior, -torch.tensor(flat).float().log1p())


def every(words: list[str], aliases: tuple[str, ...]) -> list[tuple[int, int]]:
    """Where an answer is among words, and in how many."""
    reference, found, at = [alias.split() for alias in aliases], [], 0
    while at < len(words):
        here = max((len(one) for one in reference if words[at : at + len(one)] == one), default=0)
        found += [(at, here)] if here else []
        at += here or 1
    return found


def read(prompts: Prompts, passage: Passage, begin: int, end: int) -> list[tuple[int, int, int]]:
    """Each answer that is wholly between the passage's beginning and its end, first to last."""
    title, text = passage.title.split(), passage.text.split()
    kept = title[: prompts.settings.max_title_tokens]
    glue = prompts.words["context:" if prompts.settings.style == "t5" else "."]
    if prompts.settings.style == "bert" and not kept:
        glue = []
    found = []
    for answer, aliases in enumerate(ANSWERS):
        for field, at, last in (
            (title, begin, begin + len(kept)),
            (text, begin + len(kept) + len(glue), end),
        ):
            for offset, n in every(field, aliases):
                if at + offset + n <= min(last, end):
                    found.append((answer, at + offset, at + offset + n - 1))
    return found


@given(settings(), st.data())
def test_where_answers_are(pack: Pack, settings: PromptSettings, data: st.DataObject) -> None:
    questions, ranks, edges = batch(pack, data)
    prompts = Prompts(tokenizer(), settings)
    builder = BatchBuilder(pack, prompts)
    given = asked_for(questions, edges)
    candidates = builder.build(given, np.zeros_like(given.edges))
    made = builder.answer_spans(given)
    found = np.stack([made.candidates, made.answers, made.first, made.last], 1).tolist()
    passages = [
        RANKINGS[question].hits[rank].passage
        for question, places in zip(questions, ranks, strict=True)
        for rank in places
    ]
    reference, start = [], 0
    for i, (passage, length) in enumerate(zip(passages, candidates.lengths.tolist(), strict=True)):
        begin, end = start + int(candidates.passage_starts[i]), start + length - 1
        reference += [[i, *span] for span in read(prompts, passage, begin, end)]
        start += length
    assert found == reference
    names = {id: word for word, id in WORDS.items()}
    for _, answer, first, last in found:
        spelt = [names[id] for id in candidates.ids[first : last + 1].tolist()]
        assert " ".join(spelt) in ANSWERS[answer]


def test_a_pack_without_answers_has_no_spans(pack: Pack) -> None:
    none = {name: getattr(pack, name)[:0] for name in TYPES if name.startswith("span_")}
    builder = BatchBuilder(replace(pack, **none), Prompts(tokenizer(), PromptSettings()))
    made = builder.answer_spans(asked_for([0], torch.tensor([[0, 1, -1]])))
    assert len(made.candidates) == len(made.last) == 0


def test_what_answers_another_question_is_no_answer_here(pack: Pack) -> None:
    builder = BatchBuilder(pack, Prompts(tokenizer(), PromptSettings()))
    edges = torch.arange(12)[None]
    assert len(builder.answer_spans(asked_for([0], edges)).answers)
    assert not len(builder.answer_spans(asked_for([2], edges)).answers)
    prior = builder.build(asked_for([2], edges)).prior
    assert prior.tolist() == [pytest.approx(-math.log(2))] * 12  # after its only candidate


def test_what_the_model_cannot_read_is_refused(pack: Pack) -> None:
    longer = Prompts(tokenizer(), PromptSettings(max_tokens=400))
    with pytest.raises(ConfigError, match="cut at max_text = 384, the model reads 400"):
        BatchBuilder(pack, longer)
    other = tokenizer()
    other.add_tokens(["more"])
    with pytest.raises(ConfigError, match="another tokenizer than the model's"):
        BatchBuilder(pack, Prompts(other, PromptSettings()))
    few = Prompts(tokenizer(), PromptSettings("t5", number_tokens=NUMBER_TOKENS))
    builder = BatchBuilder(pack, few)
    given = asked_for([0], torch.tensor([[0, 1]]))
    with pytest.raises(ConfigError, match=r"candidate 12, .* 12 index tokens"):
        builder.build(given, np.array([[3, 12]]))
