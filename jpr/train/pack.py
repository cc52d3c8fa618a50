"""The pack: questions, candidates and which answers these hold, as token ids in flat arrays.

A folder of plain `.npy` files, mapped and not read, so that a trainer takes what it needs; what
each array is, `docs/train.md` says. A pack appears whole or not at all.
"""

import hashlib
import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jpr.errors import ConfigError, DataError, FormatError
from jpr.io.atomic import explain_write_errors, sync_folder, temporary_path
from jpr.io.checksums import check_sums, sealed, sha256, unsealed
from jpr.io.json_files import read_object

FORMAT = 3
KIND = "pack"
ABOUT = "pack.json"
IDS = "question_ids.json"
TYPES = {
    "question_tokens": np.uint16,
    "question_starts": np.int64,
    "passage_starts": np.int64,
    "title_lengths": np.uint8,
    "candidates": np.uint32,
    "candidate_starts": np.int64,
    "scores": np.float16,
    "cover_edges": np.uint32,
    "cover_answers": np.uint16,
    "span_covers": np.uint32,
    "span_offsets": np.uint16,
    "span_lengths": np.uint8,
    "n_answers": np.uint16,
    "sources": np.uint8,
}
"""The arrays that are one file each; the tokens of passages are several."""
LIMITS = ("max_question", "max_title", "max_text")
"""What `about["limits"]` says: how many tokens were kept of each, at most."""
PART_MB = 48
_TOKENS = "passage_tokens"
_REMEDY = "copy it again, or make it again with jpr pack"


@dataclass(frozen=True, slots=True, eq=False)
class Pack:
    """Q questions with E candidates in all, of R distinct passages."""

    question_tokens: NDArray[np.uint16]
    """All questions end to end."""
    question_starts: NDArray[np.int64]
    """(Q + 1,)"""
    passage_tokens: tuple[NDArray[np.uint16], ...]
    """All passages end to end, title before text, in parts of whole passages."""
    passage_starts: NDArray[np.int64]
    """(R + 1,) counted through all parts."""
    title_lengths: NDArray[np.uint8]
    """(R,) how many of a passage's first tokens are its title."""
    candidates: NDArray[np.uint32]
    """(E,) rows of passages, question after question, in the order of the first stage."""
    candidate_starts: NDArray[np.int64]
    """(Q + 1,)"""
    scores: NDArray[np.float16]
    """(E,) of the first stage."""
    cover_edges: NDArray[np.uint32]
    """(V,) ascending: this candidate, of all E, …"""
    cover_answers: NDArray[np.uint16]
    """(V,) … contains this answer of its question."""
    span_covers: NDArray[np.uint32]
    """(S,) ascending: what this entry of `cover_edges` says is seen …"""
    span_offsets: NDArray[np.uint16]
    """(S,) … after so many of the passage's tokens, ascending, …"""
    span_lengths: NDArray[np.uint8]
    """(S,) … in so many; a cover has as many spans as there are occurrences, or none."""
    n_answers: NDArray[np.uint16]
    """(Q,) distinct answers, found or not."""
    sources: NDArray[np.uint8]
    """(Q,) which file a question is of; `about` names them."""
    question_ids: tuple[str, ...]
    about: Mapping[str, Any]
    """What `pack.json` says: limits of tokens, settings, inputs."""

    def __post_init__(self) -> None:
        """Refuse arrays that do not fit together."""
        q, rows, edges = len(self.question_ids), len(self.title_lengths), len(self.candidates)
        covered, spans = len(self.cover_edges), len(self.span_covers)
        for name, values, wanted in (
            ("question_starts", self.question_starts, q + 1),
            ("candidate_starts", self.candidate_starts, q + 1),
            ("passage_starts", self.passage_starts, rows + 1),
            ("n_answers", self.n_answers, q),
            ("sources", self.sources, q),
            ("scores", self.scores, edges),
            ("cover_answers", self.cover_answers, covered),
            ("span_offsets", self.span_offsets, spans),
            ("span_lengths", self.span_lengths, spans),
        ):
            if values.shape != (wanted,):
                raise DataError(f"{name} has the shape {values.shape}, not ({wanted},)")
        for name, starts, end in (
            ("question_tokens", self.question_starts, len(self.question_tokens)),
            (_TOKENS, self.passage_starts, sum(map(len, self.passage_tokens))),
            ("candidates", self.candidate_starts, edges),
        ):
            if starts[0] != 0 or starts[-1] != end:
                raise DataError(f"{name} are {end}, but their starts end at {starts[-1]}")
        if spans and self.span_covers[-1] >= covered:
            raise DataError(f"span_covers end at {self.span_covers[-1]}, but {covered} are covered")

    def __len__(self) -> int:
        return len(self.question_ids)

    @classmethod
    def open(cls, folder: str | Path, *, verify: bool = True) -> "Pack":
        """Map a pack's files; `verify` reads them all and compares their hashes."""
        home = Path(folder)
        about: dict[str, Any] = _read_about(home)
        hashes: dict[str, str] = about["files"]
        if verify:
            unsealed(home / ABOUT, about)
            check_sums(home, hashes)
        parts = sorted(name for name in hashes if name.startswith(_TOKENS))
        arrays = {name: _mapped(home / f"{name}.npy", kind) for name, kind in TYPES.items()}
        tokens = tuple(_mapped(home / name, np.uint16) for name in parts)
        try:
            found = cls(
                passage_tokens=tokens,
                question_ids=tuple(_read_json(home / IDS)),
                about=about,
                **arrays,
            )
        except DataError as error:
            raise FormatError(home, 0, f"is damaged: {error}; {_REMEDY}") from error
        counts = {name: about["counts"].get(name) for name in found.counts()}
        if counts != found.counts():
            told = f"holds {found.counts()}, not {counts}"
            raise FormatError(home, 0, f"is damaged: {told}; {_REMEDY}")
        return found

    def tokens_of(self, row: int) -> NDArray[np.uint16]:
        """Return the tokens of a passage, its title's first."""
        first, last = int(self.passage_starts[row]), int(self.passage_starts[row + 1])
        return np.concatenate(_between(self.passage_tokens, first, last))

    def counts(self) -> dict[str, int]:
        """Return how much there is of everything."""
        return {
            "questions": len(self),
            "passages": len(self.title_lengths),
            "candidates": len(self.candidates),
            "covered": len(self.cover_edges),
            "spans": len(self.span_covers),
            "question_tokens": len(self.question_tokens),
            "passage_tokens": int(self.passage_starts[-1]),
        }


def vocabulary_sha256(words: Mapping[str, int]) -> str:
    """Name a tokenizer by its words and their ids, however its file is laid out."""
    ordered = json.dumps(sorted(words.items(), key=lambda item: item[1]))
    return hashlib.sha256(ordered.encode()).hexdigest()


def write_pack(folder: Path, pack: Pack, *, part_mb: int = PART_MB) -> None:
    """Write a pack; one that is there stays until the new one is whole, then gives way."""
    check_target(folder)
    beside = temporary_path(folder)
    shutil.rmtree(beside, ignore_errors=True)
    with explain_write_errors(folder):
        try:
            beside.mkdir(parents=True)
            _write_files(beside, pack, part_mb)
            _publish(beside, folder)
        finally:
            shutil.rmtree(beside, ignore_errors=True)


def check_target(folder: Path) -> None:
    """Refuse to write where something else than a pack is."""
    if folder.is_dir():
        foreign = any(folder.iterdir()) and not (folder / ABOUT).exists()
    else:
        foreign = folder.exists()
    if foreign:
        raise ConfigError(f"{folder}: holds something else than a pack; name a new folder")


def _write_files(folder: Path, pack: Pack, part_mb: int) -> None:
    arrays: dict[str, NDArray[Any]] = {name: getattr(pack, name) for name in TYPES}
    hashes = {}
    for name, kind in TYPES.items():
        hashes[f"{name}.npy"] = _save(folder / f"{name}.npy", [arrays[name]], kind)
    for number, (first, last) in enumerate(_parts(pack.passage_starts, part_mb)):
        name = f"{_TOKENS}-{number:03d}.npy"
        hashes[name] = _save(folder / name, _between(pack.passage_tokens, first, last), np.uint16)
    (folder / IDS).write_text(json.dumps(pack.question_ids), encoding="utf-8")
    hashes[IDS] = sha256(folder / IDS)
    about = {
        **pack.about,
        "format": FORMAT,
        "kind": KIND,
        "counts": pack.counts(),
        "files": hashes,
    }
    (folder / ABOUT).write_text(json.dumps(sealed(about), indent=1) + "\n", encoding="utf-8")


def _parts(starts: NDArray[np.int64], part_mb: int) -> list[tuple[int, int]]:
    """Cut passages into runs of tokens that fill a file; of one that is longer, all."""
    room = part_mb * (1 << 20) // np.dtype(np.uint16).itemsize - 64  # for the file's head
    found = [0]
    while found[-1] < starts[-1]:
        last = int(np.searchsorted(starts, found[-1] + room, side="right")) - 1
        if starts[last] <= found[-1]:
            last = int(np.searchsorted(starts, found[-1], side="right"))
        found.append(int(starts[last]))
    return list(pairwise(found)) or [(0, 0)]


def _between(
    parts: Sequence[NDArray[np.uint16]], first: int, last: int
) -> list[NDArray[np.uint16]]:
    """Return the tokens from first to last of all parts end to end."""
    found, before = [], 0
    for part in parts:
        found.append(part[max(first - before, 0) : max(last - before, 0)])
        before += len(part)
    return found


def _save(path: Path, pieces: Iterable[NDArray[Any]], kind: type) -> str:
    np.save(path, np.concatenate([np.asarray(piece, dtype=kind) for piece in pieces]))
    return sha256(path)


def _publish(made: Path, folder: Path) -> None:
    """Put a finished folder in the place of another, after it is safe on the disk."""
    sync_folder(made)
    old = folder.with_name(f".{folder.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if folder.exists():
        folder.rename(old)
    made.rename(folder)
    shutil.rmtree(old, ignore_errors=True)


def _read_json(path: Path) -> Any:  # noqa: ANN401  # any JSON
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise FormatError(path.parent, 0, f"holds no {path.name}; is it a pack?") from error
    except (OSError, ValueError, RecursionError) as error:
        raise FormatError(path, 0, f"cannot be read ({error}); {_REMEDY}") from error


def _read_about(home: Path) -> dict[str, object]:
    file = home / ABOUT
    if not file.exists():
        raise FormatError(home, 0, f"holds no {ABOUT}; is it a pack?")
    about = read_object(file)
    if about.get("kind") != KIND:
        raise FormatError(file, 0, "does not describe a pack; make one with jpr pack")
    if about.get("format") != FORMAT:
        told = f"is of format {about.get('format')!r}, this program reads {FORMAT}"
        raise FormatError(file, 0, f"{told}; make it again with jpr pack")
    if not all(isinstance(about.get(name), dict) for name in ("files", "counts")):
        raise FormatError(file, 0, f"is damaged; {_REMEDY}")
    return about


def _mapped(path: Path, kind: type) -> NDArray[Any]:
    try:
        found: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise FormatError(path, 0, f"cannot be mapped ({error}); {_REMEDY}") from error
    if found.dtype != kind or found.ndim != 1:
        told = f"holds {found.dtype} of {found.ndim} dimensions"
        raise FormatError(path, 0, f"{told}, not a row of {np.dtype(kind)}; {_REMEDY}")
    return found
