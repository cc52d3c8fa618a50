"""Questions that nobody asked: sentences of passages with an answer, or several, left out.

Needs: the index of the passages. An answer is the title of another article that a sentence names,
else a year; the question is the sentence with "what" in its place, after the title of its own
article. Of sentences that name several, half give a question with several answers. Candidates are
the first stage's, but for those that repeat a part of the passage itself. 20 minutes on two cores.

    python -m recipes.cloze wiki --out cloze
    jpr pack cloze/cloze.trec -q cloze/cloze.jsonl --corpus passages.tsv --tokenizer models/e5 \\
        -k 64 --out packs/cloze
"""

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np

from jpr.formats.questions import write_questions
from jpr.formats.runs import write_rankings
from jpr.io.atomic import publish
from jpr.retrieve.index import Index
from jpr.retrieve.retrievers import open_retriever
from jpr.types import Passage, Question, Ranking
from recipes.command_line import parser_of

K, MORE = 64, 16
BATCH = 256
PART = 60
"""Letters in a row that make a candidate a repetition."""
SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z\"])")
NAME = re.compile(r"\b[A-Z][\w'’.-]*(?:\s+(?:(?:of|the|de|van|von|in)\s+)?[A-Z][\w'’.-]*)*")
YEAR = re.compile(r"\b(?:1[5-9]|20)\d\d\b")
SHORTEST, LONGEST = 8, 50
MOST = 5


def titles_of(index: Index) -> set[str]:
    """Return the titles of all articles, without what is in brackets."""
    found = {re.sub(r"\s*\(.*\)$", "", index.store[row].title) for row in range(len(index.store))}
    return {title for title in found if len(title) > 3 and title[0].isupper()}


def named(sentence: str, title: str, titles: set[str]) -> list[str]:
    """Return other articles' titles in a sentence, each once, the longest at each place."""
    found = []
    for match in NAME.finditer(sentence):
        words = match.group().rstrip(".'’-").split()
        for size in range(len(words), 0, -1):
            name = " ".join(words[:size])
            if name in titles and name not in title and title not in name:
                if size > 1 or match.start() > 0:  # a sentence's first word is seldom a name
                    found.append(name)
                break
    return list(dict.fromkeys(found))


def asked(passage: Passage, titles: set[str], chance: np.random.Generator) -> Question | None:
    """Return a question made of one sentence of a passage, if any will do."""
    sentences = SENTENCE.split(passage.text)[1:-1]  # the first and the last may be cut
    for at in chance.permutation(len(sentences)).tolist():
        sentence = sentences[at]
        if not SHORTEST <= len(sentence.split()) <= LONGEST:
            continue
        answers = named(sentence, passage.title, titles) or YEAR.findall(sentence)[:1]
        if not answers:
            continue
        several = len(answers) > 1 and chance.random() < 0.5
        left_out = answers[:MOST] if several else [str(chance.choice(answers))]
        longest_first = sorted(left_out, key=len, reverse=True)
        text = re.sub(rf"\b(?:{'|'.join(map(re.escape, longest_first))})\b", "what", sentence)
        return Question(
            f"cloze-{passage.id}", f"{passage.title}: {text}", tuple((a,) for a in left_out)
        )
    return None


def questions(
    index: Index, titles: set[str], count: int, seed: int
) -> Iterator[tuple[Question, str]]:
    """Yield questions from all over the corpus, each with the passage it is from."""
    chance = np.random.default_rng(seed)
    for row in chance.permutation(len(index.store)).tolist():
        passage = index.store[row]
        question = asked(passage, titles, chance)
        if question:
            yield question, passage.text
            count -= 1
            if not count:
                return


def others(found: Ranking, source: str) -> Ranking:
    """Return a question's candidates, but for those that repeat a part of its passage."""
    parts = [source[at : at + PART] for at in range(0, max(len(source) - PART, 1), PART // 2)]
    hits = (h for h in found.hits if not any(part in h.passage.text for part in parts))
    return Ranking(found.question, tuple(islice(hits, K)))


def main() -> None:
    """Ask, retrieve, write."""
    parser = parser_of(__doc__, "index")
    parser.add_argument("--count", type=int, default=24000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    index = Index(options.index)
    made = questions(index, titles_of(index), options.count, options.seed)
    retriever, done = open_retriever(options.index), 0
    options.out.mkdir(parents=True, exist_ok=True)
    with (
        publish(options.out / "cloze.jsonl") as asked_file,
        publish(options.out / "cloze.trec") as found_file,
    ):
        while batch := list(islice(made, BATCH)):
            rankings = retriever.retrieve_many([question for question, _ in batch], K + MORE)
            pairs = zip(rankings, batch, strict=True)
            write_questions([question for question, _ in batch], asked_file)
            write_rankings([others(r, source) for r, (_, source) in pairs], found_file, "trec")
            done += len(batch)
            print(f"{done:,} of {options.count:,}", flush=True)


if __name__ == "__main__":
    main()
