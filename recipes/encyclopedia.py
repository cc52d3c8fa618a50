"""Score the bundled models on the demo encyclopedia, as users run them.

Needs nothing else. Some seconds per question on a CPU; a run that was stopped resumes.

    python -m recipes.encyclopedia --work encyclopedia

Systems: BM25 alone; the first stage, which mixes it with the encoder's vectors; and of the first
stage's 100 candidates, those that the joint model chooses independently (`independent`) and one
after another for the answers that each adds (`joint`). Writes `encyclopedia.jsonl` to `results/`.
"""

import time
from pathlib import Path

from jpr import (
    JointReranker,
    build_index,
    evaluate,
    load_encoder,
    load_questions,
    load_rankings,
    open_retriever,
    read_passages,
)
from jpr.batch import rerank_to_file
from jpr.bundled import CANDIDATES, ENCYCLOPEDIA
from jpr.evaluation.compare import compare
from jpr.evaluation.evaluation import ALL
from jpr.io.manifest import manifest
from recipes.command_line import results_parser
from recipes.joint_table import MEASURES, records
from recipes.rankings import Clock
from recipes.report import FIRST_STAGE, comparison_row, save_records

K = 10
DATA = "encyclopedia"
INDEPENDENT = "independent"
SHOWN = [[name, "own", ALL] for name in ("MRecall@5", "MRecall@10", "alpha_nDCG(0.9)@5")]
ABOUT = (
    "The bundled models, in 8 bits on the CPU, on the demo encyclopedia "
    "(`jpr/assets/encyclopedia`): 622 passages and 106 questions with several answers each, "
    "written for this project. No model was trained on it. The present temperature of the choice, "
    "and how many answers to give, were chosen with it in view."
)


def main() -> None:
    """Index, choose, score, record."""
    parser = results_parser(__doc__)
    parser.add_argument("--work", type=Path, required=True)
    options = parser.parse_args()
    start, index = time.perf_counter(), options.work / "index"
    questions = load_questions(ENCYCLOPEDIA / "questions.jsonl")
    passages = read_passages(ENCYCLOPEDIA / "passages.jsonl")
    build_index(passages, index, source=DATA, encoder=load_encoder(None))
    found = {
        name: list(open_retriever(index, kind).retrieve_many(questions, CANDIDATES))
        for name, kind in (("bm25", "bm25"), (FIRST_STAGE, "hybrid"))
    }
    seconds = {}
    for name, decoder in ((INDEPENDENT, "independent"), ("joint", None)):
        file, clock = options.work / f"{name}.jsonl", Clock()
        reranker = JointReranker.load(decoder=decoder, device="cpu")
        rerank_to_file(reranker, found[FIRST_STAGE], file, K, clock)
        found[name], seconds[name] = list(load_rankings(file)), clock.median
    scored = evaluate(questions, found, MEASURES, pool=found[FIRST_STAGE], workers=2)
    tests = [comparison_row(DATA, one) for one in compare(scored, INDEPENDENT)]
    depends = manifest(
        "python -m recipes.encyclopedia --work encyclopedia",
        {f"{name}.jsonl": ENCYCLOPEDIA / f"{name}.jsonl" for name in ("passages", "questions")},
        time.perf_counter() - start,
        packages=("onnxruntime", "tantivy", "faiss-cpu"),
    )
    about = {"about": ABOUT, **depends, "median seconds": seconds, "tests": tests, "shown": SHOWN}
    save_records(options.results, DATA, records(scored, DATA, DATA), about)


if __name__ == "__main__":
    main()
