"""What holds for every format of passages."""

import bz2
import gzip
import io
import lzma
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from jpr.errors import ConfigError, FormatError
from jpr.formats.corpus import FORMATS, read_passages, write_passages
from jpr.formats.format import detect
from jpr.types import Passage

DUMP = """<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" version="0.11">
  <page>
    <title>Bees</title>
    <ns>0</ns>
    <id>1</id>
    <revision><id>9</id><text>Bees make honey.</text></revision>
  </page>
</mediawiki>
"""
DOC = '<doc id="1" url="https://x.org/?curid=1" title="Bees">\nBees\n\nBees make honey.\n</doc>\n'
SAMPLES = {
    "dpr": "id\ttext\ttitle\n1\tBees make honey.\tBees\n",
    "tsv": "1\tBees make honey.\tBees\n",
    "msmarco": "1\tBees make honey.\n",
    "beir": '{"_id": "1", "title": "Bees", "text": "Bees make honey.", "metadata": {}}\n',
    "pyserini": '{"id": "1", "contents": "Bees\\nBees make honey."}\n',
    "atlas": '{"id": "1", "title": "Bees", "text": "Bees make honey.", "section": ""}\n',
    "wikipedia": DUMP,
    "wikiextractor": DOC,
}
ids_and_samples = pytest.mark.parametrize(("name", "text"), SAMPLES.items())


def stored(folder: Path, content: str | bytes) -> Path:
    path = folder / "passages"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@ids_and_samples
def test_a_file_is_recognized_and_read(tmp_path: Path, name: str, text: str) -> None:
    path = stored(tmp_path, text)
    assert detect(path, FORMATS).name == name
    (passage,) = read_passages(path)
    title = "" if name == "msmarco" else "Bees"
    assert (passage.id, passage.title, passage.text) == ("1", title, "Bees make honey.")


def test_compression_changes_nothing(tmp_path: Path) -> None:
    packers = (gzip.compress, lzma.compress, bz2.compress, zstandard.compress)
    wrong = []
    for name, text in SAMPLES.items():
        plain = list(read_passages(stored(tmp_path, text)))
        for pack in packers:
            if list(read_passages(stored(tmp_path, pack(text.encode())))) != plain:
                wrong.append((name, pack))
    assert not wrong


@ids_and_samples
def test_windows_line_ends_and_a_byte_order_mark_change_nothing(
    tmp_path: Path, name: str, text: str
) -> None:
    plain = list(read_passages(stored(tmp_path, text)))
    windows = "\ufeff" + text.replace("\n", "\r\n")
    assert list(read_passages(stored(tmp_path, windows))) == plain


@pytest.mark.parametrize("content", ["", "\n\n"])
def test_an_empty_file_is_refused(tmp_path: Path, content: str) -> None:
    path = stored(tmp_path, content)
    with pytest.raises(FormatError, match="passages: the file is empty"):
        list(read_passages(path))
    for name in SAMPLES:
        with pytest.raises(FormatError, match="passages:"):
            list(read_passages(path, name))


@ids_and_samples
def test_an_id_used_twice_is_refused(tmp_path: Path, name: str, text: str) -> None:
    record = text.split("\n", 1)[1] if name == "dpr" else text
    twice = text + record
    if name == "wikipedia":
        page = text[text.index("  <page>") : text.index("</mediawiki>")]
        twice = text.replace(page, page + page)
    with pytest.raises(FormatError, match=r"passages:\d+: id '1' was used before"):
        list(read_passages(stored(tmp_path, twice)))


@ids_and_samples
def test_bytes_that_are_not_utf8_are_named_with_their_line(
    tmp_path: Path, name: str, text: str
) -> None:
    content = text.encode().replace(b"make", b"m\xe4ke")
    line = content[: content.index(b"\xe4")].count(b"\n") + 1
    with pytest.raises(FormatError, match=f"passages:{line}: byte 0xe4 is not UTF-8"):
        list(read_passages(stored(tmp_path, content), name))


@pytest.mark.parametrize("name", SAMPLES)
def test_a_file_of_another_format_is_refused_and_not_misread(tmp_path: Path, name: str) -> None:
    for other, text in SAMPLES.items():
        if other != name and {other, name} != {"dpr", "tsv"}:
            try:
                passages = list(read_passages(stored(tmp_path, text), name))
            except FormatError:
                continue
            assert passages[0].text == "Bees make honey."  # Atlas's keys are a subset of others'


@pytest.mark.parametrize(
    "text",
    [
        "301 Q0 FT911-1 1 9.5 tag\n",  # a run
        "301\tQ0\tFT911-1\t1\t9.5\ttag\n",
        "301\tFT911-1\t1\n",  # MS MARCO's run
        "301\t0\tFT911-1\t2\n",  # judgements
        "query-id\tcorpus-id\tscore\n",
        "who makes honey\t['bees', 'the bees']\n",  # questions
        "7\twho makes honey\t['bees']\n",
        "who makes honey?\tbees\n",
        '{"_id": "7", "text": "who makes honey", "metadata": {}}\n',
        '{"id": "7", "question": "who?", "answers": [["bees"]], "text": "", "title": ""}\n',
        '{"id": "7", "query": "who makes honey?", "contents": ""}\n',
        '[{"id": "7", "title": "", "text": "", "ctxs": [{"id": "1", "title": "", "text": ""}]}]',
        '{"7": {"question": "who?", "answers": ["bees"], "contexts": []}}\n',
        "<topics><topic number='1'/></topics>\n",
        "plain words in a line\n",
    ],
)
def test_files_that_hold_no_passages_are_not_claimed(tmp_path: Path, text: str) -> None:
    with pytest.raises(FormatError, match=r"this command reads.* dpr, tsv"):
        list(read_passages(stored(tmp_path, text)))


def test_reading_is_lazy(tmp_path: Path) -> None:
    passages = read_passages(stored(tmp_path, "1\tBees make honey.\tBees\nbroken\n"))
    assert next(passages).id == "1"
    with pytest.raises(FormatError, match="passages:2: 1 columns"):
        next(passages)


def test_names_of_formats_are_checked(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="unknown format 'csv'; known: dpr"):
        next(read_passages(tmp_path, "csv"))
    with pytest.raises(ConfigError, match="'wikipedia' cannot be written; choose one of dpr, tsv"):
        write_passages([], io.StringIO(), "wikipedia")
    with pytest.raises(FormatError, match=r"nowhere: .*No such file"):
        next(read_passages(tmp_path / "nowhere"))


texts = st.text(st.characters(codec="utf-8", exclude_characters="\ufeff"), max_size=40)
kept = texts.filter(lambda text: not set(text) & set("\t\r\n"))
ids = kept.filter(str.strip)
metas = st.dictionaries(st.sampled_from(["section", "year"]), st.none() | texts | st.integers())


def reread(passages: list[Passage], name: str, folder: Path) -> list[Passage]:
    stream = io.StringIO()
    write_passages(passages, stream, name)
    return list(read_passages(stored(folder, stream.getvalue()), name))


@pytest.mark.parametrize("name", ["dpr", "tsv", "beir", "atlas", "pyserini"])
@given(st.lists(st.builds(Passage, ids, kept.map(str.strip), kept, metas), min_size=1, max_size=4))
def test_what_is_written_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, name: str, passages: list[Passage]
) -> None:
    numbered = [
        Passage(f"{i}{p.id}", p.title, p.text, {} if name in ("dpr", "tsv") else p.meta)
        for i, p in enumerate(passages)
    ]
    assert reread(numbered, name, tmp_path_factory.mktemp("written")) == numbered


@pytest.mark.parametrize("name", ["dpr", "tsv"])
@given(title=texts, text=texts)
def test_tabs_and_line_ends_become_spaces(
    tmp_path_factory: pytest.TempPathFactory, name: str, title: str, text: str
) -> None:
    (passage,) = reread([Passage("1", title, text)], name, tmp_path_factory.mktemp("written"))
    spaced = str.maketrans("\t\r\n", "   ")
    assert (passage.title, passage.text) == (title.translate(spaced), text.translate(spaced))


def test_paragraphs_survive_in_json(tmp_path: Path) -> None:
    passage = Passage("1", '"Heroes"', "One.\n\nTwo\t!\r\n", {"year": 1977})
    for name in ("beir", "atlas", "pyserini"):
        assert reread([passage], name, tmp_path) == [passage]
