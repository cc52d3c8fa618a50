"""The passages of a corpus, as every command reads them."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jpr.cli import screen
from jpr.errors import ConfigError

if TYPE_CHECKING:
    from jpr.formats.corpus.documents import Cut
    from jpr.types import Passage

Split = Annotated[
    str | None, typer.Option(help="Cut passages: words:100, or wordpieces:288 as the paper.")
]
TokenizerFile = Annotated[
    Path | None, typer.Option(help="tokenizer.json, for --split wordpieces:N.")
]


def read_corpus(
    corpus: Path,
    split: str | None = None,
    tokenizer: Path | None = None,
    note: Callable[[str], None] = screen.note,
) -> "Iterator[Passage]":
    """Yield the passages of a corpus, cut as `--split` and `--tokenizer` say.

    A folder of documents is read as `jpr ask --docs` reads it, and cut so where nothing is said;
    `note` is told what is left out.
    """
    from jpr.formats.corpus import read_passages

    if not is_documents(corpus):
        return split_passages(read_passages(corpus), split, tokenizer)
    from jpr.encode.encoder_folder import BUNDLED_ENCODER
    from jpr.formats.corpus.documents import usual_cut
    from jpr.formats.corpus.split import load_tokenizer

    own = _cut(split, tokenizer) if split else None
    cut = own or usual_cut(load_tokenizer(BUNDLED_ENCODER / "tokenizer.json"))
    return _documents(corpus, cut, note)


def is_documents(corpus: Path) -> bool:
    """Tell whether a corpus is a folder of documents, and no other format that has a folder."""
    from jpr.formats.corpus import folder
    from jpr.formats.format import head_of

    return corpus.is_dir() and folder.FORMAT.sniff(head_of(corpus))


def _documents(folder: Path, cut: "Cut", note: Callable[[str], None]) -> "Iterator[Passage]":
    from jpr.formats.corpus.documents import find_documents, read_documents

    found = find_documents(folder)
    with screen.progress("reading files", len(found.files)) as progress:
        yield from read_documents(folder, found, cut, note, progress)


def split_passages(
    passages: "Iterable[Passage]", how: str | None, tokenizer: Path | None
) -> "Iterator[Passage]":
    """Cut passages as `--split` and `--tokenizer` say; without them, leave them whole."""
    if how is None:
        return iter(passages)
    cut = _cut(how, tokenizer)
    return (piece for passage in passages for piece in cut(passage))


def _cut(how: str, tokenizer: Path | None) -> "Cut":
    from jpr.formats.corpus.split import load_tokenizer, split_wordpieces, split_words

    unit, _, size = how.partition(":")
    if unit not in ("words", "wordpieces") or not size.isdecimal() or not int(size):
        raise ConfigError(f"--split {how}: write words:100 or wordpieces:288")
    if unit == "words":
        return partial(split_words, words=int(size))
    if tokenizer is None:
        raise ConfigError("--split wordpieces needs --tokenizer tokenizer.json")
    return partial(split_wordpieces, tokenizer=load_tokenizer(tokenizer), limit=int(size))
