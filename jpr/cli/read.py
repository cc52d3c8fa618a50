"""`jpr read`."""

from pathlib import Path

from jpr.batch import read_to_file
from jpr.cli import files, output
from jpr.cli.arguments import Arguments, Corpus, Out, Questions, Settings, Workers, argument, option
from jpr.io.cluster import StageSpec, open_runner
from jpr.io.settings import parse_settings


class ReadArguments(Arguments):
    source: Path = argument("Run: file of rankings.", "RUN")
    out: Out
    k: int | None = option("Input", "Read the first k passages.", min=1, show_default="all")
    choose: int | None = option(
        "Model", "Choose this many jointly, keep only their answers; all are read.", min=1
    )
    model: str | None = option(
        "Model",
        "Folder of a joint model or a T5; with --llm, the name of the endpoint's model.",
        show_default="bundled",
    )
    llm: str | None = option(
        "Model", "Base URL of an OpenAI-compatible endpoint; its key is OPENAI_API_KEY."
    )
    min_probability: float | None = option(
        "Output",
        "Minimum probability of an answer.",
        show_default="odds of a fifth of the likeliest one's",
    )
    max_answers: int = option("Output", "Maximum answers per question.", min=1, default=64)
    set: Settings = None
    questions: Questions = None
    corpus: Corpus = None
    workers: Workers = None

    def __post_init__(self) -> None:
        from jpr.read.load import FusionSettings, settings_class

        self.check_separate("out", "source", "corpus", "questions")
        for_spans = ("min_probability", "choose")
        if self.llm is not None:
            self.reject("has no effect with --llm; remove it", *for_spans, "workers")
        elif settings_class(self.model, self.llm) is FusionSettings:
            self.reject("has no effect with a T5; remove it", *for_spans)
        else:
            self.reject("needs a T5 reader (--model FOLDER) or --llm; remove it", "set")
            if self.choose:
                self.reject("has no effect with --choose, which reads all passages", "k")


def run(options: ReadArguments) -> None:
    """Extract every distinct answer from the passages of a run.

    Writes JSON lines. Each answer comes with the passages that contain it, and its offsets there.
    An interrupted command resumes when it is run again.

    Settings (--set) of a T5: beams, stop-penalty (higher values give more answers). Of --llm:
    timeout (seconds per question), skip (id of a question; repeatable). Of both: any-text (true:
    keep answers that no passage contains).

    Example: jpr read joint.jsonl --out answers.jsonl
    Example: jpr read first.jsonl --choose 5 --out answers.jsonl
    Example: jpr read joint.jsonl --model models/reader --set beams=4 --out answers.jsonl
    Example: jpr read joint.jsonl --llm http://localhost:8000/v1 --model qwen --out answers.jsonl
    """
    from jpr.read.load import ReadOptions, open_reader, settings_class

    model, llm, limit = options.model, options.llm, options.max_answers
    settings = parse_settings(settings_class(model, llm), options.set or ())
    described = ReadOptions(
        model or "", llm, settings, limit, options.min_probability, options.choose
    )
    reader = open_reader(described)
    rankings = files.read_run(options.source, options.corpus, options.questions)
    rankings = [ranking.top(options.k) for ranking in rankings] if options.k else rankings
    name, n = model or "the bundled model", len(rankings)
    spec = StageSpec(open_reader, (described.for_worker(),), reader.key, name)
    with (
        output.warnings_as_notes(),
        open_runner(options.workers, spec) as on,
        output.progress("reading", n) as progress,
    ):
        read_to_file(reader, rankings, options.out, progress, on)
    output.note(f"wrote the answers to {output.count(n, 'question')} to {options.out}")
