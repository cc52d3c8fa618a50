"""Samples of the formats that are one JSON document."""

import json

from jpr.types import Question

from .sample import Sample, lines

ROPE = {"question": "Who made the rope bridge?", "short_answers": ["Ada Quill", "A. Quill"]}
MOAT = {"question": "Who made the moat bridge?", "short_answers": ["Bo Reed"]}
BRIDGE = {
    "ambiguous_question": "Who made the bridge?",
    "qa_pairs": [ROPE, MOAT],
    "wikipages": [],
    "annotations": [{"long_answer": "Two people did.", "knowledge": []}],
}
BRIDGE_ANSWERS = (("Ada Quill", "A. Quill"), ("Bo Reed",))

DOCUMENT_SAMPLES = [
    Sample(
        "ambignq",
        "train_light.json",
        json.dumps(
            [
                {
                    "id": "-1",
                    "question": "When did it open?",
                    "annotations": [{"type": "singleAnswer", "answer": ["1901", "in 1901"]}],
                },
                {
                    "id": "-2",
                    "question": "Who made the bridge?",
                    "annotations": [
                        {
                            "type": "multipleQAs",
                            "qaPairs": [
                                {"question": "The rope bridge?", "answer": ["Ada Quill"]},
                                {"question": "The moat bridge?", "answer": ["Bo Reed"]},
                            ],
                        }
                    ],
                },
            ]
        ),
        (
            Question("-1", "When did it open?", (("1901", "in 1901"),)),
            Question("-2", "Who made the bridge?", (("Ada Quill",), ("Bo Reed",))),
        ),
    ),
    Sample(
        "ambignq",
        "dev.json",
        json.dumps(
            [
                {
                    "viewed_doc_titles": ["Bridge"],
                    "used_queries": [{"query": "bridge", "results": []}],
                    "annotations": [{"type": "singleAnswer", "answer": ["1901"]}],
                    "nq_answer": ["1902"],
                    "nq_doc_title": "Bridge",
                    "id": "5",
                    "question": "When did it open?",
                }
            ],
            indent=2,
        ),
        (Question("5", "When did it open?", (("1901",),)),),
    ),
    Sample(
        "webqsp",
        "WebQSP.test.json",
        json.dumps(
            {
                "Version": "1.0",
                "FreebaseVersion": "2015-08-09",
                "Questions": [
                    {
                        "QuestionId": "WebQTest-0",
                        "RawQuestion": "who made the bridge?",
                        "ProcessedQuestion": "who made the bridge",
                        "Parses": [
                            {
                                "ParseId": "WebQTest-0.P0",
                                "AnnotatorComment": {"ParseQuality": "Complete"},
                                "Answers": [
                                    {
                                        "AnswerType": "Entity",
                                        "AnswerArgument": "m.01",
                                        "EntityName": "Ada Quill",
                                    },
                                    {
                                        "AnswerType": "Value",
                                        "AnswerArgument": "1901",
                                        "EntityName": None,
                                    },
                                ],
                            }
                        ],
                    }
                ],
            },
            indent=1,
        ),
        (Question("WebQTest-0", "who made the bridge?", (("Ada Quill",), ("1901",))),),
    ),
    Sample(
        "qald",
        "qald-9-test.json",
        json.dumps(
            {
                "dataset": {"id": "qald-9-test-multilingual"},
                "questions": [
                    {
                        "id": "99",
                        "answertype": "resource",
                        "question": [
                            {"language": "de", "string": "Wer baute sie?", "keywords": ""},
                            {"language": "en", "string": "Who made it?", "keywords": ""},
                        ],
                        "query": {"sparql": "SELECT ?uri WHERE { }"},
                        "answers": [
                            {
                                "head": {"vars": ["uri"]},
                                "results": {
                                    "bindings": [
                                        {
                                            "uri": {
                                                "type": "uri",
                                                "value": "http://dbpedia.org/resource/Ada_(maker)",
                                            }
                                        },
                                        {"uri": {"type": "literal", "value": "1901"}},
                                    ]
                                },
                            }
                        ],
                    },
                    {
                        "id": 100,
                        "question": [{"language": "en", "string": "Is it a bridge?"}],
                        "answers": [{"head": {}, "boolean": False}],
                    },
                ],
            }
        ),
        (
            Question("99", "Who made it?", (("Ada (maker)", "Ada"), ("1901",))),
            Question("100", "Is it a bridge?", (("no",),)),
        ),
    ),
    Sample(
        "asqa",
        "asqa_dev.json",
        json.dumps({"dev": {"-7": BRIDGE}}),
        (Question("-7", "Who made the bridge?", BRIDGE_ANSWERS),),
    ),
    Sample(
        "asqa",
        "asqa_dev.jsonl",
        lines({**BRIDGE, "sample_id": "-7"}),
        (Question("-7", "Who made the bridge?", BRIDGE_ANSWERS),),
    ),
    Sample(
        "multispanqa",
        "valid.json",
        json.dumps(
            {
                "version": 1.0,
                "data": [
                    {
                        "id": "m1",
                        "question": ["who", "made", "it"],
                        "context": ["Ada", "Quill", "and", "Bo", ",", "not", "ada", "Quill"],
                        "num_span": 2,
                        "label": ["B", "I", "O", "B", "O", "O", "B", "I"],
                    }
                ],
            }
        ),
        (Question("m1", "who made it", (("Ada Quill", "ada Quill"), ("Bo",))),),
    ),
]
