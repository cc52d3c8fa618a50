"""Long candidates, read in windows: where they begin and end, and what follows from them."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from math import log
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jpr.decode.answers import Evidence
from jpr.decode.search import Rows
from jpr.formats.replies import passages_json
from jpr.io.atomic import publish_folder
from jpr.read.spans import SpanReader
from jpr.rerank.decoding import Decoding
from jpr.rerank.joint import JointReranker, model_input
from jpr.rerank.prompt import Prompts, PromptSettings
from jpr.rerank.save import export_joint
from jpr.rerank.scorer import Scorer, rank_prior
from jpr.rerank.torch_scorer import TorchScorer
from jpr.rerank.windows import (
    MOST_OF_ALL,
    MOST_WINDOWS,
    Windows,
    limit_of_each,
    of_candidates,
    windows,
)
from jpr.types import Hit, Passage, Prefix, Question, Ranking
from tests.rerank.long_documents import ANSWERS, ASKED, DOCUMENTS, TOO_LONG, document
from tests.rerank.tiny import NAMES, QUESTION, WORDS, ranking, tokenizer, write_pointer, write_t5

SETTINGS = PromptSettings(max_question_tokens=8, max_title_tokens=8, max_tokens=48)
LONG_ANSWER = 16  # tokens


@cache
def bundled() -> JointReranker:
    return JointReranker.load(device="cpu", threads=1)


def of_texts(*texts: str, question: Question = QUESTION) -> Ranking:
    hits = (Hit(Passage(str(at), "", text), -float(at)) for at, text in enumerate(texts))
    return Ranking(question, tuple(hits))


def tiny(folder: Path, settings: PromptSettings = SETTINGS) -> JointReranker:
    scorer = TorchScorer.load(write_pointer(folder, answers=True), {}, "cpu")
    return JointReranker(scorer, Prompts(tokenizer(), settings), Decoding("seq"))


def test_windows_by_hand() -> None:
    words = np.zeros(300, dtype=np.bool_)
    assert windows(words[:120], 120, 16) == [(0, 120)]
    assert windows(words, 130, 16) == [(0, 130), (90, 220), (180, 300)]
    assert windows(words, 130, 2) == [(0, 130), (90, 220)]
    words[125:135] = True  # a word from 124 to 135 is not cut
    words[84:94] = True
    assert windows(words, 130, 16) == [(0, 124), (94, 224), (184, 300)]


@given(
    st.lists(st.integers(1, 60), max_size=60), st.integers(LONG_ANSWER * 3, 200), st.integers(1, 9)
)
def test_whatever_may_be_an_answer_lies_within_a_window(
    lengths: list[int], room: int, most: int
) -> None:
    continues = np.array([place > 0 for size in lengths for place in range(size)], dtype=np.bool_)
    found, size = windows(continues, room, most), len(continues)
    assert 1 <= len(found) <= most
    assert all(0 <= first <= last <= first + room for first, last in found)
    assert found == sorted(set(found))
    read = found[-1][1]
    assert read == size or len(found) == most
    covered = {at for first, last in found for at in range(first, last)}
    assert covered == set(range(read))
    bounds = {0, *np.cumsum(lengths).tolist()}
    overlap = min(40, room // 3)
    if all(length <= overlap - LONG_ANSWER for length in lengths):
        assert all(first in bounds for first, _ in found)
        assert all(last in bounds for _, last in found[:-1])
        for begin in range(max(read - LONG_ANSWER, 0)):
            assert any(first <= begin and begin + LONG_ANSWER <= last for first, last in found)


def test_many_long_candidates_have_fewer_windows_each() -> None:
    assert limit_of_each([]) == 1
    assert limit_of_each([1, 1, 16]) == 16
    assert limit_of_each([1] * (MOST_OF_ALL - 5) + [9]) == 5
    assert limit_of_each([16] * 100) == MOST_OF_ALL // 100
    assert limit_of_each([3] * (2 * MOST_OF_ALL)) == 1


def test_a_candidate_is_as_likely_as_its_best_window() -> None:
    three = Windows([0, 0, 1, 2, 2, 2])
    row = np.log([0.1, 0.2, 0.4, 0.05, 0.2, 0.05])
    assert three.best(row) == [1, 2, 4]
    np.testing.assert_allclose(np.exp(three.log_probs(row, ())), [0.25, 0.5, 0.25])
    np.testing.assert_allclose(np.exp(three.log_probs(row, (1,))), [0.5, 0.0, 0.5])
    assert three.log_probs(row, (0, 1, 2)).tolist() == [-np.inf] * 3


def test_a_candidate_contains_what_its_windows_contain() -> None:
    probs = np.array([[0.5, 0.0], [0.1, 0.7], [0.0, 0.2]], dtype=np.float32)
    found = Windows([0, 0, 1]).evidence(Evidence(((7,), (9,)), probs, probs > 0.4))
    assert found.probs.tolist() == [[0.5, probs[1, 1]], [0.0, probs[2, 1]]]
    assert found.contains.tolist() == [[True, True], [False, False]]
    nothing = Evidence((), np.zeros((3, 0), np.float32), np.zeros((3, 0), np.bool_))
    assert Windows([0, 0, 1]).evidence(nothing).contains.shape == (2, 0)


def test_a_chosen_candidate_is_its_likeliest_window_to_the_model() -> None:
    asked: list[tuple[int, Prefix]] = []

    def ask(pairs: Sequence[tuple[int, Prefix]]) -> Rows:
        asked.extend(pairs)
        return [np.log([0.1, 0.2, 0.7])] * len(pairs)

    found = of_candidates(ask, [Windows([0, 1, 2]), Windows([0, 0, 1])])
    whole, folded = found([(0, (1,)), (1, (0,))])
    assert asked == [(0, ()), (1, ()), (0, (1,)), (1, (1,))]
    np.testing.assert_allclose(np.exp(whole), [0.1, 0.2, 0.7])  # it has no windows
    np.testing.assert_allclose(np.exp(folded), [0.0, 1.0])


def test_every_window_has_the_question_and_the_title() -> None:
    prompts, text = Prompts(tokenizer(), SETTINGS), " ".join(NAMES * 12)
    passages = [Passage("a", "which", text), Passage("b", "", "red"), Passage("c", "red", "")]
    asked = prompts.build("colour ?", passages, range(3), MOST_WINDOWS)
    (long,) = Prompts(tokenizer(), PromptSettings()).build("colour ?", passages[:1], [0])
    of_first = [one for one in asked if one.candidate == 0]
    assert [one.candidate for one in asked] == [0] * len(of_first) + [1, 2]
    head = long.ids[:6]  # [CLS] colour ? [SEP] which .
    assert len(of_first) > 3
    for one in of_first:
        assert (one.ids[:6], one.ids[-1], one.tokens) == (head, long.ids[-1], len(long.ids))
        assert len(one.ids) <= SETTINGS.max_tokens
        assert (one.mark, one.text, one.is_cut) == (0, 4, False)
    places = windows(np.zeros(120, dtype=np.bool_), SETTINGS.max_tokens - 7, MOST_WINDOWS)
    read = [long.ids[6 + first : 6 + last] for first, last in places]
    assert [one.ids[6:-1] for one in of_first] == read
    prior = [0.0] * len(of_first) + [-log(2), -log(3)]  # by rank, not by window
    np.testing.assert_allclose(rank_prior(asked), prior, rtol=1e-6)


def test_a_context_is_read_but_is_no_part_of_the_passage() -> None:
    prompts, names = Prompts(tokenizer(), SETTINGS), {at: word for word, at in WORDS.items()}
    short = Passage("1", "red", "blue ?", context="green lime")
    for passage in (short, replace(short, text="blue " * 90)):
        for one in prompts.build("which ?", [passage], [0], MOST_WINDOWS):
            words = [names[token] for token in one.ids]
            assert " ".join(words[:9]) == "[CLS] which ? [SEP] red . green lime blue"
            assert [names[token] for token in one.passage] == words[8:-1]


def test_what_is_still_cut_is_known() -> None:
    prompts = Prompts(tokenizer(), SETTINGS)
    texts = ["red", "red " * 90, "red " * 2000, "red" + " " * 100_000 + "blue"]
    passages = [Passage(str(at), "", text) for at, text in enumerate(texts)]

    def cut(question: str, most: int, title: str = "") -> list[int]:
        titled = [*passages, Passage("t", title, "")]
        asked = prompts.build(question, titled, range(5), most)
        return sorted({one.candidate for one in asked if one.is_cut})

    assert cut("which ?", MOST_WINDOWS) == [2, 3]
    assert cut("which ?", 1) == [1, 2, 3]
    assert cut("which ?", MOST_WINDOWS, "red " * 8) == [2, 3]
    assert cut("which ?", MOST_WINDOWS, "red " * 9) == [2, 3, 4]
    assert cut("which " * 8, MOST_WINDOWS) == [2, 3]
    assert cut("which " * 9, MOST_WINDOWS) == [0, 1, 2, 3, 4]


def test_short_candidates_are_read_as_before_at_no_cost(tmp_path: Path) -> None:
    prompts = Prompts(tokenizer(), PromptSettings())
    assert model_input(prompts, 0, ranking(), MOST_WINDOWS) == model_input(prompts, 0, ranking())
    assert "_vocabulary" not in vars(prompts)

    def ask(_: Sequence[tuple[int, Prefix]]) -> Rows:
        return []

    one = Windows(range(10))
    assert of_candidates(ask, [one, one]) is ask
    row, found = np.zeros(10), Evidence((), np.zeros((10, 0), np.float32), np.ones((10, 0), bool))
    assert one.log_probs(row, ()) is row
    assert one.evidence(found) is found


@pytest.mark.parametrize("kind", ["torch", "onnx"])
def test_windows_count_as_if_they_were_candidates(tmp_path: Path, kind: str) -> None:
    """The row of a question with a long candidate follows from that of its parts."""
    made = write_pointer(tmp_path / "torch", answers=True)
    with publish_folder(tmp_path / "onnx") as folder:
        export_joint(made, folder, [])
    scorer: Scorer = JointReranker.load(tmp_path / kind, device="cpu", threads=1).scorer
    prompts = Prompts(tokenizer(), SETTINGS)
    texts = "red blue", " ".join(NAMES * 9), "green which"
    reranker = JointReranker(scorer, prompts, Decoding("seq"))
    asked = model_input(prompts, 0, of_texts(*texts), MOST_WINDOWS)
    n = len(asked)
    assert n > 4
    (row,) = scorer.open([asked]).ask([(0, ())])
    best = 1 + int(np.argmax(row[1 : n - 1]))
    expected = np.array([row[0], row[best], row[n - 1]])
    expected -= np.logaddexp.reduce(expected)
    encoded = reranker.encode([of_texts(*texts), of_texts("red"), of_texts()])
    np.testing.assert_allclose(encoded.relevance([(0, ())])[0], expected, atol=1e-5)
    (after,) = scorer.open([asked]).ask([(0, (best, 0))])
    assert np.isfinite(after[1 : n - 1]).any()  # to the model, other windows are left
    assert encoded.relevance([(0, (1, 0))])[0].tolist() == [-np.inf, -np.inf, 0.0]
    for decoder in ("seq", "tree", "beam", "independent"):
        replies = list(encoded.choose(Decoding(decoder), 3, explain=True))
        assert [len(reply.ranking.hits) for reply in replies] == [3, 1, 0]
        assert [reply.truncated for reply in replies] == [(), (), ()]


def test_a_budget_counts_all_tokens_of_a_long_candidate(tmp_path: Path) -> None:
    reranker, given = tiny(tmp_path), of_texts("red " * 90, "blue")
    costs = [6 + 90, 6 + 1]  # [CLS] which colour ? [SEP] … [SEP]
    for budget in (costs[0], costs[1], sum(costs), costs[0] - 1):
        reply = next(reranker.with_decoding(Decoding("seq", budget=budget)).decode_many([given], 9))
        ids = [int(hit.passage.id) for hit in reply.ranking.hits]
        assert ids
        assert sum(costs[at] for at in ids) <= budget
        assert len(ids) == (2 if budget == sum(costs) else 1)


def test_an_index_head_reads_the_first_window_and_says_so(tmp_path: Path) -> None:
    reranker = JointReranker.load(write_t5(tmp_path, "index"), device="cpu")
    names = [*NAMES, "which", "colour"]  # as many candidates as it has index tokens
    reply = next(reranker.decode_many([of_texts(*names[:-1], "colour " * 500)], 12))
    assert len(reply.ranking.hits) == 12
    assert reply.truncated == (11,)


def test_what_is_cut_is_reported(tmp_path: Path) -> None:
    reranker, given = tiny(tmp_path), of_texts("red", "blue " * 2000, "green " * 2000)
    reply = next(reranker.decode_many([given], 2))
    assert reply.truncated == (1, 2)
    shown = {each["id"]: each.get("truncated") for each in passages_json(reply)}
    assert shown == {
        hit.passage.id: None if hit.passage.id == "0" else True for hit in reply.ranking.hits
    }
    with pytest.warns(UserWarning, match="were cut"):
        reranker.rank(given.question, given.hits, 2)
    with pytest.warns(UserWarning, match="were cut"):
        SpanReader(reranker).read(given)
    reranker.rank(given.question, given.hits[:1], 2)  # a warning would be an error
    SpanReader(reranker).read(given.top(1))


def test_documents_with_answers_far_in_are_chosen() -> None:
    asked = of_texts(*DOCUMENTS, question=Question("1", ASKED))
    reply = next(bundled().decode_many([asked], 3))
    ids = {int(hit.passage.id) for hit in reply.ranking.hits}
    assert ids - {3} | {1} == ANSWERS.keys()  # 1 and 3 have the same answer
    answers = reply.answers[: len(ANSWERS)]
    assert {answer.text for answer in answers} == set(ANSWERS.values())
    for answer in answers:
        (support,) = answer.support
        (span,) = support.spans
        assert support.passage.text[slice(*span)] == answer.text
    assert reply.truncated == ()


def test_an_answer_at_a_cut_is_found() -> None:
    """Wherever the sentence is, one window has it as a whole."""
    sentence = "Ingrid Solheim was treasurer of the rowing club in 2019."
    texts = [document(220, sentence, at) for at in range(130, 190, 10)]
    asked = [
        of_texts(text, "The club has a boat.", question=Question("1", ASKED)) for text in texts
    ]
    for ranking_ in asked:
        answers = SpanReader(bundled()).read(ranking_)
        assert answers[0].text == "Ingrid Solheim"


def test_a_document_beyond_all_windows_is_cut() -> None:
    asked = of_texts(TOO_LONG, "Margaret Doyle was treasurer.", question=Question("1", ASKED))
    assert next(bundled().decode_many([asked], 2)).truncated == (0,)
