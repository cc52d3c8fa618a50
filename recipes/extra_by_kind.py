"""Split the extra training questions by kind, for the runs that ask which kinds help.

    python -m recipes.extra_by_kind extra_train.jsonl.xz --out questions

Writes `extra_search.jsonl` (typed into a search engine), `extra_facts.jsonl` (made from a knowledge
base or an article) and `extra_trivia.jsonl` (30,000 of the quiz questions, drawn by a seed).
"""

import json
import lzma
import random
from pathlib import Path

from jpr.io.atomic import publish
from recipes.command_line import parser_of

KINDS = {
    "search": ("efficientqa", "situatedqa_train", "mkqa_sample"),
    "trivia": (
        "irc_trivia",
        "opentriviaqa",
        "elcms_trivia",
        "freebaseqa_deveval",
        "red_trivia",
        "triviaqa_sub1k",
    ),
}
REST = "facts"
MOST_TRIVIA = 30_000
SEED = 0


def kind_of(source: str) -> str:
    """Return the kind of a source; what is neither searched for nor trivia asks for facts."""
    return next((kind for kind, sources in KINDS.items() if source in sources), REST)


def split(lines: list[str]) -> dict[str, list[str]]:
    """Return the questions of every kind, in the file's order."""
    found: dict[str, list[str]] = {kind: [] for kind in (*KINDS, REST)}
    for line in lines:
        found[kind_of(json.loads(line)["source"])].append(line)
    kept = random.Random(SEED).sample(
        range(len(found["trivia"])), min(MOST_TRIVIA, len(found["trivia"]))
    )
    return {**found, "trivia": [found["trivia"][place] for place in sorted(kept)]}


def main() -> None:
    """Read, split, write."""
    parser = parser_of(__doc__, "questions")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    with lzma.open(options.questions, "rt", encoding="utf-8") as stream:
        kinds = split(stream.readlines())
    for kind, lines in kinds.items():
        file = options.out / f"extra_{kind}.jsonl"
        with publish(file) as stream:
            stream.writelines(lines)
        print(file, len(lines))


if __name__ == "__main__":
    main()
