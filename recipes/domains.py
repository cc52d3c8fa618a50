"""Score the bundled first stage on other kinds of text: reviews, forums, news, law, medicine.

Needs: a folder with NAME.passages.jsonl.xz (`id`, `title`, `text`) and NAME.dev.jsonl for each
domain; NAME_parts.dev.jsonl holds questions of several parts over the passages of NAME. A quarter
of an hour on two cores for 95,000 passages; indexes are kept in WORK, and made only once.

    python -m recipes.domains DOMAINS --work WORK

Writes `results/domains.jsonl`, with paired tests of `hybrid` against each other system in the
manifest.
"""

import time
from collections.abc import Sequence
from pathlib import Path

from jpr import MRecall, build_index, evaluate, load_encoder, load_questions, read_passages
from jpr.evaluation.compare import compare
from jpr.evaluation.evaluation import ALL
from jpr.io.manifest import commit, manifest
from jpr.retrieve.index import Index
from jpr.retrieve.question_mix import QuestionMix
from jpr.retrieve.rank_fusion import Scored
from jpr.retrieve.retrievers import DEPTH, KINDS, open_retriever
from jpr.stages import Encoder
from jpr.types import Hit, Question, Ranking
from recipes.command_line import results_parser
from recipes.report import Record, comparison_row, records_of, save_records

NAME = "domains"
K, MOST_QUESTIONS = 100, 400
MEASURES = [MRecall @ 5, MRecall @ 10]
SHOWN = [["MRecall@5", "own", ALL]]
ABOUT = (
    "The bundled first stage on development sets of other kinds of text, up to 400 questions each, "
    "100 candidates per question. `hybrid` is `jpr retrieve` with its defaults. `whole` takes "
    "questions of several parts as they are; the others search for them part by part, too, and "
    "are the same for all other questions. MRecall of the oracle ordering is what a perfect "
    "reranker of the 100 would reach."
)


def evenly_spaced(questions: Sequence[Question], most: int = MOST_QUESTIONS) -> list[Question]:
    """Return at most `most` of the questions, evenly spaced."""
    step = max(1.0, len(questions) / most)
    places = (int(i * step) for i in range(min(len(questions), most)))
    return [questions[place] for place in places]


def runs_of(
    folder: Path, encoder: Encoder, questions: Sequence[Question]
) -> dict[str, list[Ranking]]:
    """Return the rankings of every system."""
    index = Index(folder)
    near = index.search_dense(encoder.encode_questions([q.text for q in questions]), DEPTH)
    words = [index.search_bm25(question.text, DEPTH) for question in questions]
    mix = QuestionMix(len(index.store))
    whole = {
        "bm25": words,
        "dense": near,
        "hybrid": [mix(pair) for pair in zip(words, near, strict=True)],
    }
    runs = {f"{name}, whole": rankings(index, questions, found) for name, found in whole.items()}
    for name in KINDS:
        retriever = open_retriever(folder, name, encoder=encoder)
        runs[name] = list(retriever.retrieve_many(questions, K))
    return runs


def rankings(index: Index, questions: Sequence[Question], found: Sequence[Scored]) -> list[Ranking]:
    """Replace rows by passages."""
    return [
        Ranking(question, tuple(Hit(index.store[row], score) for row, score in hits[:K]))
        for question, hits in zip(questions, found, strict=True)
    ]


def main() -> None:
    """Index, retrieve, score, record."""
    parser = results_parser(__doc__, "domains")
    parser.add_argument("--work", type=Path, required=True)
    options = parser.parse_args()
    start, encoder = time.perf_counter(), load_encoder(None)
    records: list[Record] = []
    tests: list[dict[str, object]] = []
    inputs: dict[str, Path] = {}
    for passages in sorted(options.domains.glob("*.passages.jsonl.xz")):
        domain = passages.name.partition(".")[0]
        folder = options.work / domain
        if not (folder / "CURRENT").exists():
            build_index(read_passages(passages), folder, source=passages.name, encoder=encoder)
        inputs[passages.name] = passages
        for file in sorted(options.domains.glob(f"{domain}*.dev.jsonl")):
            data = file.name.partition(".")[0]
            if data not in (domain, f"{domain}_parts"):
                continue  # a domain whose name begins with this one's
            inputs[file.name] = file
            questions = evenly_spaced(load_questions(file))
            scored = evaluate(questions, runs_of(folder, encoder, questions), MEASURES, workers=2)
            records += records_of(scored, NAME, data, commit())
            tests += [comparison_row(data, found) for found in compare(scored, "hybrid")]
            print(f"{data}: {time.perf_counter() - start:.0f} s", flush=True)
    made = manifest(
        "python -m recipes.domains DOMAINS --work WORK",
        inputs,
        time.perf_counter() - start,
        packages=("tantivy", "faiss-cpu", "onnxruntime"),
    )
    save_records(
        options.results, NAME, records, {"about": ABOUT, **made, "tests": tests, "shown": SHOWN}
    )


if __name__ == "__main__":
    main()
