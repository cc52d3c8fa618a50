"""WikiExtractor's output, a passage per article: a folder of `AA/wiki_00` files or one of them.

Both forms are read: `<doc id= url= title=>` … `</doc>`, and an object per line (`--json`). The
first line of a document is dropped where it repeats the title, entities become characters, and an
article without text, which WikiExtractor leaves of a redirect, is skipped.
"""

import html
import re
from pathlib import Path

from jpr.errors import FormatError
from jpr.formats.corpus.jsonl import is_passage, read_objects
from jpr.formats.format import Format, Head, Located
from jpr.io.text_files import read_lines
from jpr.types import Passage

_DOC = re.compile(r'<doc ((?:[a-z]+="[^"]*" )*+)title="(.*)">')
_ATTRIBUTE = re.compile(r'(?<![a-z])([a-z]++)="([^"]*+)"')
_NAME = "wiki_[0-9]*"


def is_extracted(head: Head) -> bool:
    """Recognise a file of WikiExtractor by its first document, a folder by its files' names."""
    if head.path.is_dir():
        return any(any(head.path.glob(where + _NAME)) for where in ("", "[A-Z][A-Z]/"))
    if is_passage(head, "id", "url", "title", "text"):
        return not head.has("section") and not head.has("contents")
    return _DOC.fullmatch(head.line.strip()) is not None


def _read(path: Path) -> Located[Passage]:
    if not path.is_dir():
        yield from _read_file(path)
        return
    for file in sorted(path.rglob(_NAME)):
        yield from ((0, passage) for _, passage in _read_file(file))


def _read_file(path: Path) -> Located[Passage]:
    first = next((text for _, text in read_lines(path) if text.strip()), "")
    read = read_objects if first.lstrip().startswith(("{", "[")) else _read_docs
    for line, passage in read(path):
        title, text = html.unescape(passage.title), html.unescape(passage.text).strip()
        if text:
            yield line, Passage(passage.id, title, text, passage.meta)


def _read_docs(path: Path) -> Located[Passage]:
    lines = read_lines(path)
    for line, text in lines:
        if text.strip():
            id, title, meta = _attributes(path, line, text)
            body: list[str] = []
            for _, inner in lines:
                if inner == "</doc>":
                    break
                if _DOC.fullmatch(inner):
                    raise _unclosed(path, line)
                body.append(inner)
            else:
                raise _unclosed(path, line)
            yield line, Passage(id, title, "\n".join(body[body[:1] == [title] :]), meta)


def _unclosed(path: Path, line: int) -> FormatError:
    return FormatError(path, line, "</doc> is missing after this document; was the file cut short?")


def _attributes(path: Path, line: int, text: str) -> tuple[str, str, dict[str, object]]:
    tag = _DOC.fullmatch(text.strip())
    meta: dict[str, object] = dict(_ATTRIBUTE.findall(tag[1])) if tag else {}
    if tag is None or not meta.get("id"):
        raise FormatError(path, line, 'a line <doc id="…" url="…" title="…"> is expected')
    return str(meta.pop("id")), tag[2], meta


FORMAT = Format(
    "wikiextractor",
    "WikiExtractor's output: its folder or one file, <doc> or --json form",
    is_extracted,
    _read,
)
