"""Documents longer than the bundled model reads at once, over HTTP."""

import httpx

from jpr.pipeline import Pipeline
from jpr.read.spans import SpanReader
from jpr.rerank.joint import JointReranker
from jpr.retrieve.custom import FunctionRetriever
from tests.rerank.long_documents import ANSWERS, ASKED, DOCUMENTS, TOO_LONG
from tests.serve.running import HITS, running


def test_answers_far_into_long_documents_are_found() -> None:
    joint = JointReranker.load(device="cpu", threads=1)
    retriever = FunctionRetriever(lambda _, k: HITS[:k])
    asked = {"query": ASKED, "relevant_spans": {"mode": "enabled", "threshold": 0.0}}
    with running(Pipeline(retriever, joint, SpanReader(joint), 5, 10)) as url:
        for path in ("v1/rerank", "v2/rerank"):
            body = asked | {"documents": [*DOCUMENTS, TOO_LONG]}
            answer = httpx.post(f"{url}/{path}", json=body, timeout=60)
            assert answer.status_code == 200, answer.text
            results = {one["index"]: one for one in answer.json()["results"]}
            assert set(list(results)[:3]) - {3} | {1} == ANSWERS.keys()  # 3 is like 1
            cut = [at for at, one in results.items() if one["truncated"]]
            assert cut == [len(DOCUMENTS)]
            for at in (4, 5):
                first = results[at]["relevant_spans"][0]
                assert DOCUMENTS[at][first["start"] : first["end"]] == ANSWERS[at]
            assert answer.json()["usage"]["total_tokens"] > 4000
        body = {"query": f"{ASKED} " * 10, "documents": ["Margaret Doyle was treasurer."]}
        (only,) = httpx.post(f"{url}/v1/rerank", json=body).json()["results"]
        assert only["truncated"]  # the query has more than 64 tokens
