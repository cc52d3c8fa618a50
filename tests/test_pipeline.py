"""The path of a question: answers, passages and the search, from one pass over the candidates."""

import asyncio
import json
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from math import exp

import pytest

from jpr import DataError, FunctionRetriever, JointReranker, Pipeline, SpanReader
from jpr.errors import ConfigError
from jpr.formats.replies import answers_json, passages_json, reply_json
from jpr.io.atomic import publish_folder
from jpr.rerank.order import FirstStageOrder
from jpr.rerank.save import export_joint
from jpr.text import normalize_answer
from jpr.types import DECODERS, TREES, Answer, Hit, Passage, Question, Ranking, Reply
from tests.rerank.tiny import NAMES, hits, write_pointer

QUESTION = "which colour ?"


def find(text: str, k: int) -> list[Hit]:
    """Passages for any question but one."""
    doubled = [Hit(replace(hit.passage, id=f"{hit.passage.id}+"), 0.1) for hit in hits(NAMES[:3])]
    return [] if text == "none" else [*hits(NAMES), *doubled]


@pytest.fixture(scope="module", params=["torch", "onnx"])
def joint(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> JointReranker:
    home = tmp_path_factory.mktemp(request.param)
    made = write_pointer(home / "torch", answers=True)
    if request.param == "onnx":
        with publish_folder(home / "onnx") as folder:
            export_joint(made, folder, [])
    return JointReranker.load(home / request.param, "seq", device="cpu")


@pytest.fixture(scope="module")
def pipeline(joint: JointReranker) -> Pipeline:
    return Pipeline(FunctionRetriever(find), joint, SpanReader(joint, 1e-3), 4, 20)


def check(reply: Reply) -> None:
    """What holds of any reply."""
    shown = json.loads(json.dumps(reply_json(reply), allow_nan=False))
    assert list(shown) == ["question", "answers", "passages", "tree"]
    ids = [passage["id"] for passage in shown["passages"]]
    assert ids == [hit.passage.id for hit in reply.ranking.hits]
    for answer in shown["answers"]:
        assert list(answer) == ["text", "score", "passages"]
        assert answer["passages"]
        assert set(answer["passages"]) <= set(ids)
    seen: set[str] = set()
    for passage in shown["passages"]:
        assert list(passage)[:7] == ["id", "title", "text", "score", "depth", "spans", "adds"]
        own = {a["text"] for a in shown["answers"] if passage["id"] in a["passages"]}
        assert set(passage["adds"]) == own - seen
        seen |= own
        for span in passage["spans"]:
            written = passage["text"][span["start"] : span["end"]]
            answer = shown["answers"][span["answer"]]
            assert normalize_answer(written) == normalize_answer(answer["text"])
    assert seen == {answer["text"] for answer in shown["answers"]}
    check_tree(shown)


def check_tree(shown: dict[str, object]) -> None:
    tree, passages = shown["tree"], shown["passages"]
    assert isinstance(tree, dict)
    assert isinstance(passages, list)
    grown: list[list[str]] = [[]]
    depths: dict[str, int] = {}
    for node in tree["nodes"]:
        assert node["prefix"] in grown
        assert node["depth"] == len(node["prefix"]) + 1
        grown.append([*node["prefix"], node["passage"]])
        if node["is_new"]:
            depths[node["passage"]] = node["depth"]
        named = [node["passage"], *(other["passage"] for other in node["instead_of"])]
        assert set(named) <= set(tree["titles"])
    assert depths == {passage["id"]: passage["depth"] for passage in passages}


def test_a_reply_has_answers_passages_and_the_search(pipeline: Pipeline) -> None:
    reply = pipeline.ask(QUESTION)
    assert (reply.question, reply.decoder, reply.beta) == (QUESTION, "seq", None)
    assert [len(node.prefix) for node in reply.nodes] == [0, 1, 2, 3]
    assert all(node.worth <= 1e-6 for node in reply.nodes)
    scores = [answer["score"] for answer in answers_json(reply)]
    assert scores == [round(exp(answer.log_prob), 4) for answer in reply.answers]
    check(reply)


@pytest.mark.parametrize("decoder", DECODERS)
def test_what_was_read_once_is_decoded_as_if_it_were_read_again(
    pipeline: Pipeline, decoder: str
) -> None:
    opened = pipeline.open(QUESTION)
    pipeline.ask("another ?")  # the model reads something else meanwhile
    for beta in (None, -1.0, 3.0) if decoder in TREES else (None,):
        for k in (1, 5):
            again = opened.reply(decoder=decoder, beta=beta, k=k)
            fresh = pipeline.ask(QUESTION, decoder=decoder, beta=beta, k=k)
            assert [hit.passage.id for hit in again.ranking.hits] == [
                hit.passage.id for hit in fresh.ranking.hits
            ]
            assert [a.text for a in again.answers] == [a.text for a in fresh.answers]
            assert len(again.ranking.hits) == k
            assert again.decoder == decoder
            check(again)


def test_beta_alone_asks_for_a_tree(pipeline: Pipeline) -> None:
    tree = pipeline.ask(QUESTION, beta=0.5)
    assert (tree.decoder, tree.beta) == ("tree", 0.5)
    wide, deep = (pipeline.ask(QUESTION, beta=beta).depths for beta in (30.0, -30.0))
    assert max(wide) < max(deep)


def test_threads_may_share_a_question(pipeline: Pipeline) -> None:
    opened = pipeline.open(QUESTION)
    betas = [float(beta) for beta in range(-4, 5)] * 3
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda beta: opened.reply(beta=beta), betas))
    for beta, reply in zip(betas, found, strict=True):
        alone = opened.reply(beta=beta)
        assert [h.passage.id for h in reply.ranking.hits] == [
            h.passage.id for h in alone.ranking.hits
        ]


def test_many_questions_are_answered_as_each_alone(pipeline: Pipeline) -> None:
    asked = [Question(str(n), text) for n, text in enumerate((QUESTION, "none", "which red ?"))]
    for question, reply in zip(asked, pipeline.ask_many(asked), strict=True):
        alone = pipeline.ask(question.text)
        assert reply.ranking.question == question
        assert [a.text for a in reply.answers] == [a.text for a in alone.answers]
        assert reply.new_answers == alone.new_answers
        check(reply)


def test_a_question_without_passages_has_no_answers(pipeline: Pipeline) -> None:
    reply = pipeline.ask("none")
    assert (reply.answers, reply.ranking.hits, reply.new_answers, reply.nodes) == ((), (), (), ())
    check(reply)


def test_a_question_is_answered_in_a_thread(pipeline: Pipeline) -> None:
    reply = asyncio.run(asyncio.to_thread(pipeline.ask, QUESTION, k=2))
    assert [a.text for a in reply.answers] == [a.text for a in pipeline.ask(QUESTION, k=2).answers]


def test_what_has_no_meaning_is_reported(pipeline: Pipeline) -> None:
    for question in ("", " \n"):
        with pytest.raises(DataError, match="has no text"):
            pipeline.ask(question)
        with pytest.raises(DataError, match="has no text"):
            list(pipeline.ask_many([Question("1", question)]))
    with pytest.raises(ConfigError, match="k = 0"):
        pipeline.ask(QUESTION, k=0)
    with pytest.raises(ConfigError, match="tree, sets"):
        pipeline.ask(QUESTION, decoder="bush")
    with pytest.raises(ConfigError, match="tree and sets"):
        pipeline.ask(QUESTION, decoder="seq", beta=1.0)
    with pytest.raises(ConfigError, match="finite"):
        pipeline.ask(QUESTION, beta=float("nan"))


class FirstWord:
    """A reader that takes the first word of every passage for an answer."""

    def read(self, ranking: Ranking) -> tuple[Answer, ...]:
        return tuple(Answer(h.passage.text.split()[0], -1.0) for h in ranking.hits)

    def read_many(self, rankings: Iterable[Ranking]) -> Iterator[tuple[Answer, ...]]:
        return map(self.read, rankings)


def test_other_rerankers_and_readers_reply_too(joint: JointReranker) -> None:
    first = Pipeline(FunctionRetriever(find), FirstStageOrder(), FirstWord(), 2, 20)
    assert [answer.text for answer in first.ask(QUESTION).answers] == NAMES[:2]
    ((reply,), (empty,)) = (list(first.ask_many([Question("1", t)])) for t in ("all", "none"))
    assert (reply.decoder, reply.depths, empty.answers) == ("", (1, 1), ())
    assert reply_json(reply)["tree"] == {"decoder": "", "beta": None, "nodes": [], "titles": {}}
    with pytest.raises(ConfigError, match="are for a joint model"):
        first.ask(QUESTION, beta=1.0)
    mixed = Pipeline(FunctionRetriever(find), joint, FirstWord(), 2, 20)
    shown = mixed.ask(QUESTION)
    assert [answer.text for answer in shown.answers] == [
        hit.passage.id.rstrip("+") for hit in shown.ranking.hits
    ]
    assert len(shown.nodes) == 2


def test_what_is_known_of_a_passage_is_in_the_reply(joint: JointReranker) -> None:
    passage = Passage("report.pdf#3", "report", "red which red", {"file": "report.pdf", "page": 2})
    found = FunctionRetriever(lambda *_: [Hit(passage, 1.0)])
    reply = Pipeline(found, joint, SpanReader(joint), 1, 1).ask(QUESTION)
    (shown,) = passages_json(reply)
    assert shown["meta"] == {"file": "report.pdf", "page": 2}
