"""`jpr ask`."""

import sys
from math import isfinite

import jpr
from jpr.cli import output
from jpr.cli.arguments import Arguments, Docs, IndexFolder, Json, argument, option
from jpr.errors import ConfigError
from jpr.formats.replies import reply_json
from jpr.rerank.order import warn_if_cut
from jpr.types import DECODERS, INDEPENDENT, TREES


class AskArguments(Arguments):
    question: str = argument("Question to answer.")
    docs: Docs = None
    index: IndexFolder = None
    k: int = option("Input", "Number of passages to choose.", default=5)
    json: Json = False
    explain: bool = option("Output", "Show which answer each passage adds.", default=False)
    compare: bool = option("Output", "Also show the passages chosen independently.", default=False)
    decode: str | None = option("Model", f"One of {', '.join(DECODERS)}.", show_default="model's")
    beta: float | None = option("Model", "Length penalty of tree and sets; larger: a wider tree.")

    def __post_init__(self) -> None:
        if not self.question.strip():
            raise ConfigError("the question is empty")
        self.exclude("docs", "index")
        self.check_positive("k")
        self.check_choice("decode", DECODERS)
        if self.beta is not None and self.decode not in (None, *TREES):
            raise ConfigError(f"--beta has no effect with --decode {self.decode}; remove it")
        if self.beta is not None and not isfinite(self.beta):
            raise ConfigError(f"--beta {self.beta}: must be a finite number")


def run(options: AskArguments) -> None:
    """Answer a question and show the passages that support each answer.

    Without --docs and --index, the bundled encyclopedia is searched. A folder of documents (.txt
    .md .html .pdf .docx .csv .jsonl) is indexed into the cache on first use and updated when its
    files change.

    Example: jpr ask "who plays mark on roseanne"
    Example: jpr ask "what are the deadlines" --docs contracts --explain
    Example: jpr ask "who won the cup" --index wiki -k 10 --compare
    """
    with output.warnings_as_notes():
        pipeline = jpr.open_pipeline(
            options.docs, options.index, options.k, device="cpu", watched=output.progress
        )
    with output.spinner("reading and choosing passages"):
        opened = pipeline.open(options.question)
        reply = opened.reply(beta=options.beta, decoder=options.decode)
        independent = opened.reply(decoder=INDEPENDENT) if options.compare else None
    with output.warnings_as_notes():
        warn_if_cut(bool(reply.truncated))
    if options.json:
        output.write_json(reply_json(reply, independent))
        return
    from jpr.cli.render import reply_parts

    output.write(output.rendered(reply_parts(reply, independent, explain=options.explain)))
    if options.docs is None and options.index is None and sys.stdout.isatty():
        output.note("answered from the bundled encyclopedia; --docs FOLDER searches your files")
