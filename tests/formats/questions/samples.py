"""A small file of every question format, written for these tests, and files of other kinds."""

import json

from .document_samples import DOCUMENT_SAMPLES
from .line_samples import LINE_SAMPLES
from .sample import lines

SAMPLES = [*LINE_SAMPLES, *DOCUMENT_SAMPLES]

NOT_QUESTIONS = {
    "passages.jsonl": lines({"id": "1", "contents": "Bridge\nIs it one?"}),
    "beir.jsonl": lines({"_id": "1", "title": "Bridge", "text": "Is it one?"}),
    "psgs_w100.tsv": "id\ttext\ttitle\n1\tIt is long.\tBridge\n",
    "passages.tsv": "1\tIt is a long bridge.\tIs it one?\tsource\n",
    "collection.tsv": "0\tIs it a bridge?\n",
    "run.trec": "q1 Q0 d1 1 9.5 bm25\n",
    "run.tsv": "q1\td1\t1\n",
    "qrels.tsv": "q1\t0\td1\t1\n",
    "fid.json": json.dumps(
        [{"id": "1", "question": "who?", "answers": ["Ada"], "ctxs": [{"id": "1"}]}]
    ),
    "nested_ctxs.jsonl": lines({"id": "1", "question": "q", "answers": [["Ada"]], "ctxs": []}),
    "annotated_ctxs.json": lines(
        {"id": "1", "question": "q", "annotations": [], "answers": [], "ctxs": []}
    ),
    "pyserini.json": json.dumps({"0": {"question": "who?", "answers": ["Ada"], "contexts": []}}),
    "biencoder.json": json.dumps(
        [{"question": "who?", "answers": ["Ada"], "positive_ctxs": [], "negative_ctxs": []}]
    ),
    "rank_llm.jsonl": lines({"query": {"text": "who?", "qid": "1"}, "candidates": []}),
    "predictions.json": json.dumps({"-7": ["Ada", "Bo"]}),
    "squad.json": json.dumps({"version": "1.1", "data": [{"title": "T", "paragraphs": []}]}),
    "prose.txt": "Who made the bridge?\nNobody knows.\n",
    "numbers.json": "[1, 2]",
}
