import bz2
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jpr.errors import FormatError
from jpr.formats.corpus import read_passages
from jpr.formats.corpus.markup import plain_text
from jpr.types import Passage

SITE = """<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" version="0.11" xml:lang="de">
  <siteinfo><namespaces>
    <namespace key="0" /> <namespace key="6">Datei</namespace>
    <namespace key="14">Kategorie</namespace>
  </namespaces></siteinfo>
"""


def page(id: int, text: str, *, ns: int = 0, extra: str = "", model: str = "wikitext") -> str:
    return f"""  <page>
    <title>Page {id}</title>
    <ns>{ns}</ns>
    <id>{id}</id>{extra}
    <revision>
      <id>{id}00</id>
      <timestamp>2020-01-02T03:04:05Z</timestamp>
      <contributor><username>Ann</username><id>5</id></contributor>
      <model>{model}</model>
      <text bytes="9" xml:space="preserve">{text}</text>
    </revision>
  </page>
"""


def dump(folder: Path, *pages: str, end: str = "</mediawiki>\n") -> Path:
    path = folder / "dewiki-pages-articles.xml.bz2"
    path.write_bytes(bz2.compress((SITE + "".join(pages) + end).encode()))
    return path


def test_a_dump_gives_its_articles(tmp_path: Path) -> None:
    path = dump(
        tmp_path,
        page(1, "'''Bees''' make [[honey]] &amp;amp; wax.[[Datei:Bee.jpg|mini|A [[bee]]]]"),
        page(2, "#REDIRECT [[Page 1]]"),
        page(3, "moved", extra='<redirect title="Page 1" />'),
        page(4, "about a page", ns=1),
        page(5, "{{only a box}}[[Kategorie:Boxes]]"),
        page(6, '{"entity": 1}', model="wikibase-item"),
        page(7, "== Head ==\nSecond &lt;ref&gt;note&lt;/ref&gt; article."),
    )
    meta = {"timestamp": "2020-01-02T03:04:05Z"}
    assert list(read_passages(path)) == [
        Passage("1", "Page 1", "Bees make honey & wax.", {"revid": "100", **meta}),
        Passage("7", "Page 7", "Head\nSecond article.", {"revid": "700", **meta}),
    ]


def test_of_several_revisions_the_last_is_read(tmp_path: Path) -> None:
    older = "\n<revision><id>1</id><text>old</text></revision>"
    (passage,) = read_passages(dump(tmp_path, page(1, "new", extra=older)))
    assert (passage.text, passage.meta["revid"]) == ("new", "100")


@pytest.mark.parametrize(
    ("pages", "end", "says"),
    [
        ([page(1, "x")], "", r"bz2:18: not well-formed XML \(no element found"),
        (
            [page(1, "x"), page(2, "<b>")],
            "</mediawiki>",
            r"bz2:\d+: not well-formed XML \(mismatched",
        ),
        ([page(1, "x").replace("<id>1</id>", "")], "</mediawiki>", "bz2:6: the page has no id"),
        ([page(1, "x"), page(1, "y")], "</mediawiki>", "bz2:18: id '1' was used before"),
        ([page(1, "#redirect [[x]]")], "</mediawiki>", "bz2: holds no record of format wikipedia"),
    ],
)
def test_a_broken_dump_is_named(tmp_path: Path, pages: list[str], end: str, says: str) -> None:
    with pytest.raises(FormatError, match=says):
        list(read_passages(dump(tmp_path, *pages, end=end)))


def test_a_dump_cut_short_while_compressed_is_named(tmp_path: Path) -> None:
    path = dump(tmp_path, *(page(n, f"text {n * 7919}") for n in range(1, 400)))
    path.write_bytes(path.read_bytes()[:-50])
    with pytest.raises(FormatError, match="compressed data is damaged or cut short"):
        list(read_passages(path, "wikipedia"))


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("a {{b|{{c}}|d}} e", "a e"),
        ("{{{1|}}}a", "a"),
        ("{{x|}}a", "a"),
        ("a\n{| class=x\n| b\n{|\n| c\n|}\n|}\nd", "a\nd"),
        ("a<ref name=x>b [[c]] {{d</ref>e<ref name=x />f<REFERENCES/>", "aef"),
        ("a <!-- b\n--> c <!-- d", "a c"),
        ("[[a]] [[a|b]]s [[:Category:a]] [[a#b|''c'']]", "a bs Category:a c"),
        ("[[File:a.jpg|thumb|b [[c]] d]]e[[category:f]][[image:g]][[de:h]][[zh-min-nan:i]]", "e"),
        ("[[a|[b]]] [[Help:x|y]]", "[b] y"),
        ("[https://x.org the site], [//y.org], [mailto:z] [sic]", "the site, , [sic]"),
        ("'''a''' ''b'' '''''c''''' d's ''''e'''", "a b c d's 'e"),
        ("* a\n** b\n# c\n: d\n; e\n----\nf", "a\nb\nc\nd\ne\nf"),
        ("== A ==\n=== B ===\n== C ==\n=== D ===\nd\n== E ==\n", "C\nD\nd"),
        ("= A =\nb == c", "A\nb == c"),
        ("a &lt;b&gt; &nbsp; &eacute; &#65;", "a <b> é A"),
        ("<b>a</b><br/>b <span style='x'>c</span> 1 < 2 > 0", "a b c 1 < 2 > 0"),
        ("a ({{b}}, {{c}}) (; d) (e)", "a (d) (e)"),
        ("__NOTOC__a <math>x {{y}</math>b", "a b"),
        ("a }} b ]] c {{ d [[ e <ref> f |} g", "a b c d e f |} g"),
        ("{{\na\n{|\n| b", "a"),
    ],
)
def test_markup_becomes_what_a_reader_sees(markup: str, text: str) -> None:
    assert plain_text(markup) == text


@pytest.mark.parametrize(
    "piece", ["[[", "{{", "{|\n", "<ref>", "<!--", "[[a|", "[http:", "{{[[", "<ref ", "( ;", "]]}}"]
)
def test_deep_and_unclosed_markup_takes_linear_time(piece: str) -> None:
    deep = piece * 50_000  # a step that goes back for each would take minutes
    closed = deep + "x" * 50_000 + "]]}}" * 50_000
    assert len(plain_text(deep)) <= len(deep)
    assert len(plain_text(closed)) <= len(closed)


MARKS = ["{{", "}}", "{|", "|}", "[[", "]]", "|", "==", "''", "<ref>", "</ref>", "<!--"]


@given(st.lists(st.sampled_from([*MARKS, "-->", "File:", ":", "a", " ", "\n"])))
def test_any_markup_is_read_without_leaving_brackets(pieces: list[str]) -> None:
    assert not set(plain_text("".join(pieces)).split()) & {"[[", "{{", "<ref>", "<!--"}


DOCS = """<doc id="12" revid="7" url="https://x.org/?curid=12" title="The "A" &amp; B">
The "A" &amp; B

First &lt;line&gt;.
Second.

</doc>
<doc id="13" url="https://x.org/?curid=13" title="Moved">
Moved


</doc>
<doc id="14" url="https://x.org/?curid=14" title="C">
Not the title.
</doc>
"""
ARTICLES = [
    Passage("12", 'The "A" & B', "First <line>.\nSecond.",
            {"revid": "7", "url": "https://x.org/?curid=12"}),
    Passage("14", "C", "Not the title.", {"url": "https://x.org/?curid=14"}),
]  # fmt: skip
LINES = (
    '{"id": "21", "revid": "3", "url": "u", "title": "D", "text": "Fish &amp; chips.\\nMore."}\n'
    '{"id": "22", "revid": "4", "url": "v", "title": "Empty", "text": ""}\n'
)
FISH = Passage("21", "D", "Fish & chips.\nMore.", {"revid": "3", "url": "u"})


def stored(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_both_forms_of_wikiextractor_are_read(tmp_path: Path) -> None:
    assert list(read_passages(stored(tmp_path, "wiki_00", DOCS))) == ARTICLES
    assert list(read_passages(stored(tmp_path, "wiki_01", LINES))) == [FISH]


def test_a_folder_of_wikiextractor_is_read_in_order(tmp_path: Path) -> None:
    stored(tmp_path, "AB/wiki_00", LINES)
    stored(tmp_path, "AA/wiki_01", "")
    (tmp_path / "AA" / "wiki_00.bz2").write_bytes(bz2.compress(DOCS.encode()))
    assert list(read_passages(tmp_path)) == [*ARTICLES, FISH]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (DOCS.removesuffix("</doc>\n"), "wiki_00:13: </doc> is missing"),
        (DOCS.replace("</doc>\n", "", 1), "wiki_00:1: </doc> is missing"),
        (DOCS + "stray\n", 'wiki_00:16: .*<doc id="…" url="…" title="…">'),
        (DOCS + '<doc url="u" title="x">\n</doc>\n', "wiki_00:16: .*<doc id="),
        (DOCS + DOCS, "wiki_00:16: id '12' was used before"),
        (LINES + '{"id": "23", "url": "v"}\n', "wiki_00:3: key 'text' is missing"),
        (LINES + "[]\n", "wiki_00:3: a JSON object is expected"),
        (LINES * 3 + "{oops}\n", "wiki_00:(3: id|7: not valid JSON)"),
    ],
)
def test_broken_output_of_wikiextractor_is_named(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(FormatError, match=says):
        list(read_passages(stored(tmp_path, "wiki_00", text)))
