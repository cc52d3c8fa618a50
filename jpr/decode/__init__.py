"""Search over P(next passage | prefix): which passages to choose. Knows no tensors and no strings.

A *search* is a generator: it yields the prefixes whose log-probabilities it needs next, is sent one
row per prefix (a number per candidate), and returns its expansions, `Node`s. So searches for many
questions advance together, and each round is one call of the model (`decode_many`).

    SeqDecode      `sequence`: the best passage of every step (paper, Algorithm 1)
    TreeDecode     `tree`: the best expansion of any prefix so far (paper, Algorithm 1)
    over sets      `tree` with `ordered=False`: prefixes of the same passages are one
    beam           `beam`: the sequence whose steps have the largest sum
    independent    `independent`: the best passages of the first step

`Conditioned` is the distribution that they search: the model's own, and the answers that a passage
adds to the prefix.

A passage never follows itself. Ties go to the shorter prefix, then to the prefix that was opened
first, then to the earlier candidate.
"""
