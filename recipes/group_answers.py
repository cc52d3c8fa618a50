"""Turn CuratedTREC's regular expressions into distinct answers, as in the paper.

    python -m recipes.group_answers CuratedTrec-train.tsv psgs_w100.tsv.gz --out trec-train.jsonl

Every expression runs over every passage. A question is dropped if nothing matches or more than
100 distinct strings do; matches of up to five tokens are kept, and those that differ only in
spelling are one answer. The results for each chunk of the corpus are cached, so that an
interrupted run resumes where it stopped.
"""

import argparse
import os
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from jpr.errors import JprError
from jpr.formats.corpus import read_passages
from jpr.formats.questions import load_questions, write_questions
from jpr.io.atomic import publish
from jpr.io.locks import cache_folder
from recipes.trec.grouping import group_answers


def main(arguments: Sequence[str] | None = None) -> None:
    """Search, group, write, and print what was dropped."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("questions", type=Path, help="questions with regular expressions")
    parser.add_argument("passages", type=Path, help="the corpus to search")
    parser.add_argument("--out", "-o", type=Path, required=True, help="questions to write")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--no-cache", action="store_true", help="keep nothing for a later run")
    options = parser.parse_args(arguments)
    n_passages = 0

    def progress(count: int) -> None:
        nonlocal n_passages
        n_passages += count
        if sys.stderr.isatty():
            print(f"\r{n_passages:,} passages searched", end="", file=sys.stderr)

    try:
        questions = load_questions(options.questions)
        grouped = group_answers(
            questions,
            read_passages(options.passages),
            workers=options.workers,
            cache=None if options.no_cache else cache_folder() / "expressions",
            progress=progress,
        )
        with publish(options.out) as stream:
            write_questions(grouped.questions, stream)
    except JprError as error:
        parser.error(f"{options.questions}: {error}")
    answered = f"{len(grouped.questions)} of {len(questions)} questions"
    print(f"{answered} have answers, in {options.out}", file=sys.stderr)
    for reason, count in Counter(dropped.reason for dropped in grouped.dropped).most_common():
        print(f"{count} dropped: {reason}", file=sys.stderr)


if __name__ == "__main__":
    main()
