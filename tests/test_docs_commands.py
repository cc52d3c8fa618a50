"""The commands of the README, the tutorial and the how-to pages run, and print what is shown.

Blocks of a page that begin with "```bash" run one after another in one shell (`set -euo pipefail`),
in an empty folder, with an empty cache. A "```text" block right after one shows what it prints, on
standard output and standard error. What is shown and what is printed are compared so:

- … stands for anything;
- of numbers, percentages and those with a fraction may differ: models round otherwise elsewhere;
- any white space is one space, as pages break long lines;
- asterisks do not count: a terminal has colours where piped text has **answers**.

Not run are blocks with `pip install`, the test command, and those that begin "```bash not-run",
where the sentence before says why. `jpr serve` runs in the background, on a port of its own, until
the page ends or serves again, and a stand-in of ours is the language model. Commands of all other
pages are only parsed.
"""

import os
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory

import pytest
import typer.main

from jpr.cli import app
from tests.cli.running import jpr
from tests.read.fake_llm import answers, serving

ROOT = Path(__file__).resolve().parent.parent
RUN = [
    *sorted(ROOT.glob("docs/howto/*.md"))[::-1],
    ROOT / "README.md",
    ROOT / "docs" / "tutorial.md",
]
"""In this order: what takes longest comes first."""
PARSED = sorted({*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")} - set(RUN))
BLOCK = re.compile(r"^```(?P<info>[^\n]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
TEST_COMMAND = "<!-- the test command -->\n"
SERVED, LLM = "127.0.0.1:8080", "http://localhost:8000/v1"
ANSWERS = answers(
    {"answer": "Margaret Doyle", "passages": [1]}, {"answer": "Ingrid Solheim", "passages": [2]}
)
"""What the stand-in for a language model says, whatever it is asked."""
NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?%|[+-]?\d+\.\d+")
FOREIGN = re.compile(r"^.*\[[WE]:onnxruntime.*\n", re.MULTILINE)
"""Lines that a library prints on some machines."""
PRELUDE = """\
set -euo pipefail
server=
finish() { if [ -n "$server" ]; then kill "$server" && wait "$server"; fi; }
trap finish EXIT
jpr() {
  if [ "$1" != serve ]; then command jpr "$@"; return; fi
  finish
  command jpr "$@" --port "$PORT" > "$SHOWN/served" 2>&1 &
  server=$!
  until (exec 3<> "/dev/tcp/127.0.0.1/$PORT") 2> /dev/null; do kill -0 "$server"; sleep 0.1; done
}
"""


@dataclass(frozen=True, slots=True)
class Commands:
    """A block of commands, and what is shown of what they print, if anything."""

    text: str
    shown: str | None


def commands_of(page: str) -> list[Commands]:
    """Return the blocks of a page that are to be run, in order."""
    found: list[Commands] = []
    end = 0
    for block in BLOCK.finditer(page):
        before, end = page[end : block.start()], block.end()
        if block["info"] == "text" and found and not before.strip():
            found[-1] = Commands(found[-1].text, block["text"])
        elif block["info"] == "bash":
            is_run = "pip install" not in block["text"] and not before.endswith(TEST_COMMAND)
            found.append(Commands(block["text"] if is_run else "", None))
        else:
            found.append(Commands("", None))  # so that what follows it belongs to nothing else
    return [one for one in found if one.text]


def pattern(shown: str) -> re.Pattern[str]:
    """Return what matches all that may be printed where this is shown."""
    pieces = (NUMBER.split(piece.strip()) for piece in flat(shown).split("…"))
    numbered = (r"[+-]?[\d.]+%?".join(map(re.escape, piece)) for piece in pieces)
    return re.compile(r"\s*.*?\s*".join(numbered))


def flat(text: str) -> str:
    """Leave out asterisks, and make one space of all white space."""
    return " ".join(FOREIGN.sub("", text).replace("*", "").split())


@pytest.mark.parametrize(
    ("shown", "printed", "fits"),
    [
        ("Ida 35% [1]", "Ida   41%\n[1]", True),
        ("Ida 35% [1]", "Ida 35% [2]", False),
        ("says … Ida …\n", "says that **Ida** came\nlate", True),
        ("says … Ida", "says … that Ada", False),
        ("score -0.31", "score -1.02", True),
        ("0 lost", "1 lost", False),
    ],
)
def test_what_is_shown_may_differ_from_what_is_printed_only_so(
    shown: str, printed: str, fits: bool
) -> None:
    assert bool(pattern(shown).fullmatch(flat(printed))) is fits


def script_of(blocks: list[Commands], port: int, llm: str) -> str:
    """Return a script that writes what each block prints to a file with its number."""
    parts = [f'exec > "$SHOWN/{at}" 2>&1\n{one.text}' for at, one in enumerate(blocks)]
    script = "".join(parts).replace(SERVED, f"127.0.0.1:{port}").replace(LLM, llm)
    return f"{PRELUDE}{script}"


def environment(shown: Path, port: int) -> dict[str, str]:
    """Return what the shell knows: this Python first, no settings of who runs the tests."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("JPR_")}
    kept.pop("OPENAI_API_KEY", None)
    return kept | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "JPR_CACHE": str(shown / "cache"),
        "SHOWN": str(shown),
        "PORT": str(port),
        "OMP_NUM_THREADS": "1",
        "no_proxy": "127.0.0.1",
    }


def free_port() -> int:
    """Return a port that nobody has."""
    with socket.create_server(("127.0.0.1", 0)) as bound:
        return int(bound.getsockname()[1])


def printed_by(page: Path) -> tuple[list[str], int]:
    """Run a page; return what its blocks printed, as far as it came, and the exit code."""
    blocks, port = commands_of(page.read_text(encoding="utf-8")), free_port()
    with serving(ANSWERS) as llm, TemporaryDirectory() as work, TemporaryDirectory() as folder:
        shown = Path(folder)
        (shown / "script").write_text(script_of(blocks, port, llm.url), encoding="utf-8")
        done = subprocess.run(
            ["bash", shown / "script"],
            cwd=work,
            env=environment(shown, port),
            stdin=subprocess.DEVNULL,
            check=False,
        )
        files = [shown / str(at) for at in range(len(blocks))]
        texts = [file.read_text(encoding="utf-8") for file in files if file.exists()]
        return texts, done.returncode


@pytest.fixture(scope="module")
def runs(request: pytest.FixtureRequest) -> Iterator[dict[Path, Future[tuple[list[str], int]]]]:
    """The pages whose tests are expected, side by side: one on each core, where it waits for none.

    Where tests are shared out among processes (xdist), each of these knows all tests and would run
    every page: there a test runs its own.
    """
    if "PYTEST_XDIST_WORKER" in os.environ:
        yield {}
        return
    expected = {item.name for item in request.session.items}
    test = test_commands_print_what_is_shown.__name__
    pages = [page for page in RUN if f"{test}[{page.name}]" in expected]
    cores = list(os.sched_getaffinity(0))
    with ThreadPoolExecutor(len(cores), initializer=lambda: stay_on(cores.pop())) as pool:
        yield {page: pool.submit(printed_by, page) for page in pages}


def stay_on(core: int) -> None:
    """Keep a thread, and what it starts, to one core."""
    os.sched_setaffinity(0, {core})


@pytest.mark.skipif(not which("curl"), reason="there is no curl here")
@pytest.mark.parametrize("page", RUN, ids=[page.name for page in RUN])
def test_commands_print_what_is_shown(
    page: Path, runs: dict[Path, Future[tuple[list[str], int]]]
) -> None:
    blocks = commands_of(page.read_text(encoding="utf-8"))
    texts, code = runs[page].result() if page in runs else printed_by(page)
    assert code == 0, f"{blocks[len(texts) - 1].text}\n{texts[-1]}"
    for one, text in zip(blocks, texts, strict=True):
        if one.shown is not None and not pattern(one.shown).fullmatch(flat(text)):
            assert text == one.shown, one.text  # for the difference


def test_the_example_has_the_numbers_that_are_shown() -> None:
    page = (ROOT / "docs" / "howto" / "evaluate.md").read_text(encoding="utf-8")
    printed = "\n".join(line.rstrip() for line in jpr("evaluate", "--example").splitlines())
    assert printed.strip() in page


def command_lines(page: Path) -> Iterator[list[str]]:
    """Yield the arguments of all commands of ours in a page."""
    for block in BLOCK.finditer(page.read_text(encoding="utf-8")):
        if block["info"].split()[:1] == ["bash"]:
            for line in block["text"].replace("\\\n", " ").splitlines():
                words = shlex.split(line, comments=True)
                if words[:1] == ["jpr"]:
                    yield words[1:]


@pytest.mark.parametrize("page", PARSED, ids=[page.name for page in PARSED])
def test_commands_of_other_pages_have_the_options_they_show(page: Path) -> None:
    commands = typer.main.get_group(app).commands
    for name, *arguments in command_lines(page):
        with commands[name].make_context(name, arguments):
            pass
