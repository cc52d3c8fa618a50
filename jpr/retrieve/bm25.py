"""The lexical index: BM25 over title and text, with tantivy.

The analyzer lower-cases, folds accents, stems, and removes stop words, including question words:
"what" and "who" are so rare in an encyclopedia that BM25 would give them weight (`docs/lab.md`: 2
to 4 points of recall). A passage also has the terms of `jpr.retrieve.filters`.
"""

import os
import zlib
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import tantivy
from numpy.typing import NDArray

from jpr.errors import FormatError
from jpr.io.atomic import explain_damage, explain_write_errors, link
from jpr.retrieve.filters import Clauses, terms
from jpr.retrieve.rank_fusion import Scored, ranked
from jpr.text import without_surrogates
from jpr.types import Passage

ANALYZER = "simple, 64 bytes at most, lower case, ASCII folding, stop words, English stems"
STOP_WORDS = """
a about all also am an and any are as at be been being but by can could did do does doing for from
had has have having he her here hers him his how i if in into is it its itself just me my no nor not
of on or our ours out own s same she should so some such t than that the their theirs them then
there these they this those through to too very was we were what when where which while who whom
whose why will with would you your yours
""".split()  # noqa: SIM905  a list literal would fill a page


_REMEDY = "see jpr doctor INDEX"
_SMALL = 16 << 20  # bytes; larger files are compared at their first use


def _schema() -> tantivy.Schema:
    builder = tantivy.SchemaBuilder()
    builder.add_integer_field("row", fast=True, indexed=True)
    builder.add_text_field("body", tokenizer_name="jpr", index_option="freq")
    builder.add_text_field("meta", tokenizer_name="raw", index_option="basic")
    return builder.build()


def _analyzer() -> tantivy.TextAnalyzer:
    return (
        tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
        .filter(tantivy.Filter.remove_long(64))
        .filter(tantivy.Filter.lowercase())
        .filter(tantivy.Filter.ascii_fold())
        .filter(tantivy.Filter.custom_stopword(STOP_WORDS))
        .filter(tantivy.Filter.stemmer("english"))
        .build()
    )


def _damage(folder: Path) -> AbstractContextManager[None]:
    return explain_damage(folder, "the lexical index is damaged", _REMEDY, OSError, ValueError)


def _check_footers(folder: Path) -> None:
    """Compare the checksums that tantivy writes but never reads: damage may end the process.

    At the end of a file are `{…"crc":1234}`, the length of this, and a constant, of 4 bytes each.
    """
    for file in folder.iterdir():
        if file.suffix not in (".json", ".lock") and file.stat().st_size <= _SMALL:
            content = memoryview(file.read_bytes())
            length = int.from_bytes(content[-8:-4], "little")
            body, footer = content[: -8 - length], bytes(content[-8 - length : -8])
            if not footer.endswith(b'"crc":%d}' % zlib.crc32(body)):
                raise FormatError(file, 0, f"is damaged; {_REMEDY}")


class Bm25Writer(AbstractContextManager["Bm25Writer", None]):
    """Writes a BM25 index passage by passage; it is complete when `close` has returned."""

    def __init__(self, folder: Path, base: Path | None = None) -> None:
        """Start in an empty folder, from scratch or with the content of another index.

        tantivy replaces files rather than changing them, so the base's files are linked.
        """
        self._folder = folder
        if base is not None:
            for path in base.iterdir():
                if not path.name.endswith(".lock"):
                    link(path, folder / path.name)
        with _damage(folder), explain_write_errors(folder, ValueError):  # tantivy's only error
            home = str(folder)
            _check_footers(folder)
            index = tantivy.Index.open(home) if base else tantivy.Index(_schema(), home)
            index.register_tokenizer("jpr", _analyzer())
            self._writer = index.writer(heap_size=200_000_000, num_threads=1)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:  # stop its threads from writing into the folder
            with suppress(ValueError, RuntimeError):
                self._writer.rollback()
            with suppress(ValueError, RuntimeError):
                self._writer.wait_merging_threads()

    def add(self, row: int, passage: Passage) -> None:
        """Index a passage under its row."""
        document = tantivy.Document()
        document.add_integer("row", row)
        document.add_text("body", without_surrogates(f"{passage.title}\n{passage.text}"))
        for term in terms(passage):
            document.add_text("meta", term)
        with explain_write_errors(self._folder, ValueError):
            self._writer.add_document(document)

    def remove(self, row: int) -> None:
        """Remove the passage in a row of the base."""
        with explain_write_errors(self._folder, ValueError):
            self._writer.delete_documents_by_term("row", row)

    def close(self) -> None:
        """Finish the index."""
        with explain_write_errors(self._folder, ValueError):
            self._writer.commit()
            self._writer.wait_merging_threads()
        readable = self._folder.stat().st_mode & 0o444
        for path in self._folder.iterdir():  # tantivy makes some private
            path.chmod(path.stat().st_mode | readable)


def _open(folder: Path) -> tantivy.Index:
    """Open an index for reading, without reloading.

    tantivy creates a lock file beside those it opens; in a read-only folder it gets links to them.
    """
    _check_footers(folder)
    with TemporaryDirectory() if not os.access(folder, os.W_OK) else nullcontext(folder) as home:
        if home != folder:
            for path in folder.iterdir():
                if not path.name.endswith(".lock"):
                    Path(home, path.name).symlink_to(path.resolve())
        index = tantivy.Index.open(str(home))
        index.config_reader("manual")
        return index


class Bm25Searcher:
    """An open BM25 index; threads may share it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with _damage(self._folder):
            index = _open(folder)
            self._searcher = index.searcher()
        self._schema = index.schema
        if self._schema != _schema():
            raise FormatError(folder, 0, "has other fields than jpr's; build it again")
        self._analyzer = _analyzer()

    def __len__(self) -> int:
        return int(self._searcher.num_docs)

    def search(self, text: str, k: int, where: Clauses = ()) -> Scored:
        """Return (row, score) of the k best passages, best first; ties by row."""
        tokens = dict.fromkeys(self._analyzer.analyze(without_surrogates(text)))
        if not tokens or k < 1:
            return []
        queries = (tantivy.Query.term_query(self._schema, "body", t, "freq") for t in tokens)
        query = tantivy.Query.boolean_query([(tantivy.Occur.Should, one) for one in queries])
        if where:
            query = self._filter(where).and_must_match(query)
        with _damage(self._folder):
            hits = self._searcher.search(query, limit=min(k, max(1, len(self))), count=False).hits
            rows = self._searcher.fast_field_values("row", [at for _, at in hits])
        scores = zip(rows, hits, strict=True)
        return ranked((int(row or 0), float(score)) for row, (score, _) in scores)

    def rows(self, where: Clauses) -> NDArray[np.int64]:
        """Return the rows of all passages that a filter accepts, ascending."""
        with _damage(self._folder):
            hits = self._searcher.search(
                self._filter(where),
                limit=max(1, len(self)),
                count=False,
                order_by_field="row",
                order=tantivy.Order.Asc,
            ).hits
        return np.fromiter((row for row, _ in hits), np.int64, len(hits))

    def _filter(self, where: Clauses) -> tantivy.Query:
        sets = [tantivy.Query.term_set_query(self._schema, "meta", any_of) for any_of in where]
        accepted = tantivy.Query.boolean_query([(tantivy.Occur.Must, query) for query in sets])
        return tantivy.Query.const_score_query(accepted, 0.0)
