"""List the texts whose nearest passages `recipes/encoder.py` writes.

    python -m recipes.encoder_texts QUESTIONS DOMAINS texts.json

Evaluation sets over Wikipedia; up to 400 training and development questions of each domain and of
Wikipedia, with the parts of those that have several. Development sets are shown while training.
"""

import json
from collections.abc import Iterator
from pathlib import Path

from jpr import load_questions
from jpr.io.json_files import write_json
from jpr.retrieve.retrievers import question_parts
from jpr.types import Question
from recipes.command_line import parser_of
from recipes.domains import evenly_spaced
from recipes.encoder_data import DOMAINS, question_file

WIKI_SETS = {
    "ambignq_dev": 10_000,
    "webquestions_dev": 10_000,
    "webqsp_test": 10_000,
    "trec_test": 10_000,
    "ambignq_train": 400,
    "webquestions_train": 300,
}
"""Sets over Wikipedia's passages, with the number of questions taken."""


def described(corpus: str, questions: list[Question], shown: bool) -> dict[str, object]:
    """Return all texts of some questions, and where each question begins."""
    texts: list[str] = []
    places = {}
    for question in questions:
        places[question.id] = len(texts)
        texts += [question.text, *question_parts(question.text)]
    ids = [question.id for question in questions if question.answers] if shown else []
    return {"corpus": corpus, "texts": texts, "places": places, "shown": ids}


def sets(questions: Path, domains: Path) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield every set."""
    for name, most in WIKI_SETS.items():
        loaded = load_questions(question_file(questions, name))
        if name.endswith("_train"):
            loaded = [question for question in loaded if question.answers]
        yield name, described("wikipedia", evenly_spaced(loaded, most), name.endswith("_dev"))
    for domain in DOMAINS:
        for part in ("train", "dev"):
            for name in (f"{domain}.{part}", f"{domain}_parts.{part}"):
                path = question_file(domains, name)
                if path.exists():
                    chosen = evenly_spaced(load_questions(path))
                    yield name, described(domain, chosen, part == "dev")


def main() -> None:
    """Write the file."""
    parser = parser_of(__doc__, "questions", "domains", "out")
    options = parser.parse_args()
    found = dict(sets(options.questions, options.domains))
    write_json(options.out, found)
    print(json.dumps({name: len(one["texts"]) for name, one in found.items()}))  # type: ignore[arg-type]  # texts are a list


if __name__ == "__main__":
    main()
