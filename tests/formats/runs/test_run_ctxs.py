import json
from collections.abc import Callable
from pathlib import Path

import pytest

from jpr.errors import ConfigError, FormatError
from jpr.formats.runs import load_rankings, read_rankings
from jpr.types import Hit, Passage, Question, Ranking

Save = Callable[..., Path]


MOON = '{"id": "m1", "title": "Moon", "text": "It shines.", "score": "81.5", "has_answer": true}'
DPR = f'{{"question": "what shines", "answers": ["moon", "the moon"], "ctxs": [{MOON}]}}'
ENTITIES = '{"question": "q", "answers": [{"kb_id": "m.1", "text": "x"}], "passages": [%s]}'
LINE = '{{"id": {0}, "question": "q{0}", "ctxs": [{{"id": 1, "title": "T", "text": "x"}}]}}\n'


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (DPR + "\n", "run.jsonl"),
        (f"[{DPR}]", "run.json"),
        (json.dumps([json.loads(DPR)], indent=4), "run.json"),
        (DPR + "\n", "run.jsonl.gz"),
    ],
)
def test_dpr_output_is_read_with_its_flat_answers_as_one(save: Save, text: str, name: str) -> None:
    moon = Passage("m1", "Moon", "It shines.", {"has_answer": True})
    asked = Question("what shines", "what shines", (("moon", "the moon"),))
    assert load_rankings(save(text, name)) == [Ranking(asked, (Hit(moon, 81.5),))]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ('"id": 7', Question("7", "q")),
        ('"q_id": "a", "answers": []', Question("a", "q")),
        ('"question_id": "a", "target": "x"', Question("a", "q", (("x",),))),
        ('"answer": "x", "target": "y"', Question("q", "q", (("x",),))),
        ('"answers": ["x", 1950, null, " "]', Question("q", "q", (("x", "1950"),))),
        ('"answers": ["x", "y"], "target": "x"', Question("q", "q", (("x", "y"),))),
        ('"answers": [["x", "y"], ["z"]]', Question("q", "q", (("x", "y"), ("z",)))),
        (
            '"answers": [[["x"]], [["x"], ["z", null]]]',
            Question("q", "q", (("x",), ("z",)), ((("x",),), (("x",), ("z",)))),
        ),
        (
            '"answers": ["x", "z"], "annotations": [{"type": "multipleQAs", "qaPairs": '
            '[{"question": "?", "answer": ["x"]}, {"question": "?", "answer": ["z"]}]}]',
            Question("q", "q", (("x",), ("z",))),
        ),
        (
            '"annotations": [{"type": "singleAnswer", "answer": ["x", "y"]}, '
            '{"type": "singleAnswer", "answer": ["z"]}]',
            Question("q", "q", (("x", "y"), ("z",)), ((("x", "y"),), (("z",),))),
        ),
        (
            '"answers": [], "annotations": [[["x"], ["y"]], [["Y.", "z", " "]]]',
            Question("q", "q", (("x",), ("y", "Y.", "z")), ((("x",), ("y",)), (("Y.", "z"),))),
        ),
        (
            '"answers": [["x"], ["y"]], "annotations": [[["x"]], [["y"]], []]',
            Question("q", "q", (("x",), ("y",)), ((("x",),), (("y",),))),
        ),
    ],
)
def test_every_way_to_give_answers(save: Save, fields: str, expected: Question) -> None:
    path = save(f'{{"question": "q", {fields}, "ctxs": []}}')
    (ranking,) = load_rankings(path)
    assert (ranking.question, ranking.question.answers) == (expected, expected.answers)
    assert ranking.question.annotations == expected.annotations


@pytest.mark.parametrize(
    ("ctx", "hit"),
    [
        ('{"passage_id": 3, "text": "x", "score": 2}', Hit(Passage("3", "", "x"), 2.0)),
        ('{"docid": "d", "content": "x"}', Hit(Passage("d", "", "x"), -1.0)),
        ('{"id": "a", "docid": "b"}', Hit(Passage("a", "", "", {"docid": "b"}), -1.0)),
        ('{"id": "a", "title": null, "text": "x", "score": null}', Hit(Passage("a", "", "x"), -1)),
        (  # printf 'T\nx' | sha1sum
            '{"title": "T", "text": "x"}',
            Hit(Passage("30a2a83f93e99f89c0f81ddab8404e11f71e0580", "T", "x"), -1.0),
        ),
    ],
)
def test_every_spelling_of_a_passage(save: Save, ctx: str, hit: Hit) -> None:
    (ranking,) = load_rankings(save(f'{{"question": "q", "ctxs": [{ctx}]}}'))
    assert ranking.hits == (hit,)


def test_the_file_gives_the_order_and_scores_do_not(save: Save) -> None:
    path = save('{"question": "q", "ctxs": [{"id": "a", "score": 1}, {"id": "b", "score": 9}]}')
    assert [hit.passage.id for hit in load_rankings(path)[0].hits] == ["a", "b"]


def test_atlas_calls_the_passages_passages(save: Save) -> None:
    path = save('{"question": "q", "answers": ["a"], "passages": [{"id": "1", "text": "x"}]}')
    assert load_rankings(path)[0].hits == (Hit(Passage("1", "", "x"), -1.0),)


def test_ambigprompt_gives_ids_in_order(save: Save) -> None:
    path = save('[{"question": "q", "answers": [[["x"], ["z"]]], "passages": [22, 7]}]')
    assert load_rankings(path) == [
        Ranking(
            Question("q", "q", (("x",), ("z",))),
            (Hit(Passage("22", "", ""), -1.0), Hit(Passage("7", "", ""), -2.0)),
        )
    ]


def test_reading_is_lazy(save: Save) -> None:
    rankings = read_rankings(save(LINE.format(1) + "{broken\n"))
    assert next(rankings).question.id == "1"
    with pytest.raises(FormatError, match="run:2: not valid JSON"):
        next(rankings)


@pytest.mark.parametrize(
    ("record", "says"),
    [
        ("7", "a JSON object is expected"),
        ('{"question": "q", "passage": "x"}', "'ctxs' is missing"),
        ('{"question": "q", "ctxs": {"id": 1}}', "'ctxs' should be a list, not {'id': 1}"),
        ('{"question": null, "ctxs": []}', "'question' should be a string, not null"),
        ('{"id": 1.5, "question": "q", "ctxs": []}', "'id' should be .*, not 1.5"),
        ('{"question": "q", "answers": {}, "ctxs": []}', "an answer in 'answers' should be"),
        ('{"question": "q", "answers": [[[["x"]]]], "ctxs": []}', "an answer in 'answers' should"),
        ('{"question": "q", "answers": [[["x"]], ["y"]], "ctxs": []}', "each answer should be"),
        ('{"question": "q", "answers": ["x", ["y"]], "ctxs": []}', "'answers' mixes strings and"),
        ('{"question": "q", "answers": [{}], "ctxs": []}', "an answer in 'answers' should be"),
        ('{"question": "q", "annotations": {}, "ctxs": []}', "'annotations' should be a list"),
        ('{"question": "q", "annotations": [3], "ctxs": []}', "a JSON object is expected"),
        ('{"question": "q", "annotations": [{"type": "x"}], "ctxs": []}', "type 'x'"),
        ('{"question": "q", "target": true, "ctxs": []}', "an answer in 'target' should be a"),
        ('{"question": "q", "regex": 5, "ctxs": []}', "'regex' should be a string, not a whole"),
        ('{"question": "q", "ctxs": [{"id": 1}, "x"]}', "passage 2: a JSON object is expected"),
        ('{"question": "q", "ctxs": [{"id": 1}, {}]}', "passage 2: neither an id nor a text"),
        ('{"question": "q", "ctxs": [{"id": 1, "text": []}]}', "passage 1: 'text' should be"),
        ('{"question": "q", "ctxs": [{"id": true}]}', "passage 1: 'id' should be .*, not True"),
        ('{"question": "q", "ctxs": [{"id": 1, "score": "high"}]}', "finite number, not 'high'"),
        ('{"question": "q", "ctxs": [{"id": 1, "score": NaN}]}', "finite number, not nan"),
        ('{"question": "q", "ctxs": [{"id": 1, "score": "inf"}]}', "finite number, not 'inf'"),
        ('{"question": "q", "ctxs": [{"id": 1, "score": "1_0"}]}', "finite number, not '1_0'"),
        ('{"question": "q", "ctxs": [{"id": 1, "score": true}]}', "finite number, not True"),
        (f'{{"question": "q", "ctxs": [{{"id": 1, "score": 1{"0" * 400}}}]}}', "finite number"),
        (LINE.format(3), "id '3' was used before"),
        ('{"question": "q', "not valid JSON"),
        ("[]", "a JSON object is expected"),
        ("[" * 100_000, "not valid JSON: nested too deeply"),
        ("1" * 5_000, "not valid JSON: a number has too many digits"),
    ],
)
def test_a_broken_record_is_named_with_its_line(save: Save, record: str, says: str) -> None:
    text = "".join(LINE.format(number) for number in range(1, 7)) + record
    with pytest.raises(FormatError, match=f"run:7: .*{says}"):
        load_rankings(save(text))


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "run: the file is empty"),
        (" \n\n", "run: the file is empty"),
        ("[]", "this command reads"),
        (f"[{DPR}]\n[{DPR}]", "run:1: there is more text after the end of the array"),
        (LINE.format(1).encode() + b'{"question": "caf\xe9"}\n', "run:2: byte 0xe9 is not UTF-8"),
        ('{"id": "1", "question": "q", "answers": [["x"]]}\n', "this command reads"),
        ('{"question": "q", "answer": ["x"]}\n', "this command reads"),
        ('{"id": "1", "title": "T", "text": "x"}\n', "this command reads"),
        ('{"query": "q", "passages": [{"passage_text": "x"}]}\n', "this command reads"),
        (ENTITIES % '{"document_id": 3, "text": "x"}', "this command reads"),
        (ENTITIES % "3", "this command reads"),
        ("id\ttext\ttitle\n1\tx y z\tT\n", "this command reads"),
        ("1\tOne two 3 4.5 six\n", "this command reads"),
        ("what is it\t['a b', 'c']\n", "this command reads"),
        ("q1 0 d1 1\n", "this command reads"),
    ],
)
def test_other_files_are_no_runs(save: Save, content: str | bytes, says: str) -> None:
    with pytest.raises(FormatError, match=says):
        load_rankings(save(content))


def test_an_unknown_format_lists_the_known(save: Save) -> None:
    with pytest.raises(ConfigError, match=r"known: ctxs, .*trec"):
        load_rankings(save("x"), format="fid")
