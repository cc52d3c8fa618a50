"""Wikipedia, a passage per article: an XML dump, or WikiExtractor's output (docs/formats.md)."""

import html
import re
from pathlib import Path
from xml.etree import ElementTree

from jpr.errors import FormatError
from jpr.formats.corpus.jsonl import atlas, is_passage
from jpr.formats.corpus.markup import UNSEEN_NAMESPACES, plain_text
from jpr.formats.format import Head, Located, file_format
from jpr.io.text_files import read_lines
from jpr.types import Passage

_LINES_AT_ONCE = 10_000
_UNSEEN_KEYS = ("-2", "6", "14")  # media, file and category, whatever the language calls them
_REDIRECT = re.compile(r"\s*+#REDIRECT\b", re.IGNORECASE)
_DOC = re.compile(r'<doc ((?:[a-z]+="[^"]*" )*+)title="(.*)">')
_ATTRIBUTE = re.compile(r'(?<![a-z])([a-z]++)="([^"]*+)"')
_NAME = "wiki_[0-9]*"


@file_format("wikipedia", lambda head: head.line.lstrip().startswith("<mediawiki"))
def _wikipedia(path: Path) -> Located[Passage]:
    """a Wikipedia XML dump, pages-articles.xml, compressed or not."""
    source = _PageByPage(path)
    unseen = set(UNSEEN_NAMESPACES)
    try:
        events = ElementTree.iterparse(source, events=("start", "end"))
        _, root = next(events)
        for event, element in events:
            name = element.tag.rpartition("}")[2] if event == "end" else ""
            if name == "namespace" and element.get("key") in _UNSEEN_KEYS:
                unseen.add((element.text or "media").lower())
            elif name == "page":
                if passage := _article(element, unseen, path, source.line):
                    yield source.line, passage
                root.clear()
    except ElementTree.ParseError as error:
        problem = f"not well-formed XML ({error}); was the download cut short?"
        raise FormatError(path, error.position[0], problem) from error


class _PageByPage:
    """Feeds the parser a page at a time, so that `line` is where the current page begins."""

    def __init__(self, path: Path) -> None:
        self.line = 1
        self._lines = read_lines(path)

    def read(self, _size: int = -1, /) -> str:
        block: list[str] = []
        for line, text in self._lines:
            block.append(text + "\n")
            if "<page>" in text:
                self.line = line
            if "</page>" in text or len(block) == _LINES_AT_ONCE:
                break
        return "".join(block)


def _article(page: ElementTree.Element, unseen: set[str], path: Path, line: int) -> Passage | None:
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
    keys = {"revid": "{*}id", "timestamp": "{*}timestamp"}
    meta = {key: value for key, place in keys.items() if (value := revision.findtext(place))}
    return Passage(id, title, text, meta) if text else None


def is_extracted(head: Head) -> bool:
    """Recognize a file of WikiExtractor by its first document, a folder by its files' names."""
    if head.path.is_dir():
        return any(any(head.path.glob(where + _NAME)) for where in ("", "[A-Z][A-Z]/"))
    if is_passage(head, "id", "url", "title", "text"):
        return not head.has("section") and not head.has("contents")
    return _DOC.fullmatch(head.line.strip()) is not None


@file_format("wikiextractor", is_extracted)
def _wikiextractor(path: Path) -> Located[Passage]:
    """WikiExtractor's output: its folder or one file, <doc> or --json form."""
    for file in sorted(path.rglob(_NAME)) if path.is_dir() else [path]:
        first = next((text for _, text in read_lines(file) if text.strip()), "")
        read = atlas.read if first.lstrip().startswith(("{", "[")) else _read_docs
        for line, passage in read(file):
            title, text = html.unescape(passage.title), html.unescape(passage.text).strip()
            if text:
                found = Passage(passage.id, title, text, passage.meta)
                yield line if file == path else 0, found


def _read_docs(path: Path) -> Located[Passage]:
    lines = read_lines(path)
    for line, text in lines:
        if not text.strip():
            continue
        tag = _DOC.fullmatch(text.strip())
        meta: dict[str, object] = dict(_ATTRIBUTE.findall(tag[1])) if tag else {}
        if tag is None or not meta.get("id"):
            raise FormatError(path, line, 'expected a line <doc id="…" url="…" title="…">')
        body, inner = list[str](), ""
        for _, inner in lines:
            if inner == "</doc>" or _DOC.fullmatch(inner):
                break
            body.append(inner)
        if inner != "</doc>":
            problem = "</doc> is missing after this document; was the file cut short?"
            raise FormatError(path, line, problem)
        title = tag[2]
        text = "\n".join(body[body[:1] == [title] :])
        yield line, Passage(str(meta.pop("id")), title, text, meta)


FORMATS = (_wikipedia, _wikiextractor)
