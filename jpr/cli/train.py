"""`jpr train`."""

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path

from jpr.cli import output
from jpr.cli.arguments import Arguments, argument, option
from jpr.errors import ConfigError, MissingExtraError
from jpr.io.json_files import write_json

_PACKAGES = ("torch", "safetensors")  # packages of which the manifest holds the versions


class TrainArguments(Arguments):
    recipe: Path = argument("TOML file.", "RECIPE")
    set: list[str] | None = option(
        "Input", "Change a value of the recipe; repeatable.", metavar="TABLE.KEY=VALUE"
    )
    out: Path | None = option("Output", "Folder to write.", "-o", show_default="the recipe's name")
    resume: bool = option("Output", "Resume an interrupted run.", default=False)


def run(options: TrainArguments) -> None:
    """Train a joint reranker or a reader from a recipe.

    Writes the best weights, for `jpr rerank` or `jpr read`, and log.jsonl, manifest.json and, with
    the plot extra, curve.svg. A resumed run ends with the same weights. With several GPUs:
    torchrun --nproc-per-node 8 -m jpr train RECIPE

    Example: jpr train recipes/joint.toml --set loop.steps=1000 --set objective.gamma=1.5
    Example: jpr train recipes/reader.toml --out reader
    """
    if not find_spec("torch"):
        raise MissingExtraError("training", "train")
    from jpr.io.manifest import manifest
    from jpr.train.distributed import World
    from jpr.train.joint import train_joint
    from jpr.train.reader import train_reader
    from jpr.train.recipe import JointTraining, read_recipe

    recipe = options.recipe
    config = read_recipe(recipe, options.set or [])
    folder, settings = options.out or Path(recipe.stem), asdict(config)
    world = World.join()
    if world.is_first:
        _check_folder(folder, settings, options.resume)
    display = _display(config.loop.steps) if world.is_first else nullcontext(lambda _line: None)
    with display as report:
        if isinstance(config, JointTraining):
            progress = train_joint(config, folder, report=report, world=world)
        else:
            progress = train_reader(config, folder, report=report, world=world)
    if world.is_first:
        packs = [dataset.pack for dataset in config.data] + list(config.dev.packs)
        inputs = {"recipe": recipe} | {pack: Path(pack, "pack.json") for pack in packs}
        about = manifest(" ".join(sys.argv), inputs, progress.seconds, packages=_PACKAGES)
        about |= {"settings": settings, "progress": asdict(progress)}
        write_json(folder / "manifest.json", about)
        _plot(folder)
        best = f"best weights (step {progress.best_step}, score {100 * progress.best:.1f})"
        weights = best if progress.best_step else "last weights"
        output.note(f"{progress.step} steps; wrote the {weights} to {folder}")
    world.leave()


def _check_folder(folder: Path, settings: Mapping[str, object], resume: bool) -> None:
    """Reject a folder of another run; write the recipe, for a later check."""
    from jpr.train.recipe import upgrade_settings

    saved, text = folder / "recipe.json", json.dumps(settings, indent=1) + "\n"
    if resume and not saved.exists():
        raise ConfigError(f"{folder}: holds no run to resume; remove --resume")
    if resume and upgrade_settings(saved.read_text(encoding="utf-8")) != text:
        raise ConfigError(f"{folder}: was started with a different recipe; resume with that one")
    if not resume and folder.exists() and any(folder.iterdir()):
        raise ConfigError(f"{folder}: is not empty; choose another folder, or --resume")
    write_json(saved, settings)


def _plot(folder: Path) -> None:
    from jpr.evaluation.plots import plot_training
    from jpr.train.state import read_log

    try:
        plot_training(read_log(folder / "log.jsonl"), folder / "curve.svg")
    except MissingExtraError as error:
        output.note(f"no curve: {error}")


@contextmanager
def _display(steps: int) -> Iterator[Callable[[Mapping[str, object]], None]]:
    """Show a bar with loss, speed and best score; if standard error is piped, only evaluations."""
    latest: dict[str, object] = {}
    with output.progress("training", steps) as progress:

        def report(line: Mapping[str, object]) -> None:
            done = int(str(line["step"])) - int(str(latest.get("step", 0)))
            latest.update(line)
            progress(done, _shown(latest))
            if "score" in line and not sys.stderr.isatty():
                output.note(f"step {line['step']}: {_shown(line)} (now {line['score']:.3f})")

        yield report


def _shown(line: Mapping[str, object]) -> str:
    known = {"loss": "loss {:.3f}", "tokens_per_second": "{:,.0f} tokens/s", "best": "best {:.3f}"}
    return "  ".join(form.format(line[name]) for name, form in known.items() if name in line)
