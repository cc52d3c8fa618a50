from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from jpr.errors import ConfigError, DataError
from jpr.train.sampler import Dataset, Sample, Sampler
from tests.train.tiny import invented_pack


def draws(*datasets: Dataset, batch: int = 8, candidates: int = 4) -> Sampler:
    return Sampler(datasets, batch=batch, candidates=candidates, k=2, seed=0)


def asked(drawn: list[Sample]) -> list[tuple[int, int]]:
    """The dataset and number of each question."""
    return [(id(one.dataset), int(q)) for one in drawn for q in one.batch.questions]


def test_covers_are_those_of_the_pack() -> None:
    pack = invented_pack()
    batch = Dataset(pack).batch(np.arange(len(pack)), 6)
    flags = np.unpackbits(batch.covers, axis=-1)
    for edge, answer in zip(pack.cover_edges.tolist(), pack.cover_answers.tolist(), strict=True):
        question, place = divmod(edge, 6)
        mine = pack.cover_answers[pack.cover_edges // 6 == question]
        assert flags[question, place, sorted(set(mine.tolist())).index(answer)]
    assert flags.sum() == len(pack.cover_edges)


def test_every_question_comes_once_before_any_comes_again() -> None:
    dataset = Dataset(invented_pack(n=24))
    drawn = [pair for step in range(3) for pair in asked(draws(dataset).part(step, 0, 1, 0))]
    assert len(dataset.usable) == 24
    assert sorted(question for _, question in drawn) == list(range(24))
    again = [pair for step in range(3, 6) for pair in asked(draws(dataset).part(step, 0, 1, 0))]
    assert sorted(again) == sorted(drawn)
    assert again != drawn


def test_only_questions_of_the_named_sources_are_drawn() -> None:
    pack = invented_pack(n=8)
    about = {**pack.about, "sources": ["dev", "train", "more"]}
    pack = replace(pack, sources=np.array([0, 1, 2, 1, 0, 1, 2, 2], np.uint8), about=about)
    assert Dataset(pack, sources=("train",)).usable.tolist() == [1, 3, 5]
    assert Dataset(pack, sources=("more", "dev")).usable.tolist() == [0, 2, 4, 6, 7]
    assert Dataset(pack).usable.tolist() == list(range(8))
    with pytest.raises(DataError, match="no source 'test'; it has dev, train, more"):
        Dataset(pack, sources=("test",))


def test_feeds_are_mixed_by_weight() -> None:
    small, large = Dataset(invented_pack(), weight=0.1), Dataset(invented_pack(seed=1), weight=0.9)
    source = draws(large, small)
    parts = [asked(source.part(step, 0, 1, 0)) for step in range(100)]
    assert all(len(part) == 8 for part in parts)
    counts = Counter(dataset for part in parts for dataset, _ in part)
    assert counts == {id(small): 80, id(large): 720}


def test_the_cut_into_parts_changes_nothing() -> None:
    source = draws(Dataset(invented_pack(), 2.0), Dataset(invented_pack(seed=1, candidates=4)))
    whole = source.part(5, 0, 1, 20)
    pieces = [one for part in range(3) for one in source.part(5, part, 3, 20)]

    def rows(several: list[Sample]) -> set[bytes]:
        return {
            b"".join(
                array[row].tobytes()
                for array in (
                    one.batch.questions,
                    one.batch.edges,
                    one.numbers,
                    *one.noise,
                )
            )
            for one in several
            for row in range(len(one.batch.questions))
        }

    assert rows(whole) == rows(pieces)
    assert sorted(asked(whole)) == sorted(asked(pieces))


def test_numbers_are_all_different_and_below_the_limit() -> None:
    (drawn,) = draws(Dataset(invented_pack())).part(0, 0, 1, 20)
    assert drawn.numbers.shape == (8, 4)
    assert all(len(set(row)) == 4 for row in drawn.numbers.tolist())
    assert drawn.numbers.max() > 4
    assert drawn.numbers.max() < 20


def test_without_scores_the_first_stage_ranks() -> None:
    pack = invented_pack()
    dataset = Dataset(pack)
    batch = dataset.batch(np.array([1]), 6).select(np.array([[0, 3, -1]]))
    assert dataset.prior_scores(batch)[0, :2] == pytest.approx([0, -np.log(4)])
    scored = Dataset(pack, scores=np.arange(len(pack.candidates), dtype=np.float16))
    assert scored.prior_scores(batch)[0].tolist() == [6, 9, 0]


def test_random_negatives_take_the_places_of_candidates_without_an_answer_alone() -> None:
    dataset = Dataset(invented_pack(n=24))
    ways = {
        share: Sampler([dataset], batch=8, candidates=6, k=2, seed=0, random_negatives=share).part(
            0, 0, 1, 0
        )
        for share in (0.0, 0.5, 1.0)
    }
    (plain,), (half,), (whole,) = (ways[share] for share in (0.0, 0.5, 1.0))
    answered = np.unpackbits(plain.batch.covers, axis=-1).any(axis=-1)
    for drawn in (half, whole):
        assert (drawn.batch.covers == plain.batch.covers).all()
        assert (drawn.batch.edges == plain.batch.edges)[answered].all()
    first = dataset.pack.candidate_starts[plain.batch.questions][:, None]
    own = (whole.batch.edges >= first) & (whole.batch.edges < first + 6)
    assert own[answered].all()
    assert own[~answered].mean() < 0.3  # a few are its own by chance, one question of 24
    changed = (half.batch.edges != plain.batch.edges)[~answered].mean()
    assert 0.2 < changed < 0.8
    prior = dataset.prior_scores(whole.batch)
    worst = np.where(own, prior, np.inf).min(axis=1, keepdims=True)
    assert (prior >= worst).all()
    assert (prior == worst)[~own].all()


def test_scores_of_another_pack_are_refused() -> None:
    with pytest.raises(DataError, match="were they made for another"):
        Dataset(invented_pack(), scores=np.zeros(5))


def test_more_packs_than_a_batch_can_mix_are_refused() -> None:
    with pytest.raises(ConfigError, match="cannot mix 3 packs"):
        draws(*(Dataset(invented_pack()) for _ in range(3)), batch=4)
