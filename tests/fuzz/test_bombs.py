"""Small files that would take all memory or for ever, and names that lead elsewhere."""

import gzip
import lzma
import os
import subprocess
import tempfile
import time
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import zstandard

from jpr.errors import ConfigError, DataError, FormatError
from jpr.formats.corpus import read_passages
from jpr.formats.corpus.documents import find_documents, read_document
from jpr.formats.corpus.markup import plain_text
from jpr.formats.corpus.prose import read_html
from jpr.formats.corpus.tables import read_csv, read_jsonl
from jpr.formats.questions import LONGEST_QUESTION, load_questions
from jpr.io.json_files import iter_json
from jpr.io.text_files import read_lines
from jpr.pipeline import as_question
from jpr.serve.uploads import _named
from tests.cli.running import fails
from tests.formats.corpus.document_samples import _file, pdf

from .packed import pack, parts_of
from .test_documents import CUT, docx

MAIN = "word/document.xml"
WORD = (
    '<?xml version="1.0"?>{0}<w:document xmlns:w="http://schemas.openxmlformats.org/'
    'wordprocessingml/2006/main"><w:body>{1}</w:body></w:document>'
)
CELL = (
    "<w:tbl><w:tr><w:tc><w:tcPr>{0}</w:tcPr><w:p><w:r><w:t>bees</w:t></w:r></w:p></w:tc></w:tr>"
    "</w:tbl>"
)
LAUGHS = "".join(f'<!ENTITY e{at} "{f"&e{at - 1};" * 10}">' for at in range(1, 10))


def word(body: str, before: str = "") -> bytes:
    """A .docx with this in its main part."""
    return pack({**parts_of(docx()), MAIN: WORD.format(before, body).encode()})


def read(folder: Path, name: str, data: bytes) -> list[str]:
    path = folder / name
    path.write_bytes(data)
    return [passage.text for passage in read_document(path, name, CUT)]


@pytest.fixture(autouse=True)
def in_time() -> Iterator[None]:
    began = time.process_time()
    yield
    assert time.process_time() - began < 10


def test_a_word_document_that_unpacks_to_a_large_tree_is_refused(tmp_path: Path) -> None:
    bomb = word("<w:p/>" * (6 << 20))
    assert len(bomb) < 200_000
    with pytest.raises(FormatError, match="XML that unpacks to more than 32 MB"):
        read(tmp_path, "x.docx", bomb)


def test_entities_of_a_word_document_are_not_multiplied_nor_fetched(tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("hidden")
    text = "<w:p><w:r><w:t>seen &e9;</w:t></w:r></w:p>"
    laughs = f'<!DOCTYPE x [<!ENTITY e0 "ha">{LAUGHS}]>'
    outer = f'<!DOCTYPE x [<!ENTITY e9 SYSTEM "{secret.as_uri()}">]>'
    for before in (laughs, outer):
        try:
            found = "".join(read(tmp_path, "x.docx", word(text, before)))
        except FormatError:
            found = ""
        assert "hidden" not in found
        assert len(found) < 1000


def test_a_cell_as_wide_as_it_says_takes_no_more_room(tmp_path: Path) -> None:
    wide = CELL.format('<w:gridSpan w:val="1000000000"/>')
    assert read(tmp_path, "x.docx", word(wide)) == ["bees"]


def test_a_cell_that_resumes_below_has_its_text_there(tmp_path: Path) -> None:
    rows = [CELL.format('<w:vMerge w:val="restart"/>'), *[CELL.format("<w:vMerge/>")] * 3000]
    inner = "".join(row.removeprefix("<w:tbl>").removesuffix("</w:tbl>") for row in rows)
    (first, *_) = read(tmp_path, "x.docx", word(f"<w:tbl>{inner}</w:tbl>"))
    assert set(first.split()) == {"bees"}


@pytest.mark.parametrize(
    "html",
    [
        b"<p " + b" ".join(b"a%d=1" % at for at in range(50_000)) + b">bees",
        b"<b>" * 300_000 + b"bees",
        b"<p>" + b"<!--" * 300_000 + b"--> bees",
        b"<p>bees" + b"&amp;" * 100_000 + b"<" * 500_000,
    ],
    ids=["attributes", "depth", "comments", "entities"],
)
def test_html_is_read_in_time(tmp_path: Path, html: bytes) -> None:
    path = tmp_path / "x.html"
    path.write_bytes(html)
    tracemalloc.start()
    list(read_html(path))
    assert tracemalloc.get_traced_memory()[1] < 100 << 20
    tracemalloc.stop()


def stream(content: bytes, filters: str) -> bytes:
    """A .pdf of one page with this content."""
    head = f"<< /Length {len(content)} /Filter {filters} >>\nstream\n"
    page = "<< /Type /Page /Parent 2 0 R /Contents 4 0 R >>"
    pages = "<< /Type /Pages /Kids [3 0 R] /Count 1 >>"
    body = f"{head}{content.decode('latin-1')}\nendstream"
    return _file(["<< /Type /Catalog /Pages 2 0 R >>", pages, page, body])


def tree(*objects: str) -> bytes:
    return _file(["<< /Type /Catalog /Pages 2 0 R >>", *objects])


@pytest.mark.parametrize(
    "data",
    [
        stream(zlib.compress(bytes(200 << 20), 9), "/FlateDecode"),
        stream(zlib.compress(zlib.compress(bytes(200 << 20), 9)), "[/FlateDecode /FlateDecode]"),
        stream(b"\x81a" * (1 << 20), "/RunLengthDecode"),
        stream(zlib.compress(b"[" * (1 << 20)), "/FlateDecode"),
        tree("<< /Type /Pages /Kids [2 0 R] /Count 1 >>"),
        tree(
            "<< /Type /Pages /Kids [3 0 R] /Count 1 >>", "<< /Type /Pages /Kids [2 0 R] /Count 1 >>"
        ),
        tree("<< /Type /Pages /Kids [] /Count 2000000000 >>"),
        pdf("a")[:200],
    ],
    ids=["flate", "twice", "runs", "arrays", "cycle", "longer cycle", "count", "cut"],
)
def test_a_pdf_that_would_not_end_is_refused(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(FormatError, match=r"x\.pdf: "):
        read(tmp_path, "x.pdf", data)


def test_a_table_with_a_long_head_and_many_rows(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("," * 100_000 + "text\n" + "x\n" * 50_000)
    assert not any(unit.text for unit in read_csv(path))
    path.write_text("a,text\nx\n1,y,z\n")
    assert [unit.text for unit in read_csv(path)] == ["", "y"]


def test_rows_nested_too_deeply_and_numbers_too_large(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"a": ' + "[" * 600 + "]" * 600 + "}\n")
    with pytest.raises(FormatError, match=r"x\.jsonl:1: is not JSON"):
        list(read_jsonl(path))
    path.write_text('{"text": "bees", "n": 1e999, "m": NaN}\n')
    (unit,) = read_jsonl(path)
    assert unit.meta == {"n": "1e999", "m": "NaN", "row": 1}


def test_what_every_passage_would_repeat_is_cut(tmp_path: Path) -> None:
    rows = '{"title": "' + "t" * 99_999 + '", "text": "bees", "x": "' + "y" * 99_999 + '"}'
    path = tmp_path / "x.jsonl"
    path.write_text(rows)
    (passage,) = read_document(path, "x.jsonl", CUT)
    assert len(passage.title) == 500
    assert passage.meta == {"row": 1, "file": "x.jsonl"}


def test_a_key_that_comes_twice_among_many_is_found_at_once(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text("{" + ",".join(f'"{at}": 1' for at in range(200_000)) + ', "199999": 2}')
    with pytest.raises(FormatError, match="key '199999' comes twice"):
        list(iter_json(path))


@pytest.mark.parametrize("name", ["x.gz", "x.zst"])
def test_what_unpacks_to_far_more_is_read_piece_by_piece(tmp_path: Path, name: str) -> None:
    lines = b"a" * 999 + b"\n"
    squeeze: Callable[[bytes], bytes] = gzip.compress if name == "x.gz" else zstandard.compress
    path = tmp_path / name
    path.write_bytes(squeeze(lines * 100_000))
    tracemalloc.start()
    assert sum(1 for _ in read_lines(path)) == 100_000
    assert tracemalloc.get_traced_memory()[1] < 100 << 20
    tracemalloc.stop()


@pytest.mark.parametrize("name", ["x.gz", "x.zst", "x.xz"])
def test_a_line_that_unpacks_to_far_more_than_the_file_is_refused(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jpr.io.text_files._LONGEST_LINE", 4 << 20)
    ways: dict[str, Callable[[bytes], bytes]]
    ways = {"x.gz": gzip.compress, "x.zst": zstandard.compress, "x.xz": lzma.compress}
    squeeze, path = ways[name], tmp_path / name
    path.write_bytes(squeeze(b"a" * (16 << 20)))
    with pytest.raises(FormatError, match="line is longer"):
        list(read_lines(path))


def test_a_question_as_long_as_a_book_is_refused_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    book = "who " * (10 << 18)
    with pytest.raises(DataError, match="at most 10,000"):
        as_question(book)
    assert len(as_question("w" * LONGEST_QUESTION).text) == LONGEST_QUESTION
    path = tmp_path / "q.jsonl"
    path.write_text('{"id": "1", "question": "' + book + '", "answers": [["x"]]}\n')
    assert len(load_questions(path)) == 1
    said = fails(capsys, monkeypatch, "retrieve", tmp_path, "-q", path, "-o", tmp_path / "r.jsonl")
    assert f"{path}: question '1' has 10,485,760 characters" in said
    run = tmp_path / "run.jsonl"
    run.write_text('{"id": "7", "question": "' + book + '", "ctxs": [{"id": "a", "text": "b"}]}\n')
    for command in ("rerank", "read"):
        said = fails(capsys, monkeypatch, command, run, "-o", tmp_path / "r.jsonl")
        assert f"{run}: question '7' has 10,485,760 characters" in said


def test_links_and_pipes_of_a_folder_are_passed_over(tmp_path: Path) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_text("hidden")
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "link.txt").symlink_to(outside)
    (folder / "loop.txt").symlink_to("loop.txt")
    (folder / "up").symlink_to(tmp_path)
    (folder / "null.txt").symlink_to("/dev/zero")
    os.mkfifo(folder / "pipe.txt")
    (folder / "folder.txt").mkdir()
    (folder / "a\nb.txt").write_text("bees")
    assert list(find_documents(folder, pytest.fail)) == ["a\nb.txt"]


def test_a_file_a_thousand_folders_deep_is_found() -> None:
    root = Path(tempfile.mkdtemp())
    try:
        for depth in range(100, 1600, 100):
            root.joinpath(*"d" * depth).mkdir(parents=True)
        root.joinpath(*"d" * 1500, "deep.txt").write_text("bees")
        (name,) = find_documents(root, pytest.fail)
        assert name.endswith("d/deep.txt")
    finally:
        subprocess.run(["rm", "-rf", root], check=True)  # before 3.12, Python cannot


def test_names_of_files_that_were_sent_lead_nowhere() -> None:
    hostile = ["../../etc/x.txt", "/abs.txt", "C:\\x\\y.md", "n\0ul.txt", "\ud800.txt", "x" * 999]
    sent = [*hostile, "..", "", "./.", "a/b/"]
    names = list(_named([(name, b"") for name in sent]))
    assert len(names) == len(sent)
    for name in names:
        assert "/" not in name.replace("..", "")
        assert "\0" not in name
        assert len(os.fsencode(name)) < 255
    assert names[:5] == ["x.txt", "abs.txt", "y.md", "nul.txt", "?.txt"]


def test_no_device_is_read_as_a_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    for path in (tmp_path / "pipe.jsonl", Path("/dev/zero"), tmp_path):
        with pytest.raises((FormatError, ConfigError)):
            load_questions(path)


def test_entities_of_a_dump_are_not_multiplied(tmp_path: Path) -> None:
    path = tmp_path / "dump.xml"
    page = "<page><title>a</title><id>1</id><revision><text>&e9;</text></revision></page>"
    path.write_text(f'<!DOCTYPE x [<!ENTITY e0 "ha">{LAUGHS}]>\n<mediawiki>{page}</mediawiki>')
    with pytest.raises(FormatError, match="not well-formed XML"):
        list(read_passages(path, "wikipedia"))


@pytest.mark.parametrize("piece", ["[[", "{{", "<ref>", "{{{", "[[a|", "&amp;", "''", "{|\n", "="])
def test_wiki_markup_is_read_in_time(piece: str) -> None:
    plain_text(piece * (200_000 // len(piece)))
    plain_text(piece * 50_000 + "]]}}</ref>" * 50_000)
