"""Questions with passages in which their answers are marked: what a span head learns from.

`recipes/span_head.py` runs it.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

from jpr import read_passages
from jpr.encode.tokenizer import continuation_tokens, read_tokenizer
from jpr.formats.corpus.store import PassageStore
from jpr.rerank.joint import BUNDLED_MODEL
from jpr.rerank.prompt import Prompted, Prompts, read_prompt_settings
from jpr.retrieve.index import Index
from jpr.text import is_weak
from jpr.types import Passage, Question
from recipes.encoder_data import DOMAINS, LOOK_ONLY, question_file, read_questions

WIKI_SETS = {"ambignq_train": 1, "webquestions_train": 1, "kb_train": 2, "extra_train": 2}
"""Sets over the Wikipedia passages, and how many answers a question must have."""
_EXTRA, _PER_DOMAIN = 6000, 1200  # questions of `extra_train`, and of each domain
_DEPTH, _WITH, _WITHOUT = 50, 2, 1
"""Of the first passages, the two with the most answers are taken, and the first without any."""
_LONGEST = 16
_PAIRS = 30_000
_GOLD = 3


@dataclass(frozen=True, slots=True)
class TrainingItem:
    """A question, and its passages where its file names them."""

    data: str
    question: Question
    passages: tuple[Passage, ...] = ()


@dataclass(frozen=True, slots=True)
class Pair:
    """A prompt, and the first and last token of each answer in its passage."""

    data: str
    prompt: Prompted
    spans: tuple[tuple[int, int], ...]


class PairMaker:
    """Marks answers in the passages of questions, as the tokens of the bundled model."""

    def __init__(self, wiki: Path) -> None:
        """Open the lexical index of the Wikipedia passages, and the model's tokenizer."""
        self._index = Index(wiki)
        self._tokenizer = read_tokenizer(BUNDLED_MODEL)
        self._prompts = Prompts(self._tokenizer, read_prompt_settings(BUNDLED_MODEL))
        self._inner = set(continuation_tokens(self._tokenizer.get_vocab()))

    def pairs(self, asked: TrainingItem) -> list[Pair]:
        """Return the pairs of a question; none if no passage has an answer."""
        spellings = {one for group in asked.question.answers for one in group if not is_weak(one)}
        needles = {tuple(self._tokenizer.encode(one, add_special_tokens=False).ids)
                   for one in spellings}  # fmt: skip
        needles = {one for one in needles if 0 < len(one) <= _LONGEST}
        passages = asked.passages or self._first_passages(asked.question.text)
        prompts = self._prompts.build(asked.question.text, passages, [0] * len(passages))
        made = [Pair(asked.data, one, self._spans(one.passage, needles)) for one in prompts]
        positive = sorted((pair for pair in made if pair.spans), key=lambda pair: -_different(pair))
        negative = [pair for pair in made if not pair.spans]
        return positive[:_WITH] + negative[:_WITHOUT] if positive else []

    def _first_passages(self, text: str) -> tuple[Passage, ...]:
        store: PassageStore = self._index.store
        return tuple(store[row] for row, _ in self._index.search_bm25(text, _DEPTH))

    def _spans(
        self, ids: Sequence[int], needles: set[tuple[int, ...]]
    ) -> tuple[tuple[int, int], ...]:
        """Return where answers are as whole words, of several at one place the longest."""
        found = []
        for needle in needles:
            size = len(needle)
            for at in range(len(ids) - size + 1):
                ends = at + size == len(ids) or ids[at + size] not in self._inner
                if ids[at] == needle[0] and tuple(ids[at : at + size]) == needle and ends:
                    found.append((at, -size))
        spans, free = [], 0
        for at, negated in sorted(found):
            if at >= free:
                free = at - negated
                spans.append((at, free - 1))
        return tuple(spans)


def _different(pair: Pair) -> int:
    """Return how many different texts the marked spans have."""
    ids = pair.prompt.passage
    return len({tuple(ids[first : last + 1]) for first, last in pair.spans})


def questions(wiki_questions: Path, domains: Path, seed: int) -> list[TrainingItem]:
    """Return the training questions of Wikipedia and of the domains."""
    chance, found = random.Random(seed), []
    for name, least in WIKI_SETS.items():
        asked = [one.question for one in read_questions(question_file(wiki_questions, name))]
        asked = [one for one in asked if len(one.answers) >= least]
        chance.shuffle(asked)
        kept = asked[:_EXTRA] if name == "extra_train" else asked
        found += [TrainingItem(name, question) for question in kept]
    for domain in DOMAINS:
        if domain != LOOK_ONLY:
            found += _of_domain(domains, domain, chance)
    return found


def _of_domain(folder: Path, domain: str, chance: random.Random) -> Iterator[TrainingItem]:
    """Yield questions with the passages that answer them, and the one that follows."""
    passages = list(read_passages(folder / f"{domain}.passages.jsonl.xz"))
    rows = {passage.id: row for row, passage in enumerate(passages)}
    asked = read_questions(question_file(folder, f"{domain}.train"))
    chance.shuffle(asked)
    for one in asked[:_PER_DOMAIN]:
        gold = [rows[id] for id in one.gold[:_GOLD]]
        after = min(gold[-1] + 1, len(passages) - 1)
        other = after if passages[after].id not in one.gold else chance.randrange(len(passages))
        yield TrainingItem(domain, one.question, tuple(passages[row] for row in (*gold, other)))


_MAKER: dict[str, PairMaker] = {}


def _made(asked: TrainingItem) -> list[Pair]:
    return _MAKER["open"].pairs(asked)


def make_pairs(wiki: Path, wiki_questions: Path, domains: Path, seed: int) -> list[Pair]:
    """Return a random part of the pairs of all training questions."""
    asked = questions(wiki_questions, domains, seed)
    _MAKER["open"] = PairMaker(wiki)
    with get_context("fork").Pool() as pool:
        pairs = [pair for made in pool.imap(_made, asked, chunksize=64) for pair in made]
    random.Random(seed).shuffle(pairs)
    return pairs[:_PAIRS]
