"""`jpr train`: a joint reranker or a reader by a recipe."""

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jpr.cli import screen
from jpr.errors import ConfigError, MissingExtraError

if TYPE_CHECKING:
    from jpr.train.recipe import JointTraining, ReaderTraining
    from jpr.train.state import RunProgress

NAME = "train"
HELP = """Train a joint reranker, or a reader, as a recipe says.

The folder that is written holds the best weights, ready for jpr rerank or jpr read, and how it
went: log.jsonl, manifest.json, and with the extra plot a picture, curve.svg. A run that was
interrupted goes on with --resume, to the same weights. With several GPUs: torchrun
--nproc-per-node 8 -m jpr train RECIPE

Example: jpr train recipes/joint.toml --set loop.steps=1000 --set objective.gamma=1.5 --out joint

Example: jpr train recipes/reader.toml --out reader
"""
Tell = Callable[[Mapping[str, object]], None]


def run(
    recipe: Annotated[Path, typer.Argument(metavar="RECIPE", help="TOML file.")],
    changes: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a setting.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder to write; the recipe's name if none.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with a run that was interrupted.")
    ] = False,
) -> None:
    """Check everything, train, and write down what came of it."""
    if not find_spec("torch"):
        raise MissingExtraError("training", "train")
    from jpr.train.distributed import World
    from jpr.train.joint import train_joint
    from jpr.train.reader import train_reader
    from jpr.train.recipe import JointTraining, read_any_recipe

    config = read_any_recipe(recipe, changes or [])
    folder = out or Path(recipe.stem)
    world = World.join()
    if world.is_first:
        _check_folder(folder, config, resume)
    with _display(config.loop.steps, world.is_first) as tell:
        if isinstance(config, JointTraining):
            progress = train_joint(config, folder, report=tell, device=world.device, world=world)
        else:
            progress = train_reader(config, folder, report=tell, device=world.device, world=world)
    if world.is_first:
        _write_down(folder, recipe, config, progress)
        screen.note(_told(progress, folder))
    world.leave()


def _check_folder(folder: Path, config: "JointTraining | ReaderTraining", resume: bool) -> None:
    """Refuse to mix two runs; note the recipe, so that a later one can be compared."""
    from jpr.train.recipe import upgrade_settings

    noted, settings = folder / "recipe.json", json.dumps(asdict(config), indent=1) + "\n"
    if resume and not noted.exists():
        raise ConfigError(f"{folder}: holds no run to resume; leave out --resume")
    if resume and upgrade_settings(noted.read_text(encoding="utf-8")) != settings:
        raise ConfigError(f"{folder}: was begun with another recipe; resume with that one")
    if not resume and folder.exists() and any(folder.iterdir()):
        raise ConfigError(f"{folder}: is not empty; name another folder, or go on with --resume")
    from jpr.io.atomic import publish

    with publish(noted) as stream:
        stream.write(settings)


def _write_down(
    folder: Path, recipe: Path, config: "JointTraining | ReaderTraining", progress: "RunProgress"
) -> None:
    """Write the manifest and, where that can be drawn, the curve."""
    from jpr.evaluation.plots import plot_training
    from jpr.io.atomic import publish
    from jpr.io.manifest import manifest
    from jpr.train.state import read_log

    packs = [dataset.pack for dataset in config.data] + list(config.dev.packs)
    inputs = {"recipe": recipe} | {pack: Path(pack, "pack.json") for pack in packs}
    packages = ("torch", "safetensors")
    about = manifest(" ".join(sys.argv), inputs, progress.seconds, packages=packages)
    about |= {"settings": asdict(config), "progress": asdict(progress)}
    with publish(folder / "manifest.json") as stream:
        stream.write(json.dumps(about, indent=1) + "\n")
    try:
        plot_training(read_log(folder / "log.jsonl"), folder / "curve.svg")
    except MissingExtraError as error:
        screen.note(f"no curve: {error}")


def _told(progress: "RunProgress", folder: Path) -> str:
    if not progress.best_step:
        return f"the weights of step {progress.step} are in {folder}"
    best = f"the best, of step {progress.best_step} with {100 * progress.best:.1f}"
    return f"{progress.step} steps; {best}, is in {folder}"


@contextmanager
def _display(steps: int, wanted: bool) -> Iterator[Tell]:
    """Show a bar with loss, speed and best score; where standard error is piped, evaluations."""
    if not wanted:
        yield lambda _line: None
        return
    if not sys.stderr.isatty():
        yield _note_evaluation
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeRemainingColumn as Remaining

    shown = TextColumn("{task.fields[shown]}")
    columns = (TextColumn("training"), BarColumn(), MofNCompleteColumn(), Remaining(), shown)
    latest: dict[str, object] = {}
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=steps, shown="")

        def tell(line: Mapping[str, object]) -> None:
            latest.update(line)
            bar.update(task, completed=int(str(line["step"])), shown=_shown(latest))

        yield tell


def _shown(line: Mapping[str, object]) -> str:
    known = {"loss": "loss {:.3f}", "tokens_per_second": "{:,.0f} tokens/s", "best": "best {:.3f}"}
    return "  ".join(form.format(line[name]) for name, form in known.items() if name in line)


def _note_evaluation(line: Mapping[str, object]) -> None:
    if "score" in line:
        screen.note(f"step {line['step']}: {_shown(line)} (now {line['score']:.3f})")
