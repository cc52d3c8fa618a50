"""Samples of the formats with a question per line."""

import json

from jpr.types import Question

from .sample import Sample, lines

LINE_SAMPLES = [
    Sample(
        "jpr",
        "own.jsonl",
        lines(
            {"id": "a", "question": "Who made it?", "answers": [["Ada", "A."], ["Bo"]], "x": 1},
            {"id": 7, "question": "How tall?", "answers": [], "regex": r"\d+ feet"},
        ),
        (
            Question("a", "Who made it?", (("Ada", "A."), ("Bo",))),
            Question("7", "How tall?", regex=r"\d+ feet"),
        ),
    ),
    Sample(
        "webqsp-simple",
        "webqsp_graftnet.json",
        lines(
            {
                "id": "WebQTest-0",
                "question": "who made the bridge",
                "entities": [{"kb_id": "<fb:m.09>", "text": "bridge"}],
                "answers": [
                    {"kb_id": "<fb:m.01>", "text": "Ada Quill"},
                    {"kb_id": "1901-05", "text": None},
                    {"kb_id": "<fb:m.02>", "text": None},
                ],
                "passages": [{"document_id": 3, "retrieval_score": 0.5, "text": "Ada made it."}],
                "subgraph": {"entities": [], "tuples": []},
            }
        ),
        (Question("WebQTest-0", "who made the bridge", (("Ada Quill",), ("1901-05",))),),
    ),
    Sample(
        "webqsp-simple",
        "webqsp_unanswered.json",
        lines({"id": "1", "question": "who?", "entities": [4], "answers": []}),
        (Question("1", "who?"),),
    ),
    Sample(
        "webqsp-simple",
        "webqsp_rog.jsonl",
        lines(
            {
                "id": "WebQTrn-0",
                "question": "who made the bridge",
                "answer": ["Ada Quill", "Bo Reed"],
                "q_entity": ["Bridge"],
                "a_entity": ["Ada Quill", "Bo Reed"],
                "graph": [["Bridge", "made_by", "Ada Quill"]],
            }
        ),
        (Question("WebQTrn-0", "who made the bridge", (("Ada Quill",), ("Bo Reed",))),),
    ),
    Sample(
        "curatedtrec",
        "two-columns.tsv",
        "How tall is the mast?\t\\b90\\s?f(ee|oo)?t\nWho made it\t[AO]da|Bo\n",
        (
            Question("0", "How tall is the mast?", regex=r"\b90\s?f(ee|oo)?t"),
            Question("1", "Who made it", regex="[AO]da|Bo"),
        ),
    ),
    Sample(
        "curatedtrec",
        "curated-train.tsv",
        "2047\tfactoid\tHow tall is the mast?\t90 (feet|ft)\n",
        (Question("2047", "How tall is the mast?", regex="90 (feet|ft)"),),
    ),
    Sample(
        "curatedtrec",
        "curatedtrec-test.qa.csv",
        "How tall is the mast?\t[\"90\\\\s?feet\"]\nWho?\t'Ada'\nWho?\t['Bo\\\\b', 'Cy']\n",
        (
            Question("0", "How tall is the mast?", regex=r"90\s?feet"),
            Question("1", "Who?", regex="'Ada'"),
            Question("2", "Who?", regex=r"Bo\b|Cy"),
        ),
    ),
    Sample(
        "curatedtrec",
        "CuratedTrec-train.txt",
        lines({"question": "How tall is the mast?", "answer": [r"90\s?feet"]}),
        (Question("0", "How tall is the mast?", regex=r"90\s?feet"),),
    ),
    Sample(
        "nq-open",
        "NQ-open.dev.jsonl",
        lines(
            {"question": "when did it open", "answer": ["1901", "May 1901"]},
            {"question": "who made it", "answer": "Ada"},
        ),
        (
            Question("0", "when did it open", (("1901", "May 1901"),)),
            Question("1", "who made it", (("Ada",),)),
        ),
    ),
    Sample(
        "nq-open",
        "nqopen-train.json",
        json.dumps([{"id": "-9", "question": "when did it open", "answer": ["1901"]}]),
        (Question("-9", "when did it open", (("1901",),)),),
    ),
    Sample(
        "nq-open",
        "flashrag.jsonl",
        lines({"id": "t_0", "question": "when?", "golden_answers": ["1901", "'01"]}),
        (Question("t_0", "when?", (("1901", "'01"),)),),
    ),
    Sample(
        "nq-open",
        "nested.jsonl",
        lines({"question": "who made it", "answers": [["Ada", "A."], ["Bo"]]}),
        (Question("0", "who made it", (("Ada", "A."), ("Bo",))),),
    ),
    Sample(
        "dpr-csv",
        "nq-test.qas.csv",
        "who made it\t['Ada Quill', \"A. Q'uill\"]\n"
        '"who said ""go"""\t"[""Bo"", \'Reed\']"\n'
        "\"unclosed\t['Cy']\n",
        (
            Question("0", "who made it", (("Ada Quill", "A. Q'uill"),)),
            Question("1", 'who said "go"', (("Bo", "Reed"),)),
            Question("2", '"unclosed', (("Cy",),)),
        ),
    ),
    Sample(
        "qampari",
        "dev_data.jsonl",
        lines(
            {
                "qid": "3__wikidata_simple__dev",
                "question_text": "Which bridges did Ada Quill make?",
                "answer_list": [
                    {"aid": "0", "answer_text": "Rope", "aliases": ["Rope", "Rope Bridge"]},
                    {"aid": "1", "answer_text": "Moat", "aliases": []},
                ],
                "entities": [],
            }
        ),
        (
            Question(
                "3__wikidata_simple__dev",
                "Which bridges did Ada Quill make?",
                (("Rope", "Rope Bridge"), ("Moat",)),
            ),
        ),
    ),
    Sample(
        "ramdocs",
        "RAMDocs_test.jsonl",
        lines(
            {
                "question": "When was Quill born?",
                "documents": [{"text": "Born 1870.", "type": "correct", "answer": "1870"}],
                "disambig_entity": ["Ada Quill", "Bo Quill"],
                "gold_answers": ["1870", "1912"],
                "wrong_answers": ["1900"],
            }
        ),
        (Question("0", "When was Quill born?", (("1870",), ("1912",))),),
    ),
    Sample(
        "kilt",
        "nq-dev-kilt.jsonl",
        lines(
            {
                "id": "k1",
                "input": "who made it",
                "output": [
                    {"answer": "Ada Quill", "provenance": [{"wikipedia_id": "3"}]},
                    {"provenance": [{"wikipedia_id": "3"}]},
                    {"answer": "A. Quill"},
                ],
            },
            {"id": "k2", "input": "a test question"},
        ),
        (
            Question("k1", "who made it", (("Ada Quill", "A. Quill"),)),
            Question("k2", "a test question"),
        ),
    ),
]
