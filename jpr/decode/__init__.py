"""Which passages, given P(next passage | passages already chosen): search alone, no model.

A *search* is a generator: it yields the prefixes whose log-probabilities it needs next, is sent one
row per prefix (a number per candidate), and returns what it chose. So searches for many questions
advance together, and each round is one call of the model (`decode_many`).

    SeqDecode      `sequence`: the best passage of every step (paper, Algorithm 1)
    TreeDecode     `tree`: the best expansion of any prefix so far (paper, Algorithm 1)
    over sets      `tree` without orders: prefixes of the same passages are one
    beam           `beam`: the sequence whose steps have the largest sum
    independent    `independent`: the best passages of the first step

Any of them may choose for answers instead (`Covering`): passages that contain what no passage
before does.

A passage never follows itself. Equal scores go to the shorter prefix, then to the prefix that was
opened first, then to the candidate that stands first.
"""

from jpr.decode.covering import Covering, Evidence
from jpr.decode.search import (
    Ask,
    Decoded,
    Limits,
    NextLogProbs,
    Node,
    Prefix,
    Rows,
    Search,
    decode,
    decode_many,
)
from jpr.decode.sequences import beam, independent, sequence
from jpr.decode.tree import length_penalty, tree

__all__ = [
    "Ask",
    "Covering",
    "Decoded",
    "Evidence",
    "Limits",
    "NextLogProbs",
    "Node",
    "Prefix",
    "Rows",
    "Search",
    "beam",
    "decode",
    "decode_many",
    "independent",
    "length_penalty",
    "sequence",
    "tree",
]
