"""BM25 over title and text, by tantivy.

Words are lower-cased, freed of accents and stemmed. Function words and question words are left
out, of passages and questions alike: an encyclopedia says "what" and "who" so rarely that BM25
would give them weight (`docs/lab.md`: 2 to 4 points of recall).
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

import tantivy

from jpr.errors import ConfigError, FormatError
from jpr.types import Passage

_MEMORY = 200_000_000
STOP_WORDS = """
a about all also am an and any are as at be been being but by can could did do does doing for from
had has have having he her here hers him his how i if in into is it its itself just me my no nor not
of on or our ours out own s same she should so some such t than that the their theirs them then
there these they this those through to too very was we were what when where which while who whom
whose why will with would you your yours
""".split()  # noqa: SIM905  a list literal would fill a page


def _schema() -> tantivy.Schema:
    builder = tantivy.SchemaBuilder()
    builder.add_integer_field("row", fast=True)
    builder.add_text_field("body", tokenizer_name="jpr", index_option="freq")
    return builder.build()


def _analyser() -> tantivy.TextAnalyzer:
    return (
        tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
        .filter(tantivy.Filter.remove_long(64))
        .filter(tantivy.Filter.lowercase())
        .filter(tantivy.Filter.ascii_fold())
        .filter(tantivy.Filter.custom_stopword(STOP_WORDS))
        .filter(tantivy.Filter.stemmer("english"))
        .build()
    )


def indexed(passages: Iterable[Passage], folder: Path) -> Iterator[Passage]:
    """Pass passages on and index them, in the order of their rows, into an empty folder.

    The index is whole when the last passage has been taken.
    """
    try:
        index = tantivy.Index(_schema(), str(folder))
        index.register_tokenizer("jpr", _analyser())
        writer = index.writer(heap_size=_MEMORY, num_threads=1)
    except ValueError as error:
        raise _refused(folder, error) from error
    for row, passage in enumerate(passages):
        body = f"{passage.title}\n{passage.text}"
        try:
            writer.add_document(tantivy.Document(row=row, body=body))
        except ValueError as error:
            raise _refused(folder, error) from error
        yield passage
    try:
        writer.commit()
        writer.wait_merging_threads()
    except ValueError as error:
        raise _refused(folder, error) from error


def _refused(folder: Path, error: ValueError) -> ConfigError:
    """Explain what tantivy says, of a full disk for instance: it has one kind of error only."""
    return ConfigError(f"{folder}: the words cannot be indexed: {error}")


class Bm25:
    """An open BM25 index; threads may share it."""

    def __init__(self, folder: Path) -> None:
        """Open an index that `indexed` made."""
        try:
            self._index = tantivy.Index.open(str(folder))
        except ValueError as error:
            raise FormatError(
                folder, 0, f"is no whole BM25 index ({error}); build it again"
            ) from error
        self._analyser = _analyser()
        self._index.register_tokenizer("jpr", self._analyser)
        self._searcher = self._index.searcher()

    def __len__(self) -> int:
        return int(self._searcher.num_docs)

    def search(self, text: str, k: int) -> list[tuple[int, float]]:
        """Return (row, score) of the k best passages, best first; equal ones by row."""
        words = list(dict.fromkeys(self._analyser.analyze(text)))
        if not words or k < 1:
            return []
        schema = self._index.schema
        clauses = [
            (tantivy.Occur.Should, tantivy.Query.term_query(schema, "body", word, "freq"))
            for word in words
        ]
        hits = self._searcher.search(
            tantivy.Query.boolean_query(clauses), limit=k, count=False
        ).hits
        rows = self._searcher.fast_field_values("row", [at for _, at in hits])
        scored = [(int(row or 0), float(score)) for row, (score, _) in zip(rows, hits, strict=True)]
        return sorted(scored, key=lambda hit: (-hit[1], hit[0]))
