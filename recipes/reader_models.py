"""Train readers for the passages of each source, and let each answer: on a GPU.

Needs: `packs/train` and the packs of the sets (docs/train.md), the same with flan-t5-small's tokens
as `packs/t5_*` (candidates in the same order; of the training questions those to read for),
`models/joint-0` and `models/independent-0` (recipes/joint_models.py), `models/inside` (the model
that comes with the package, as docs/howto/train.md makes `begin` of it), and `models/flan`. What is
exists is not made again, and training that was stopped resumes.

    python -m recipes.reader_models --answers answers --commit $(git rev-parse --short HEAD)

Sources of the ten passages of a question: the first stage; IndepPR; JPR; the bundled model
("inside"); the same with λ = 0.5, which prefers passages that state an answer
("lambda"). Systems: for
each, a T5 trained on what that source chooses for the training questions (recipes/reader.toml), and
a joint model's own spans (`--reads`), of these passages alone or ("all") of all candidates. "half"
is the T5 with every second layer left out and twice the passages: by `recipes.reader_memory` 20
is the most that then trains in the memory of the whole T5.

Writes `places/SOURCE-PACK.npy`, `models/read-SOURCE`, and `answers/SYSTEM-PACK.json`: for every
question the answers as tokens. recipes/reader_table.py scores them.
"""

import argparse
import json
import platform
import re
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file

from jpr.decode.answers import AnswerCalibration, Evidence
from jpr.decode.search import Row
from jpr.io.atomic import publish, publish_binary
from jpr.models.generation import GeneratedAnswer, generate_answers
from jpr.models.tries import Tries
from jpr.read.generate import tries_of
from jpr.rerank.decoding import Decoding
from jpr.rerank.evidence import Vocabulary, find_evidence
from jpr.rerank.torch_scorer import TorchScorer
from jpr.train.batch import BatchBuilder, concatenate_pieces
from jpr.train.development import Chooser, chosen_places
from jpr.train.distributed import World
from jpr.train.joint import load_model, open_dataset
from jpr.train.pack import Pack
from jpr.train.reader import PackReader, load_reader, top_candidates, train_reader
from jpr.train.recipe import DataConfig, ModelConfig, ReaderConfig, ReaderTraining, read_recipe
from jpr.train.sampler import CandidateBatch, Dataset
from recipes.command_line import parser_of

RECIPE = Path(__file__).parent / "reader.toml"
SETS = ("ambignq_dev", "webquestions_dev", "webqsp_test", "trec_test", "nqopen_dev")
K, MOST, NOWHERE = 10, 64, 255
Places = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Source:
    """Whose passages are read: a joint model's, or the first stage's."""

    model: str
    decoding: Decoding


SOURCES = {
    "first": Source("", Decoding("independent")),
    "independent": Source("independent-0", Decoding("independent")),
    "joint": Source("joint-0", Decoding("seq")),
    "inside": Source("inside", Decoding("seq")),
    "lambda": Source("inside", Decoding("seq", relevance=0.5)),
}


@dataclass(frozen=True, slots=True)
class Size:
    """A T5 to begin with, and how many passages it reads."""

    weights: str
    k: int


SIZES = {"t5": Size("flan", K), "half": Size("flan-half", 20)}
WIDEST = max(size.k for size in SIZES.values())


class Chosen:
    """The choices of sources among the candidates of packs, kept in files."""

    def __init__(self, folder: Path, models: Path, device: str, limit: int) -> None:
        """Choose with the models of a folder."""
        self._folder, self._models, self._device, self._limit = folder, models, device, limit
        folder.mkdir(parents=True, exist_ok=True)

    def __call__(self, source: str, pack: str, ids: Sequence[str], k: int = K) -> Places:
        """Return the places (Q, k) chosen for the questions with these ids; 255 for none."""
        if not self._file(source, pack).exists():
            alike = [one for one in SOURCES if SOURCES[one].model == SOURCES[source].model]
            for name, found in self._chosen(alike, pack, ids).items():
                with publish_binary(self._file(name, pack)) as out:
                    np.save(out, found)
        places: Places = np.load(self._file(source, pack))
        return places[:, :k]  # passages are chosen one after another, so the first k are those of k

    def _file(self, source: str, pack: str) -> Path:
        return self._folder / f"{source}-{pack}.npy"

    def _chosen(self, sources: Sequence[str], pack: str, ids: Sequence[str]) -> dict[str, Places]:
        """Return what sources with one model choose, the passages being read once."""
        dataset = open_dataset(DataConfig(f"packs/{pack}"))
        number = {id: at for at, id in enumerate(dataset.pack.question_ids)}
        some = np.array([number[id] for id in ids])
        found = {name: np.full((len(some), WIDEST), NOWHERE, np.uint8) for name in sources}
        weights = SOURCES[sources[0]].model
        if not weights:
            there = np.diff(dataset.pack.candidate_starts)[some]
            for own in found.values():
                own[:] = np.where(np.arange(WIDEST) < there[:, None], np.arange(WIDEST), NOWHERE)
            return found
        model, prompts = load_model(ModelConfig(init=str(self._models / weights)))
        ways = {name: SOURCES[name].decoding for name in sources}
        choose = Chooser(model.to(self._device).eval(), Vocabulary.of(prompts.tokenizer), ways)
        builder = BatchBuilder(dataset.pack, prompts, self._device)
        some = some[: self._limit or len(some)]
        for first in range(0, len(some), 64):
            batch = dataset.batch(some[first : first + 64], dataset.width)
            chosen = chosen_places(choose, builder, batch, WIDEST)
            for name in sources:
                for row, places in enumerate(chosen[name]):
                    found[name][first + row, : len(places)] = places
        return found


def scores_of(pack: Pack, places: Places) -> NDArray[np.float16]:
    """Return scores of a pack's candidates by which those at the places are read, no others."""
    scores = np.full(len(pack.candidates), -np.inf, dtype=np.float16)
    for start, row in zip(pack.candidate_starts.tolist(), places, strict=False):
        own = row[row != NOWHERE].astype(np.int64)
        scores[start + own] = -np.arange(len(own))
    return scores


def scored(pack: str, places: Places, file: Path) -> DataConfig:
    """Return a pack of which only the places are read."""
    file.parent.mkdir(parents=True, exist_ok=True)
    np.save(file, scores_of(Pack.open(f"packs/{pack}"), places))
    return DataConfig(f"packs/{pack}", scores=str(file))


def trained(
    source: str, reader: str, chosen: Chosen, models: Path, options: argparse.Namespace
) -> Path:
    """Train a reader of a source unless it exists."""
    train, size = options.train, SIZES[reader]
    folder = models / f"read-{reader}-{source}"
    if (folder / "model.safetensors").exists():
        return folder
    halve(models)
    recipe = read_recipe(RECIPE)
    assert isinstance(recipe, ReaderTraining)
    ids = Pack.open(f"packs/t5_{train}").question_ids
    places = chosen(source, train, ids, size.k)
    dataset = scored(f"t5_{train}", places, Path(f"scores/{reader}-{source}-{train}.npy"))
    loop = replace(recipe.loop, steps=options.steps or recipe.loop.steps)
    begun = replace(recipe.reader, weights=str(models / size.weights))
    train_reader(
        replace(recipe, k=size.k, loop=loop, reader=begun, data=(dataset,)),
        folder,
        report=lambda line: print(reader, source, json.dumps(line), flush=True),
        world=World(device=options.device),
    )
    return folder


def halve(models: Path) -> None:
    """Write flan-t5-small without every second layer, unless it exists."""
    whole, home = models / SIZES["t5"].weights, models / SIZES["half"].weights
    if (home / "model.safetensors").exists():
        return
    home.mkdir(exist_ok=True)
    config = json.loads((whole / "config.json").read_text(encoding="utf-8"))
    config |= {name: config[name] // 2 for name in ("num_layers", "num_decoder_layers")}
    (home / "config.json").write_text(json.dumps(config), encoding="utf-8")
    shutil.copy(whole / "tokenizer.json", home)
    kept = {}
    for name, weight in load_file(whole / "model.safetensors").items():
        found = re.fullmatch(r"(\w+\.block\.)(\d+)(\..+)", name)
        if not found:
            kept[name] = weight
        elif int(found[2]) % 2 == 0:
            kept[f"{found[1]}{int(found[2]) // 2}{found[3]}"] = weight
    save_file(kept, home / "model.safetensors")


def batches(dataset: Dataset, size: int, limit: int) -> Iterator[NDArray[np.int64]]:
    """Yield the numbers of questions, some at a time."""
    every = np.arange(min(limit or len(dataset.pack), len(dataset.pack)))
    for first in range(0, len(every), size):
        yield every[first : first + size]


@torch.inference_mode()
def write_answers(
    reader: PackReader, dataset: Dataset, builder: BatchBuilder, batch: CandidateBatch
) -> list[list[GeneratedAnswer]]:
    """Return the answers written for questions, all of which have passages."""
    batch = top_candidates(dataset, batch, reader.k)
    memory, lengths, _ = reader.memory(builder, batch)
    tries = tries_for(reader, dataset.pack, builder, batch)
    return generate_answers(reader.model, memory, lengths, reader.options, tries)


vocabulary_of = lru_cache(maxsize=1)(Vocabulary.of)


def tries_for(
    reader: PackReader, pack: Pack, builder: BatchBuilder, batch: CandidateBatch
) -> Tries:
    """Return the tries of what can be answers in titles and texts of the candidates."""
    rows = pack.candidates[batch.edges[batch.present]].astype(np.int64)
    first, title = pack.passage_starts[rows], pack.title_lengths[rows].astype(np.int64)
    text = pack.passage_starts[rows + 1] - first - title
    read = np.stack([title, np.minimum(text, builder.settings.max_tokens)], 1)
    starts = np.stack([first, first + title], 1) + builder.first_passage
    counts = 2 * batch.present.sum(axis=1)
    lengths, begin, texts = (
        torch.from_numpy(values).to(builder.device) for values in (read, starts, counts)
    )
    ids = concatenate_pieces(builder.tokens, begin, lengths)
    words = vocabulary_of(reader.prompts.tokenizer)
    return tries_of(ids, lengths.flatten(), texts, words, reader.prompts, reader.options)


@torch.inference_mode()
def written(
    folder: Path, pack: str, places: Places, device: str, limit: int, penalty: float
) -> list[object]:
    """Return what a trained reader writes for each question of a pack."""
    model, prompts, ways = load_reader(ReaderConfig(weights=str(folder)))
    model = model.to(device, torch.bfloat16 if device == "cuda" else torch.float32).eval()
    name = f"t5_{pack}"
    dataset = open_dataset(scored(name, places, Path(f"scores/{folder.name}-{pack}.npy")))
    reading = PackReader(model, prompts, replace(ways, stop_penalty=penalty), places.shape[1])
    builder = BatchBuilder(dataset.pack, prompts, device)
    found: list[object] = [[] for _ in range(len(dataset.pack))]
    for some in batches(dataset, 32, limit):
        batch = dataset.batch(some, dataset.width)
        there = np.flatnonzero(batch.present.any(axis=1))
        if len(there):
            answers = write_answers(reading, dataset, builder, batch.rows(there))
            for at, own in zip(some[there].tolist(), answers, strict=True):
                found[at] = [{"tokens": one.tokens, "log_prob": one.log_prob} for one in own]
    return found


@torch.inference_mode()
def spans(
    folder: Path, pack: str, places: Places, device: str, limit: int, *, every: bool
) -> list[object]:
    """Return the answers of a joint model in the chosen passages, read alone or with all others."""
    model, prompts = load_model(ModelConfig(init=str(folder)))
    model = model.to(device, torch.bfloat16 if device == "cuda" else torch.float32).eval()
    scorer, words = TorchScorer(model), Vocabulary.of(prompts.tokenizer)
    dataset = open_dataset(DataConfig(f"packs/{pack}"))
    builder = BatchBuilder(dataset.pack, prompts, device)
    found: list[object] = [[] for _ in range(len(dataset.pack))]
    for some in batches(dataset, 32, limit):
        batch = dataset.batch(some, dataset.width)
        own = np.where(places[some] == NOWHERE, -1, places[some].astype(np.int64))
        read = batch if every else batch.select(own)
        there = np.flatnonzero(read.present.any(axis=1))
        if not len(there):
            continue
        opened = scorer.open_packed(builder.build(read.rows(there)))
        rows = opened.ask([(at, ()) for at in range(len(there))])
        for at, row, passages in zip(there.tolist(), rows, opened.passages or (), strict=True):
            chosen = own[at][own[at] >= 0] if every else np.arange(len(row))
            known = find_evidence(passages, words)
            found[int(some[at])] = answers_of(known, probabilities(known, row), chosen)
    return found


def probabilities(known: Evidence, row: Row) -> NDArray[np.float64]:
    """Return P(a) (A,) as the bundled model gives it, but not calibrated."""
    how = AnswerCalibration(temperature=1.5)
    return how.probabilities(*known.support(how.flat(row)))


def answers_of(
    known: Evidence, mass: NDArray[np.float64], chosen: NDArray[np.int64]
) -> list[Mapping[str, object]]:
    """Return the likeliest answers that chosen candidates contain, and which of these do."""
    holds = known.contains[chosen]
    shown = np.where(holds.any(axis=0), mass, 0.0)
    return [
        {
            "tokens": known.answers[answer],
            "mass": float(mass[answer]),
            "holds": np.flatnonzero(holds[:, answer]).tolist(),
        }
        for answer in np.argsort(-shown, kind="stable")[:MOST].tolist()
        if shown[answer] > 0
    ]


def main() -> None:
    """Train, answer, write."""
    parser = parser_of(__doc__)
    parser.add_argument("--answers", type=Path, required=True)
    parser.add_argument("--places", type=Path, default=Path("places"))
    parser.add_argument("--models", type=Path, default=Path("models"))
    parser.add_argument("--commit", required=True)
    parser.add_argument("--train", default="train", help="the pack of training questions")
    parser.add_argument("--sources", nargs="*", default=list(SOURCES), choices=list(SOURCES))
    parser.add_argument("--sets", nargs="*", default=list(SETS), choices=list(SETS))
    parser.add_argument("--readers", nargs="*", default=["spans", "all", *SIZES])
    parser.add_argument("--reads", default="joint-0", help="the model whose spans are read")
    parser.add_argument("--penalties", nargs="*", type=float, default=[0.0], help="of t5, to end")
    parser.add_argument("--steps", type=int, default=0, help="fewer steps, to try it out")
    parser.add_argument("--limit", type=int, default=0, help="fewer questions, to try it out")
    options = parser.parse_args()
    options.device = "cuda" if torch.cuda.is_available() else "cpu"
    options.answers.mkdir(parents=True, exist_ok=True)
    chosen = Chosen(options.places, options.models, options.device, options.limit)
    for source in options.sources:
        for reader in options.readers:
            began = time.perf_counter()
            folder = options.models / options.reads
            if reader in SIZES:
                folder = trained(source, reader, chosen, options.models, options)
            for pack in options.sets:
                answer_set(source, reader, folder, pack, chosen, options)
            print(source, reader, round(time.perf_counter() - began, 1), "s", flush=True)


def answer_set(
    source: str, reader: str, folder: Path, pack: str, chosen: Chosen, options: argparse.Namespace
) -> None:
    """Write the answers of a system to the questions of a set unless they exist."""
    ids = Pack.open(f"packs/{pack}").question_ids
    writes, k = reader in SIZES, SIZES[reader].k if reader in SIZES else K
    for penalty in options.penalties if writes else [0.0]:
        name = f"{reader}-{source}" + (f"-{penalty:g}" if penalty else "")
        file, began = options.answers / f"{name}-{pack}.json", time.perf_counter()
        if file.exists():
            continue
        places = chosen(source, pack, ids, k)
        how = (folder, pack, places, options.device, options.limit)
        answers = written(*how, penalty) if writes else spans(*how, every=reader == "all")
        made = {
            "system": name,
            "pack": pack,
            "commit": options.commit,
            "asked for": {"steps": options.steps, "limit": options.limit},
            "device": torch.cuda.get_device_name() if options.device == "cuda" else "CPU",
            "versions": {"python": platform.python_version(), "torch": torch.__version__},
            "seconds": time.perf_counter() - began,
            "questions": ids,
            "places": places.tolist(),
            "answers": answers,
        }
        with publish(file) as stream:
            stream.write(json.dumps(made))


if __name__ == "__main__":
    main()
