from recipes.mining import mine


def test_an_answer_in_almost_every_candidate_is_no_positive_but_no_negative_either() -> None:
    example = mine(range(10), [(0,)] * 8 + [(1,), ()])
    assert example is not None
    assert example.positives == ((8,),)
    assert example.hard == (9,)
    assert example.holding == frozenset(range(9))


def test_each_answer_keeps_its_four_best_passages() -> None:
    example = mine(range(40), [(i % 2,) if i < 12 else () for i in range(40)])
    assert example is not None
    assert example.positives == ((0, 2, 4, 6), (1, 3, 5, 7))


def test_without_a_positive_or_a_negative_there_is_nothing_to_learn() -> None:
    assert mine([1, 2], [(), ()]) is None
    assert mine([1], [(0,)]) is None
