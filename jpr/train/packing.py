"""Makes packs: rankings in, tokens and coverage out, a batch of questions at a time.

Memory holds one batch of rankings and 16 bytes for each distinct passage; all else is on disk. An
interrupted pack is resumed after its last batch.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

import jpr
from jpr.coverage import cover, starts
from jpr.encode.tokenizer import open_tokenizer, read_tokenizer, truncated_tokens
from jpr.errors import ConfigError, DataError
from jpr.formats.runs.align import check_unique_passages
from jpr.io.checksums import sha256
from jpr.stages import Progress, batched
from jpr.train.answer_spans import SpanFinder, spellings
from jpr.train.columns import Columns, open_columns
from jpr.train.pack import FORMAT, LIMITS, TYPES, Pack, check_target, vocabulary_sha256, write_pack
from jpr.types import Passage, Ranking

_BATCH = 512  # questions held at a time: with 100 candidates each, 50 MB of text
_KEY_BYTES = 16
_COLUMNS = {  # what grows while a pack is made
    **TYPES,
    "passage_tokens": np.uint16,
    "passage_keys": np.uint8,
    "question_ids": np.uint8,  # as lines of JSON
}


@dataclass(frozen=True, slots=True)
class PackSettings:
    """How much of questions and candidates goes into a pack."""

    k: int = 100
    """Candidates per question, at most."""
    strict: bool = False
    """Do not count a lone numeral or stop word as an answer."""
    max_question: int = 64
    """Tokens of a question; longer ones are truncated, as are titles and texts."""
    max_title: int = 32
    max_text: int = 384
    """A model that is trained on the pack may read less, not more."""

    def __post_init__(self) -> None:
        if self.k < 1:
            raise ConfigError(f"-k {self.k}: give at least 1")
        if self.max_title > 255 or self.max_text > 65_000:
            raise ConfigError("a pack holds at most 255 tokens of a title and 65,000 of a text")


@dataclass(frozen=True, slots=True)
class PackSource:
    """The questions of one file, all with answers, with their candidates."""

    name: str
    count: int
    rankings_from: Callable[[int], Iterable[Ranking]]  # return the rankings after the first `done`


def make_pack(
    sources: Sequence[PackSource],
    tokenizer: Path,
    out: Path,
    settings: PackSettings,
    *,
    inputs: Mapping[str, str],
    progress: Progress = lambda _: None,
) -> Pack:
    """Write the pack of some sources; `inputs` are hashes of what their rankings come from.

    The same inputs give the same files, whether or not the work was interrupted.
    """
    check_target(out)
    if not any(source.count for source in sources):
        raise DataError("no question has an answer; there is nothing to train on")
    if len(sources) > 256:
        raise ConfigError(f"{len(sources)} files of questions; a pack takes 256")
    is_folder = tokenizer.is_dir()
    opened, file = (
        open_tokenizer(tokenizer) if is_folder else (read_tokenizer(tokenizer), tokenizer)
    )
    vocabulary = opened.get_vocab()
    if (highest := max(vocabulary.values(), default=0)) > np.iinfo(np.uint16).max:
        raise ConfigError(f"{file}: has token ids up to {highest:,}; a pack holds 65,535 at most")
    about = {
        "jpr": jpr.__version__,
        "sources": [source.name for source in sources],
        "settings": {name: value for name, value in asdict(settings).items() if name not in LIMITS},
        "limits": {name: getattr(settings, name) for name in LIMITS},
        "tokenizer_sha256": sha256(file),
        "vocabulary_sha256": vocabulary_sha256(vocabulary),
        "inputs": dict(inputs),
    }
    key = json.dumps([FORMAT, about, [source.count for source in sources]])
    with open_columns(out.with_name(f".{out.name}.part"), key, _COLUMNS) as columns:
        writer, done = _PackWriter(columns, opened, settings), columns.done
        progress(done)
        for number, source in enumerate(sources):
            if done < source.count:
                for batch in batched(source.rankings_from(done), _BATCH):
                    writer.add(batch, number)
                    progress(len(batch))
            done = max(done - source.count, 0)
        arrays = {name: columns[name] for name in TYPES}
        tokens = (columns["passage_tokens"],)
        lines = columns["question_ids"].tobytes().decode().splitlines()
        ids = tuple(json.loads(line) for line in lines)
        pack = Pack(passage_tokens=tokens, question_ids=ids, about=about, **arrays)
        write_pack(out, pack)
    return Pack.open(out)


class _PackWriter:
    def __init__(self, columns: Columns, tokenizer: Tokenizer, settings: PackSettings) -> None:
        self._columns, self._tokenizer, self._settings = columns, tokenizer, settings
        self._finder = SpanFinder(tokenizer, strict=settings.strict)
        known = columns["passage_keys"].tobytes()
        self._rows = {
            known[at : at + _KEY_BYTES]: row
            for row, at in enumerate(range(0, len(known), _KEY_BYTES))
        }
        if not columns.done:
            for name in ("question_starts", "passage_starts", "candidate_starts"):
                columns.append(name, [0])

    def add(self, rankings: Sequence[Ranking], source: int) -> None:
        """Append rankings, tokenize the passages that are new, and commit."""
        append, limit = self._columns.append, self._settings.max_question
        cut = [ranking.top(self._settings.k) for ranking in rankings]
        for ranking in cut:
            _check(ranking)
        questions = [ranking.question for ranking in cut]
        asked = truncated_tokens(self._tokenizer, [q.text for q in questions], limit)
        self._append_rows("question_tokens", "question_starts", asked)
        lines = "".join(f"{json.dumps(question.id)}\n" for question in questions)
        append("question_ids", np.frombuffer(lines.encode(), dtype=np.uint8))
        append("sources", [source] * len(questions))
        hits = [hit for ranking in cut for hit in ranking.hits]
        rows = self._add_passages([hit.passage for hit in hits])
        self._add_coverage(cut, rows)
        counts = np.cumsum([len(ranking.hits) for ranking in cut])
        append("candidate_starts", self._columns.length("candidates") + counts)
        append("candidates", rows)
        largest = float(np.finfo(np.float16).max)
        append("scores", np.clip([hit.score for hit in hits], -largest, largest))
        if self._columns.length("candidates") > np.iinfo(np.uint32).max:
            raise ConfigError("more candidates than a pack can count; make several packs")
        self._columns.commit(len(rankings))

    def _append_rows(self, tokens: str, starts: str, rows: Sequence[Sequence[int]]) -> None:
        ends = self._columns.length(tokens) + np.cumsum([len(row) for row in rows])
        self._columns.append(starts, ends)
        self._columns.append(tokens, list(chain.from_iterable(rows)))

    def _add_passages(self, passages: Sequence[Passage]) -> NDArray[np.int64]:
        """Return the row of each passage, after giving one to each that has none."""
        keys = [_key(passage) for passage in passages]
        new = {key: p for key, p in zip(keys, passages, strict=True) if key not in self._rows}
        self._rows.update((key, row) for row, key in enumerate(new, start=len(self._rows)))
        s, added = self._settings, new.values()
        titles = truncated_tokens(self._tokenizer, [p.title for p in added], s.max_title)
        texts = truncated_tokens(self._tokenizer, [p.text for p in added], s.max_text)
        whole = [title + text for title, text in zip(titles, texts, strict=True)]
        self._append_rows("passage_tokens", "passage_starts", whole)
        self._columns.append("title_lengths", [len(title) for title in titles])
        self._columns.append("passage_keys", np.frombuffer(b"".join(new), dtype=np.uint8))
        return np.array([self._rows[key] for key in keys], dtype=np.int64)

    def _add_coverage(self, rankings: Sequence[Ranking], rows: NDArray[np.int64]) -> None:
        """Append which candidates, in these rows of passages, contain which answers, and where."""
        columns, coverage = self._columns, cover(rankings, strict=self._settings.strict)
        edges = starts(coverage.n_passages)[coverage.question] + coverage.rank
        entries = np.stack([coverage.question, coverage.rank, coverage.answer], 1).tolist()
        names = [
            spellings(rankings[i].question, answer, rankings[i].hits[rank].passage)
            for i, rank, answer in entries
        ]
        row, first = rows[edges], columns["passage_starts"]
        bounds = np.stack([first[row], first[row] + columns["title_lengths"][row], first[row + 1]])
        covers, offsets, lengths = self._finder.find(columns["passage_tokens"], bounds.T, names)
        columns.append("span_covers", columns.length("cover_edges") + covers)
        columns.append("span_offsets", offsets)
        columns.append("span_lengths", lengths)
        columns.append("cover_edges", columns.length("candidates") + edges)
        columns.append("cover_answers", coverage.answer)
        columns.append("n_answers", coverage.n_answers)


def _check(ranking: Ranking) -> None:
    """Reject a ranking without texts, or with a passage twice."""
    question = ranking.question
    if not question.text.strip():
        raise DataError(f"question {question.id!r} has no text; give the questions with theirs")
    check_unique_passages(ranking)
    bare = sum(hit.passage.is_bare for hit in ranking.hits)
    if bare:
        raise DataError(
            f"{bare} of {len(ranking.hits)} passages for question {question.id!r} are only ids; "
            "give their texts with --corpus"
        )


def _key(passage: Passage) -> bytes:
    """Return a hash of a passage's texts; ids may differ between corpora."""
    whole = f"{len(passage.title)} {passage.title}{passage.text}"
    encoded = whole.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(encoded, digest_size=_KEY_BYTES).digest()
