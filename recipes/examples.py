"""Ten questions of the development sets, good and bad: what was chosen, by whom, and why.

Needs: the questions, and the first stage's rankings with texts (`--runs` of
recipes/first_stage.py). Prints docs/examples.md; a minute on two cores.

    python -m recipes.examples questions runs > docs/examples.md
"""

from collections.abc import Iterator, Sequence
from itertools import chain
from math import exp
from pathlib import Path

from jpr import JointReranker, load_questions, load_rankings
from jpr.coverage import cover
from jpr.evaluation.tables import markdown
from jpr.types import Question, Ranking, Reply
from recipes.command_line import parser_of

DATA = {"ambignq_dev": "AmbigNQ dev", "webquestions_dev": "WebQuestions dev"}
K = 5
SHOWN = 3
"""Answers shown per passage."""
LEAST = 0.02
"""Least probability of an answer that is shown."""
EXAMPLES = {
    "-7137905385556638813": "Of two passages on Thutmose I, joint choice prefers the one that "
    "also names Hatshepsut, so a place is left for the passage on Seti I. Independent choice "
    "uses that place for a second passage with Amenhotep III.",
    "2240932998074597895": "All five independently chosen passages say James Earl Jones. "
    "Joint choice gives other places to other names, but the model is not sure of any (*adds "
    "little*): the last two are found by luck.",
    "wqr000304": "A passage for each language.",
    "-8867264869660631865": "One passage names the voices of the film and of the series. "
    "Of the five independently chosen passages, four name Bradley Cooper. The third voice is "
    "found by luck: the passage with his name is about turtles, and according to the model it "
    "adds nothing (*adds little*).",
    "4965896127144803833": "Joint choice gives the passage with the conquistadors a place that "
    "independent choice gives to another passage with smallpox. The model does not know that it "
    "adds them (*adds little*).",
    "-7928734433655034282": "Two dates, two passages of the same article: the passage that adds "
    "October 21 is chosen instead of another that repeats 1803.",
    "8147342740211441902": "No candidate contains the answer in context. Joint choice makes "
    "five guesses, five presidents, and two of them are right.",
    "wqr002474": "Lost: a passage on the FA Cup contains the word *Portsmouth*, so "
    "the model counts that answer as found and skips the passage on Portsmouth itself.",
    "-6055400232006639298": "Lost: of two passages on the Genie, the one that names only Robin "
    "Williams comes first; the other, with both actors, would add a name to which the model "
    "gives little probability.",
    "-7777910189889414373": "Lost: most of the probability is on *Easter*, and the *Easter "
    "Vigil* is in a passage that was chosen before. So the passage that says when in the Vigil "
    "the candle is lit adds too little, and another that says *midnight* is chosen.",
}
"""What each example shows."""
HEAD = """# Ten examples

Made by `recipes/examples.py` with the bundled model, from the 100 candidates of `jpr retrieve`.
*Independent* takes the five passages with the highest probability, each scored independently
(IndepPR: the first step of the same model). *Joint* takes one passage after another, by the answers
that each adds. Passages are shown by the titles of their articles; in brackets are the gold answers
that a passage contains. The questions were selected by hand among those of the development sets on
which the two differ: seven that joint choice wins and three that it loses. In the run of the
published table `joint`, in 16 bits, it wins 109 and loses 37 of 2,757.

Below each example is the search tree, here a chain: P is the probability of the choice given the
passages above it; then come the answers that the passage adds according to the model, each with its
probability, and the next best passage that was not chosen."""


def named(answers: Sequence[Sequence[str]], covered: set[int]) -> str:
    """Return the answers that a passage contains."""
    return f" ({'; '.join(answers[one][0] for one in sorted(covered))})" if covered else ""


def column(ranking: Ranking) -> list[str]:
    """Return the chosen passages with their answers."""
    covered = cover([ranking]).covers(0)
    answers = ranking.question.answers
    return [
        hit.passage.title + named(answers, set(covers))
        for hit, covers in zip(ranking.hits, covered, strict=True)
    ]


def steps(reply: Reply, given: Ranking) -> Iterator[str]:
    """Yield the lines of the tree."""
    titles = [hit.passage.title for hit in given.hits]
    for depth, node in enumerate(reply.nodes):
        added = [
            f"{one.text} {one.probability:.2f}" for one in node.expected if one.probability >= LEAST
        ]
        line = f"{'   ' * depth}{'└─ ' if depth else ''}{titles[node.passage]}"
        other = titles[node.instead_of[0][1]] if node.instead_of else "nothing"
        what = ", ".join(added[:SHOWN]) or "little"
        yield f"{line}: P {exp(node.log_prob):.2f}; adds {what}; not {other}"


def example(number: int, data: str, choices: Sequence[Reply], given: Ranking) -> Iterator[str]:
    """Yield the parts of one example."""
    question = given.question
    yield f"## {number}. {question.text}"
    answers = " · ".join(aliases[0] for aliases in question.answers)
    yield f"{DATA[data]}. Answers: {answers}. {EXAMPLES[question.id]}"
    columns = [column(choice.ranking) for choice in choices]
    rows = [[str(place + 1), *both] for place, both in enumerate(zip(*columns, strict=True))]
    yield markdown(["", "independent", "joint"], rows)
    yield "```text\n" + "\n".join(steps(choices[1], given)) + "\n```"


def examples_of(questions: Path, runs: Path) -> dict[str, tuple[str, Ranking]]:
    """Return the candidates of the examples, with their answers."""
    found = {}
    for data in DATA:
        known: dict[str, Question] = {
            question.id: question for question in load_questions(questions / f"{data}.jsonl")
        }
        for ranking in load_rankings(runs / f"hybrid-{data}.jsonl"):
            id = ranking.question.id
            if id in EXAMPLES:
                found[id] = data, Ranking(known[id], ranking.hits)
    return found


def main() -> None:
    """Choose both ways, and print the page."""
    parser = parser_of(__doc__, "questions", "runs")
    options = parser.parse_args()
    found = examples_of(options.questions, options.runs)
    given = [found[id] for id in EXAMPLES]
    ways = [JointReranker.load(decoder="independent"), JointReranker.load()]
    chosen = [list(way.decode_many([ranking for _, ranking in given], K)) for way in ways]
    parts = (
        example(number, data, choices, ranking)
        for number, ((data, ranking), choices) in enumerate(
            zip(given, zip(*chosen, strict=True), strict=True), start=1
        )
    )
    print("\n\n".join([HEAD, *chain.from_iterable(parts)]))


if __name__ == "__main__":
    main()
