"""Score plain BM25: 100 candidates per question of each set.

Needs: a passages file, questions files, `pip install bm25s PyStemmer`; 5 GB of memory; 10 minutes.

    python -m recipes.bm25_reference passages.tsv.xz ambignq_dev.jsonl webqsp_test.jsonl ...

Writes the runs (`--runs FOLDER`) and `results/bm25-reference.jsonl`.
"""

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import bm25s
import Stemmer

from jpr import MRecall, Recall, evaluate, load_questions, read_passages, write_rankings
from jpr.io.atomic import publish
from jpr.io.manifest import commit, manifest
from jpr.types import Hit, Passage, Question, Ranking
from recipes.command_line import results_parser
from recipes.report import Record, records_of, save_records

ABOUT = (
    "BM25 (bm25s, Lucene's variant, k1 = 0.9, b = 0.4, Snowball stems, without 179 English stop "
    "words, question words among them) over title and text, 100 passages per question."
)


class Bm25:
    """The ten lines that a run takes."""

    def __init__(self, passages: list[Passage], k1: float = 0.9, b: float = 0.4) -> None:
        self.passages = passages
        self.stemmer = Stemmer.Stemmer("english")
        self.index = bm25s.BM25(method="lucene", k1=k1, b=b)
        self.index.index(self.tokens([f"{p.title} {p.text}" for p in passages]))

    def tokens(self, texts: list[str]) -> object:
        """Split texts into stems."""
        return bm25s.tokenize(texts, stopwords="en_plus", stemmer=self.stemmer)

    def rankings(self, questions: list[Question], k: int = 100) -> Iterator[Ranking]:
        """Rank the best k passages for each question."""
        found, scores = self.index.retrieve(self.tokens([q.text for q in questions]), k=k)
        for question, row, row_scores in zip(questions, found, scores, strict=True):
            pairs = zip(row, row_scores, strict=True)
            yield Ranking(question, tuple(Hit(self.passages[i], float(s)) for i, s in pairs))


def main() -> None:
    """Index, retrieve, score, record."""
    parser = results_parser(__doc__, "passages")
    parser.add_argument("questions", type=Path, nargs="+")
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    options = parser.parse_args()
    start = time.perf_counter()
    index = Bm25(list(read_passages(options.passages)))
    measures = [Recall @ 5, Recall @ 10, Recall @ 100, MRecall @ 5, MRecall @ 10]
    records: list[Record] = []
    for path in options.questions:
        questions = load_questions(path)
        rankings = list(index.rankings(questions))
        with publish(options.runs / f"bm25-{path.stem}.jsonl") as stream:
            write_rankings(rankings, stream)
        scored = evaluate(questions, {"BM25": rankings}, measures, workers=2)
        records += records_of(scored, "bm25-reference", path.stem, commit())
    inputs = {path.name: path for path in (options.passages, *options.questions)}
    command = " ".join(["python -m recipes.bm25_reference", *inputs])
    made = manifest(command, inputs, time.perf_counter() - start, packages=("bm25s", "PyStemmer"))
    save_records(options.results, "bm25-reference", records, {"about": ABOUT, **made})
    print(f"{len(records)} numbers in {options.results}", file=sys.stderr)


if __name__ == "__main__":
    main()
