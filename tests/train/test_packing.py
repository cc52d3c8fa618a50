import filecmp
import shutil
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

import jpr.train.packing
from jpr.coverage import cover
from jpr.errors import ConfigError, DataError
from jpr.train.columns import open_columns
from jpr.train.pack import Pack
from jpr.train.packing import PackSettings, PackSource, make_pack
from jpr.types import Hit, Passage, Question, Ranking
from tests.rerank.tiny import WORDS, tokenizer

COLOURS = Question("c", "which colour ?", (("red",), ("blue", "green"), ("pink",)))
COUNT = Question("n", "which title", (("2",), ("gold",)))
RED = Passage("1", "red", "black white red")
BOTH = Passage("2", "", "blue black red 2")
NONE = Passage("3", "title", "grey")
RANKINGS = [
    Ranking(COLOURS, (Hit(RED, 2.5), Hit(NONE, 1.0), Hit(BOTH, -3.0))),
    Ranking(COUNT, (Hit(BOTH, 1e9), Hit(RED, 0.5))),
]


@pytest.fixture
def words(tmp_path: Path) -> Path:
    path = tmp_path / "tokenizer.json"
    path.write_text(tokenizer().to_str(), encoding="utf-8")
    return path


def source(rankings: list[Ranking], name: str = "some") -> PackSource:
    return PackSource(name, len(rankings), lambda done: rankings[done:])


def packed(
    rankings: list[Ranking], words: Path, settings: PackSettings | None = None, name: str = "pack"
) -> Pack:
    out = words.parent / name
    return make_pack([source(rankings)], words, out, settings or PackSettings(), inputs={"a": "b"})


def text_of(pack: Pack, row: int) -> tuple[list[str], list[str]]:
    """The words of a passage's title and text."""
    names = {i: word for word, i in WORDS.items()}
    flat = np.concatenate(pack.passage_tokens)[pack.passage_starts[row] :]
    ids = flat[: pack.passage_starts[row + 1] - pack.passage_starts[row]].tolist()
    found = [names[i] for i in ids]
    return found[: pack.title_lengths[row]], found[pack.title_lengths[row] :]


def spans(pack: Pack) -> list[tuple[int, int, int]]:
    """What is covered, with the offset and the length of each occurrence."""
    columns = pack.span_covers, pack.span_offsets, pack.span_lengths
    return list(zip(*(column.tolist() for column in columns), strict=True))


def test_a_pack_by_hand(words: Path) -> None:
    pack = packed(RANKINGS, words)
    assert pack.question_ids == ("c", "n")
    assert pack.question_starts.tolist() == [0, 3, 5]
    assert pack.question_tokens.tolist()[3:] == [WORDS["which"], WORDS["title"]]
    assert pack.candidates.tolist() == [0, 1, 2, 2, 0]  # a passage has one row, whoever found it
    assert pack.candidate_starts.tolist() == [0, 3, 5]
    assert text_of(pack, 0) == (["red"], ["black", "white", "red"])
    assert text_of(pack, 2) == ([], ["blue", "black", "red", "[UNK]"])
    assert pack.scores.tolist() == [2.5, 1.0, -3.0, 65504.0, 0.5]  # what 16 bits hold at most
    assert pack.n_answers.tolist() == [3, 2]
    found = list(zip(pack.cover_edges.tolist(), pack.cover_answers.tolist(), strict=True))
    assert found == [(0, 0), (2, 0), (2, 1), (3, 0)]
    # in title and text; after two words; at once; not as an unknown word, which might be any
    assert spans(pack) == [(0, 0, 1), (0, 3, 1), (1, 2, 1), (2, 0, 1)]
    assert pack.counts()["spans"] == 4


def test_strict_ignores_a_lone_numeral_and_k_cuts(words: Path) -> None:
    pack = packed(RANKINGS, words, PackSettings(k=1, strict=True))
    assert pack.candidates.tolist() == [0, 1]
    assert pack.cover_edges.tolist() == [0]
    assert pack.about["settings"] == {"k": 1, "strict": True}


def test_an_answer_is_where_its_expression_matched_unless_it_was_cut(words: Path) -> None:
    asked = Question("r", "which", regex="gr(ee|a)n|bl.*d")
    passages = Passage("1", "lime", "red green green"), Passage("2", "", "red blue gold")
    rankings = [Ranking(asked, tuple(Hit(passage, 1.0) for passage in passages))]
    pack = packed(rankings, words)
    assert spans(pack) == [(0, 2, 1), (0, 3, 1), (1, 1, 2)]
    cut = packed(rankings, words, PackSettings(max_text=2), "cut")
    assert cut.cover_edges.tolist() == [0, 1]
    assert spans(cut) == [(0, 2, 1)]


def many(n: int) -> list[Ranking]:
    chance = np.random.default_rng(0)
    names = ["red", "green", "blue", "black", "white", "brown", "pink", "grey", "gold", "lime"]
    texts = [" ".join(chance.choice(names, chance.integers(1, 9))) for _ in range(40)]
    passages = [Passage(str(i), names[i % 10] * (i % 3 > 0), text) for i, text in enumerate(texts)]
    return [
        Ranking(
            Question(f"q\u2028{i}", f"which {names[i % 10]}", ((names[i % 7],), (names[i % 4],))),
            tuple(Hit(passages[j], 1.0) for j in chance.permutation(40)[: chance.integers(0, 9)]),
        )
        for i in range(n)
    ]


def test_what_covers_what_is_what_the_judge_says(words: Path) -> None:
    rankings = many(30)
    pack, judged = packed(rankings, words), cover(rankings)
    for i, ranking in enumerate(rankings):
        first, last = pack.candidate_starts[i : i + 2]
        mine = (pack.cover_edges >= first) & (pack.cover_edges < last)
        table = np.zeros((2, len(ranking.hits)), dtype=bool)
        table[pack.cover_answers[mine], pack.cover_edges[mine] - first] = True
        assert np.array_equal(table, judged.matrix(i))
        rows = pack.candidates[first:last]
        for entry in np.flatnonzero(mine):
            title, text = text_of(pack, pack.candidates[pack.cover_edges[entry]])
            (expected,) = ranking.question.answers[pack.cover_answers[entry]]
            where = pack.span_offsets[pack.span_covers == entry].tolist()
            assert where == [at for at, word in enumerate([*title, *text]) if word == expected]
        assert [text_of(pack, row)[1] for row in rows] == [
            hit.passage.text.split() for hit in ranking.hits
        ]
    assert pack.question_ids == tuple(ranking.question.id for ranking in rankings)


class Killed(Exception):
    pass


def test_a_killed_pack_resumes_and_is_the_same(
    words: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jpr.train.packing, "_BATCH", 4)
    parts = {"a": many(10), "b": many(9), "c": many(11)}
    asked: list[tuple[str, int]] = []

    def sources(stop: int) -> list[PackSource]:
        def rankings_from(name: str, done: int) -> Iterator[Ranking]:
            for place, ranking in enumerate(islice(parts[name], done, None), start=done):
                if name == "b" and place == stop:
                    raise Killed
                asked.append((name, place))
                yield ranking

        return [
            PackSource(name, len(parts[name]), lambda done, name=name: rankings_from(name, done))  # type: ignore[misc]  # the loop's name is bound
            for name in parts
        ]

    whole, resumed = words.parent / "whole", words.parent / "resumed"
    make_pack(sources(-1), words, whole, PackSettings(), inputs={})
    with pytest.raises(Killed):
        make_pack(sources(7), words, resumed, PackSettings(), inputs={})
    assert not resumed.exists()
    part = words.parent / ".resumed.part"
    damaged = words.parent / ".damaged.part"
    shutil.copytree(part, damaged)
    with (part / "passage_tokens.bin").open("ab") as stream:
        stream.write(b"half a batch")
    asked.clear()
    steps: list[int] = []
    make_pack(sources(-1), words, resumed, PackSettings(), inputs={}, progress=steps.append)
    assert asked[0] == ("b", 4)  # ten and one batch of four were safe
    assert steps[0] == 14
    assert sum(steps) == 30
    names = [path.name for path in whole.iterdir()]
    assert "span_covers.npy" in names
    assert filecmp.cmpfiles(whole, resumed, names, shallow=False) == (names, [], [])
    assert not part.exists()
    tokens = bytearray((damaged / "passage_tokens.bin").read_bytes())
    tokens[3] ^= 1
    (damaged / "passage_tokens.bin").write_bytes(tokens)
    asked.clear()
    make_pack(sources(-1), words, words.parent / "damaged", PackSettings(), inputs={})
    assert asked[0] == ("a", 0)
    assert filecmp.cmpfiles(whole, words.parent / "damaged", names, shallow=False)[0] == names
    assert Pack.open(whole, verify=True).sources.tolist() == [0] * 10 + [1] * 9 + [2] * 11


def test_what_is_left_of_another_pack_is_not_used(words: Path) -> None:
    def dies(_: int) -> Iterator[Ranking]:
        yield from RANKINGS
        raise Killed

    with pytest.raises(Killed):
        make_pack(
            [PackSource("some", 9, dies)], words, words.parent / "pack", PackSettings(), inputs={}
        )
    assert packed(RANKINGS, words).candidates.tolist() == [0, 1, 2, 2, 0]


def test_one_process_writes_at_a_time(tmp_path: Path) -> None:
    with (
        open_columns(tmp_path / "part", "", {"a": np.uint8}),
        pytest.raises(ConfigError, match="another process is writing"),
        open_columns(tmp_path / "part", "", {"a": np.uint8}),
    ):
        pass


def test_what_cannot_be_packed_is_refused(words: Path) -> None:
    def refusal(ranking: Ranking) -> str:
        with pytest.raises(DataError) as error:
            packed([ranking], words)
        return str(error.value)

    bare = Passage("7", "", "")
    assert "1 of 2 passages for question 'c' are only ids; give their texts" in refusal(
        Ranking(COLOURS, (Hit(RED, 1.0), Hit(bare, 0.5)))
    )
    assert "passage '1' comes 2 times" in refusal(Ranking(COLOURS, (Hit(RED, 1.0), Hit(RED, 0.5))))
    assert "has no text" in refusal(Ranking(Question("q", " ", (("red",),)), ()))
    with pytest.raises(DataError, match="no question has an answer"):
        packed([], words)
    with pytest.raises(ConfigError, match="-k 0"):
        PackSettings(k=0)
    with pytest.raises(ConfigError, match="255 tokens of a title"):
        PackSettings(max_title=256)


def test_token_ids_must_fit(words: Path) -> None:
    made = tokenizer()
    made.add_tokens([f"word{i}" for i in range(65_600)])
    words.write_text(made.to_str(), encoding="utf-8")
    with pytest.raises(ConfigError, match="a pack holds 65,535 at most"):
        packed(RANKINGS, words)


def test_a_folder_stands_for_its_tokenizer_and_the_limits_are_reported(words: Path) -> None:
    settings = PackSettings(max_question=2, max_title=1, max_text=3)
    pack = make_pack([source(RANKINGS)], words.parent, words.parent / "p", settings, inputs={})
    assert pack.about["limits"] == {"max_question": 2, "max_title": 1, "max_text": 3}
    assert pack.question_starts.tolist() == [0, 2, 4]
    assert text_of(pack, 2)[1] == ["blue", "black", "red"]
    assert pack.about["sources"] == ["some"]
