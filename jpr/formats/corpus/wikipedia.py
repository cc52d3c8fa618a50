"""A Wikipedia XML dump (`pages-articles`), a passage per article, read as a stream.

Only pages of the article namespace that are wiki markup and no redirect count; of several
revisions the last does. The id is the page's, `meta` has the revision's `revid` and `timestamp`.
"""

import re
from pathlib import Path
from xml.etree import ElementTree

from jpr.errors import FormatError
from jpr.formats.corpus.markup import UNSEEN_NAMESPACES, plain_text
from jpr.formats.format import Format, Head, Located
from jpr.io.text_files import read_lines
from jpr.types import Passage

_LINES_AT_ONCE = 10_000
_UNSEEN_KEYS = ("-2", "6", "14")  # media, file and category, whatever the language calls them
_REDIRECT = re.compile(r"\s*+#REDIRECT\b", re.IGNORECASE)


def _sniff(head: Head) -> bool:
    return head.line.lstrip().startswith("<mediawiki")


def _read(path: Path) -> Located[Passage]:
    source = _PageByPage(path)
    unseen: set[str] = set(UNSEEN_NAMESPACES)
    try:
        events = ElementTree.iterparse(source, events=("start", "end"))
        _, root = next(events)
        for event, element in events:
            name = element.tag.rpartition("}")[2]
            if event == "end" and name == "siteinfo":
                unseen |= _unseen_namespaces(element)
            elif event == "end" and name == "page":
                if passage := _passage(element, unseen, path, source.line):
                    yield source.line, passage
                root.clear()
    except ElementTree.ParseError as error:
        problem = f"not well-formed XML ({error}); was the download cut short?"
        raise FormatError(path, error.position[0], problem) from error


class _PageByPage:
    """Gives the parser a page at a time, so that `line` is where the page at hand begins."""

    def __init__(self, path: Path) -> None:
        self.line = 1
        self._lines = read_lines(path)

    def read(self, _size: int = -1, /) -> str:
        """Return the lines up to a page's end, whatever size was asked for; "" at the end."""
        block: list[str] = []
        for line, text in self._lines:
            block.append(text + "\n")
            if "<page>" in text:
                self.line = line
            if "</page>" in text or len(block) == _LINES_AT_ONCE:
                break
        return "".join(block)


def _unseen_namespaces(siteinfo: ElementTree.Element) -> set[str]:
    namespaces = siteinfo.iterfind("{*}namespaces/{*}namespace")
    return {
        namespace.text.lower()
        for namespace in namespaces
        if namespace.text and namespace.get("key") in _UNSEEN_KEYS
    }


def _passage(page: ElementTree.Element, unseen: set[str], path: Path, line: int) -> Passage | None:
    """Return the article of a page, or None where it has none."""
    id, title = page.findtext("{*}id"), page.findtext("{*}title")
    if not id or not title:
        raise FormatError(path, line, "the page has no id or no title; is this a pages dump?")
    revision = page.find("{*}revision[last()]")
    if revision is None or page.find("{*}redirect") is not None:
        return None
    markup = revision.findtext("{*}text") or ""
    is_article = page.findtext("{*}ns", "0").strip() == "0"
    if not is_article or revision.findtext("{*}model", "wikitext") != "wikitext":
        return None
    text = "" if _REDIRECT.match(markup) else plain_text(markup, unseen)
    return Passage(id, title, text, _meta(revision)) if text else None


def _meta(revision: ElementTree.Element) -> dict[str, object]:
    given = (
        ("revid", revision.findtext("{*}id")),
        ("timestamp", revision.findtext("{*}timestamp")),
    )
    return {key: value for key, value in given if value}


FORMAT = Format(
    "wikipedia", "a Wikipedia XML dump, pages-articles.xml, compressed or not", _sniff, _read
)
