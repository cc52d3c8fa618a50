"""The pack: questions, candidates and the answers in them, as token ids in flat arrays.

A folder of plain `.npy` files that are memory-mapped; `docs/train.md` describes each array. A pack
appears whole or not at all.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jpr.errors import ConfigError, DataError, FormatError
from jpr.io.atomic import publish_folder
from jpr.io.checksums import check_sums, sealed, sha256, unsealed
from jpr.io.json_files import read_json, read_object

FORMAT = 3
ABOUT = "pack.json"
IDS = "question_ids.json"
LIMITS = ("max_question", "max_title", "max_text")
"""Keys of `about["limits"]`: how many tokens of each were kept at most."""
_TOKENS = "passage_tokens"
_REMEDY = "copy it again, or make it again with jpr pack"


@dataclass(frozen=True, slots=True, eq=False)
class Pack:
    """Q questions with E candidates in all, of R distinct passages."""

    question_tokens: NDArray[np.uint16]  # of all questions end to end
    question_starts: NDArray[np.int64]  # (Q + 1,)
    passage_tokens: tuple[NDArray[np.uint16], ...]  # of passages, title before text, in parts
    passage_starts: NDArray[np.int64]  # (R + 1,) counted through all parts
    title_lengths: NDArray[np.uint8]  # (R,) how many of a passage's first tokens are its title
    candidates: NDArray[np.uint32]  # (E,) rows of passages, by question, in first-stage order
    candidate_starts: NDArray[np.int64]  # (Q + 1,)
    scores: NDArray[np.float16]  # (E,) of the first stage
    cover_edges: NDArray[np.uint32]  # (V,) ascending: this candidate, of all E, …
    cover_answers: NDArray[np.uint16]  # (V,) … contains this answer of its question
    span_covers: NDArray[np.uint32]  # (S,) ascending: this entry of `cover_edges` occurs …
    span_offsets: NDArray[np.uint16]  # (S,) … at this offset among the passage's tokens, …
    span_lengths: NDArray[np.uint8]  # (S,) … with this length; an entry may have no span
    n_answers: NDArray[np.uint16]  # (Q,) distinct answers, found or not
    sources: NDArray[np.uint8]  # (Q,) the file of each question; `about` names them
    question_ids: tuple[str, ...]
    about: Mapping[str, Any]  # the content of `pack.json`: limits of tokens, settings, inputs

    def __post_init__(self) -> None:
        """Reject arrays that do not fit together."""
        questions, edges = len(self.question_ids), len(self.candidates)
        covered, spans = len(self.cover_edges), len(self.span_covers)
        for length, names in (
            (questions + 1, ("question_starts", "candidate_starts")),
            (questions, ("n_answers", "sources")),
            (len(self.title_lengths) + 1, ("passage_starts",)),
            (edges, ("scores",)),
            (covered, ("cover_answers",)),
            (spans, ("span_offsets", "span_lengths")),
        ):
            for name in names:
                if (shape := getattr(self, name).shape) != (length,):
                    raise DataError(f"{name} has the shape {shape}, not ({length},)")
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
        about = _read_about(home)
        hashes: dict[str, str] = about["files"]
        if verify:
            unsealed(home / ABOUT, about)
            check_sums({home / name: expected for name, expected in hashes.items()})
        parts = sorted(name for name in hashes if name.startswith(_TOKENS))
        arrays = {name: _mapped(home / f"{name}.npy", kind) for name, kind in TYPES.items()}
        tokens = tuple(_mapped(home / name, np.uint16) for name in parts)
        ids: Any = read_json(home / IDS)
        try:
            found = cls(passage_tokens=tokens, question_ids=tuple(ids), about=about, **arrays)
        except (DataError, TypeError) as error:
            raise FormatError(home, 0, f"is damaged: {error}; {_REMEDY}") from error
        counts = {name: about["counts"].get(name) for name in found.counts()}
        if counts != found.counts():
            problem = f"is damaged: it holds {found.counts()}, not {counts}"
            raise FormatError(home, 0, f"{problem}; {_REMEDY}")
        return found

    def ranks(
        self, questions: NDArray[np.int64], edges: NDArray[np.int64]
    ) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        """Return which candidates are their question's own, and their ranks; others rank last."""
        first, after = self.candidate_starts[questions], self.candidate_starts[questions + 1]
        own = (edges >= first) & (edges < after)
        return own, np.where(own, edges, after) - first

    def counts(self) -> dict[str, int]:
        """Return the sizes of the pack."""
        return {
            "questions": len(self),
            "passages": len(self.title_lengths),
            "candidates": len(self.candidates),
            "covered": len(self.cover_edges),
            "spans": len(self.span_covers),
            "question_tokens": len(self.question_tokens),
            "passage_tokens": int(self.passage_starts[-1]),
        }


_KINDS: dict[Any, type] = {
    NDArray[kind]: kind  # type: ignore[valid-type]  # a key here
    for kind in (np.uint8, np.uint16, np.uint32, np.int64, np.float16)
}
TYPES = {one.name: _KINDS[one.type] for one in fields(Pack) if one.type in _KINDS}
"""The arrays that are one file each, with their types; the tokens of passages are several files."""


def vocabulary_sha256(words: Mapping[str, int]) -> str:
    """Return a hash of a tokenizer's words and ids, which does not depend on its file's layout."""
    ordered = json.dumps(sorted(words.items(), key=lambda item: item[1]))
    return hashlib.sha256(ordered.encode()).hexdigest()


def write_pack(folder: Path, pack: Pack, *, part_mb: int = 48) -> None:
    """Write a pack; an existing one is replaced when the new one is complete."""
    check_target(folder)
    with publish_folder(folder, replace=True) as made:
        hashes = {}
        for name, values in _arrays(pack, part_mb):
            np.save(made / name, values)
            hashes[name] = sha256(made / name)
        (made / IDS).write_text(json.dumps(pack.question_ids), encoding="utf-8")
        hashes[IDS] = sha256(made / IDS)
        fixed = {"format": FORMAT, "kind": "pack", "counts": pack.counts(), "files": hashes}
        about = json.dumps(sealed({**pack.about, **fixed}), indent=1)
        (made / ABOUT).write_text(about + "\n", encoding="utf-8")


def check_target(folder: Path) -> None:
    """Refuse to replace anything but a pack."""
    is_pack = folder.is_dir() and ((folder / ABOUT).exists() or not any(folder.iterdir()))
    if folder.exists() and not is_pack:
        raise ConfigError(f"{folder}: exists and is not a pack; name a new folder")


def _arrays(pack: Pack, part_mb: int) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield arrays by the names of their files; each file of tokens is filled with passages."""
    for name, kind in TYPES.items():
        yield f"{name}.npy", np.asarray(getattr(pack, name), dtype=kind)
    tokens, starts, first, number = pack.passage_tokens, pack.passage_starts, 0, 0
    whole = tokens[0] if len(tokens) == 1 else np.concatenate(tokens)  # one may exceed the memory
    room = part_mb * (1 << 20) // np.dtype(np.uint16).itemsize - 64  # for the file's header
    while first < starts[-1] or not number:  # without tokens, one empty file
        last = int(starts[np.searchsorted(starts, first + room, side="right") - 1])
        if last <= first < starts[-1]:  # a passage longer than a file has one of its own
            last = int(starts[np.searchsorted(starts, first, side="right")])
        yield f"{_TOKENS}-{number:03d}.npy", np.asarray(whole[first:last], dtype=np.uint16)
        first, number = last, number + 1


def _read_about(home: Path) -> dict[str, Any]:
    file = home / ABOUT
    if not file.exists():
        raise FormatError(home, 0, f"holds no {ABOUT}; is it a pack?")
    about: dict[str, Any] = read_object(file)
    if about.get("kind") != "pack":
        raise FormatError(file, 0, "does not describe a pack; make one with jpr pack")
    if about.get("format") != FORMAT:
        problem = f"has format {about.get('format')!r}, this version reads {FORMAT}"
        raise FormatError(file, 0, f"{problem}; make it again with jpr pack")
    if not all(isinstance(about.get(name), dict) for name in ("files", "counts")):
        raise FormatError(file, 0, f"is damaged; {_REMEDY}")
    return about


def _mapped(path: Path, kind: type) -> NDArray[Any]:
    try:
        found: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise FormatError(path, 0, f"cannot be mapped ({error}); {_REMEDY}") from error
    if found.dtype != kind or found.ndim != 1:
        problem = f"holds {found.dtype} of {found.ndim} dimensions, not of 1 and {np.dtype(kind)}"
        raise FormatError(path, 0, f"{problem}; {_REMEDY}")
    return found
