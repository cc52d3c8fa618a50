"""Questions, queries and corpora over HTTP."""

import json
from typing import Any

import httpx
import pytest

from jpr.errors import DataError
from jpr.formats.replies import reply_json
from jpr.pipeline import Pipeline
from jpr.serve.limits import ServiceLimits
from tests.serve.running import QUESTION, make_service, running


def post(url: str, body: dict[str, object]) -> dict[str, Any]:
    answer = httpx.post(url, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()  # type: ignore[no-any-return]


def as_json(value: object) -> object:
    return json.loads(json.dumps(value))


def counted(url: str, name: str) -> float:
    lines = httpx.get(f"{url}/metrics").text.splitlines()
    return next((float(line.split()[1]) for line in lines if line.startswith(f"{name} ")), 0)


def test_a_question_is_answered_as_by_the_pipeline(url: str, pipeline: Pipeline) -> None:
    opened = pipeline.open(QUESTION)
    assert post(f"{url}/v1/ask", {"question": QUESTION}) == as_json(reply_json(opened.reply()))
    asked = {"question": QUESTION, "beta": 0.5, "decode": "sets", "k": 2, "compare": True}
    found = post(f"{url}/v1/ask", asked)
    alone = opened.reply(decoder="independent", k=2)
    assert found == as_json(reply_json(opened.reply(beta=0.5, decoder="sets", k=2), alone))


def test_another_beta_encodes_nothing_again(pipeline: Pipeline) -> None:
    with running(pipeline) as url:
        post(f"{url}/v1/ask", {"question": QUESTION})
        read = counted(url, "jpr_tokens_total")
        trees = [post(f"{url}/v1/ask", {"question": QUESTION, "beta": b}) for b in (-4.0, 8.0)]
        assert counted(url, "jpr_tokens_total") == read > 0
        assert counted(url, "jpr_reused_total") == 2
        depths = [max(p["depth"] for p in one["passages"]) for one in trees]
        assert depths[0] > depths[1]  # deep, then wide
        post(f"{url}/v1/ask", {"question": f"{QUESTION} red"})
        assert counted(url, "jpr_tokens_total") > read


def test_search_gives_the_first_stage(url: str, pipeline: Pipeline) -> None:
    found = post(f"{url}/v1/search", {"query": "red", "k": 3})
    assert [hit["id"] for hit in found["hits"]] == ["red"]
    assert found["hits"][0]["text"] == "red which colour red"
    assert len(post(f"{url}/v1/search", {"query": "colour", "k": 3})["hits"]) == 3


def test_files_become_a_corpus_of_their_own(url: str) -> None:
    files = [
        ("files", ("a.txt", b"lime which colour lime")),
        ("files", ("b.md", b"# Gold\n\ngold is a colour")),
    ]
    made = httpx.post(f"{url}/v1/corpora", files=files)
    assert made.status_code == 201
    assert made.json()["passages"] == 2
    corpus = made.json()["corpus"]
    found = post(f"{url}/v1/ask", {"question": QUESTION, "corpus": corpus, "k": 2})
    assert {passage["id"] for passage in found["passages"]} == {"a.txt#1", "b.md#1"}
    hits = post(f"{url}/v1/search", {"query": "gold", "corpus": corpus})["hits"]
    assert [(hit["id"], hit["title"]) for hit in hits] == [("b.md#1", "Gold")]
    lost = httpx.post(f"{url}/v1/ask", json={"question": QUESTION, "corpus": "guessed"})
    assert lost.status_code == 404


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.exe", b"MZ", "a.exe"),
        ("../../a.jsonl", b"{", "a.jsonl"),
        ("empty.txt", b"", "empty.txt"),
        ("long.txt", b"red which colour. " * 400, "3 passages"),
    ],
)
def test_files_that_make_no_corpus(
    pipeline: Pipeline, name: str, content: bytes, message: str
) -> None:
    with running(pipeline, ServiceLimits(corpus_passages=3)) as url:
        answer = httpx.post(f"{url}/v1/corpora", files=[("files", (name, content))])
    assert answer.status_code == 422
    assert message in answer.json()["message"]


def test_a_file_that_cannot_be_read_is_reported_and_the_rest_is_a_corpus(url: str) -> None:
    header, rows = "bees " * 4000, "1\n" * 2000
    files = [
        ("files", ("exploding.csv", f"{header}\n{rows}".encode())),
        ("files", ("b.txt", b"\xff")),
        ("files", ("c.txt", b"lime which colour lime")),
    ]
    made = httpx.post(f"{url}/v1/corpora", files=files, timeout=30)
    assert made.status_code == 201
    assert made.json()["passages"] == 1
    first, second = made.json()["left_out"]
    assert first == "exploding.csv: is more than 2,000 passages; split it"
    assert second.startswith("b.txt: is not UTF-8")


def test_an_upload_has_a_time_limit_for_all_its_files(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = make_service(pipeline)
    monkeypatch.setattr("jpr.serve.uploads.SECONDS_PER_UPLOAD", 0)
    with pytest.raises(DataError, match="the files take more than 0 seconds to read"):
        service.corpora.add([("a.txt", b"red")])
    service.close()


def test_a_new_corpus_replaces_the_least_recently_used(pipeline: Pipeline) -> None:
    service = make_service(pipeline, ServiceLimits(corpora=2))
    text = ("a.txt", b"red")
    first, second = (service.corpora.add([text]) for _ in range(2))
    assert service.corpora.get(first.id) is first
    third = service.corpora.add([text])
    assert service.corpora.get(second.id) is None
    assert not second.folder.exists()
    assert {service.corpora.get(one.id) for one in (first, third)} == {first, third}
    service.close()
    assert not first.folder.exists()
