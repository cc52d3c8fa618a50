"""Documents of all kinds, and of all kinds of damage, into passages."""

import io
import os
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from jpr.encode.encoder_folder import BUNDLED_ENCODER
from jpr.encode.tokenizer import read_tokenizer
from jpr.errors import FormatError
from jpr.formats.corpus import documents, prose
from jpr.formats.corpus.documents import READERS, find_documents, read_document
from jpr.formats.corpus.split import WORDPIECES, usual_cut
from jpr.types import Passage
from tests.formats.corpus.document_samples import pdf, with_password, write_bomb, write_docx


def _with_flaw() -> bytes:
    """A .docx whose compressed bytes are no longer what they were."""
    out = io.BytesIO()
    write_docx(out)
    data = bytearray(out.getvalue())
    for at in range(60, len(data) // 2, 40):
        data[at] ^= 0x55
    return bytes(data)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return read_tokenizer(BUNDLED_ENCODER)


def read(path: Path, content: str | bytes = b"") -> list[Passage]:
    """Write a file, unless it is there, and read it."""
    if content:
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return list(read_document(path, path.name, usual_cut(read_tokenizer(BUNDLED_ENCODER))))


def titled(passages: list[Passage]) -> list[tuple[str, str]]:
    return [(passage.title, passage.text) for passage in passages]


def test_a_text_file_is_called_by_its_name(tmp_path: Path) -> None:
    (passage,) = read(tmp_path / "Cats at home.txt", "\ufeffThey purr.\n")
    assert passage == Passage(
        "Cats at home.txt#1", "Cats at home", "They purr.", {"file": "Cats at home.txt"}
    )


@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
def test_utf_16_and_utf_32_are_known_by_their_marks(tmp_path: Path, codec: str) -> None:
    for name, text in (("a.txt", "Zoë"), ("a.md", "Zoë"), ("a.html", "<p>Zoë</p>")):
        assert read(tmp_path / name, f"\ufeff{text}".encode(codec))[0].text == "Zoë"
    (row,) = read(tmp_path / "a.csv", "\ufeffname\nZoë\n".encode(codec))
    assert "Zoë" in row.text
    assert "\0" not in row.text


def test_long_texts_are_cut_and_nothing_is_lost(tmp_path: Path, tokenizer: Tokenizer) -> None:
    words = [f"word{number}" for number in range(2000)]
    passages = read(tmp_path / "long.txt", " ".join(words))
    assert [word for passage in passages for word in passage.text.split()] == words
    assert [passage.id for passage in passages[:2]] == ["long.txt#1", "long.txt#2"]
    for passage in passages:
        assert len(tokenizer.encode(passage.text, add_special_tokens=False)) <= WORDPIECES


def test_a_text_too_long_to_be_tokenized_at_once_is_cut_between_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents, "_PORTION", 50)
    for text in ("lighthouse keeper\n" * 40, "lighthouse " * 60):
        passages = read(tmp_path / "long.txt", text)
        found = [word for passage in passages for word in passage.text.split()]
        assert found == text.split()


def test_what_no_person_reads_is_left_out(tmp_path: Path) -> None:
    (passage,) = read(tmp_path / "a.txt", f"Before {'A1b/' * 100} after.")
    assert passage.text == "Before … after."
    chinese = "日本" * 200
    assert "".join(one.text for one in read(tmp_path / "b.txt", chinese)) == chinese


def test_markdown_is_read_section_by_section(tmp_path: Path) -> None:
    text = """---
title: "The handbook"
---
Before all.
# Start
See [the plan](plan.md) and **act**. <!-- not this -->
## Deep ##
```
# no heading
```
# End
"""
    assert titled(read(tmp_path / "a.md", text)) == [
        ("The handbook", "Before all."),
        ("The handbook: Start", "See the plan and act."),
        ("The handbook: Start: Deep", "# no heading"),
    ]
    assert titled(read(tmp_path / "b.md", "# Bees\nHoney.\n")) == [("Bees", "Honey.")]


def test_html_is_read_as_a_browser_shows_it(tmp_path: Path) -> None:
    text = """<!doctype html><html><head><title>Rivers &amp; lakes</title><style>p {}</style></head>
<body><script>let x = "<p>no</p>";</script><h1>Danube</h1><p>It flows <b>through</b>
Vi<i>enna</i>.<!-- hidden --> Then on.<br>And on.<ul><li>Ulm<li>Linz</ul>
<h2>Lakes</h2><table><tr><td>Constance</td><td>536</td></tr></table></body></html>"""
    assert titled(read(tmp_path / "a.html", text)) == [
        ("Rivers & lakes: Danube", "It flows through Vienna. Then on.\nAnd on.\nUlm\nLinz"),
        ("Rivers & lakes: Danube: Lakes", "Constance\n536"),
    ]


def test_html_is_decoded_by_what_it_says(tmp_path: Path) -> None:
    latin = '<meta charset="iso-8859-1"><p>Zoë</p>'.encode("latin-1")
    unknown = '<meta charset="rot13"><p>Zoë</p>'.encode()
    windows = "<p>Zoë’s</p>".encode("cp1252")
    for data, expected in ((latin, "Zoë"), (unknown, "Zoë"), (windows, "Zoë’s")):
        assert read(tmp_path / "a.htm", data)[0].text == expected


def test_a_pdf_is_read_page_by_page(tmp_path: Path) -> None:
    found = read(tmp_path / "report.pdf", pdf("Ada wrote notes.", "", "Grace (Hopper) compiled."))
    assert [(one.id, one.text, one.meta) for one in found] == [
        ("report.pdf#1", "Ada wrote notes.", {"page": 1, "file": "report.pdf"}),
        ("report.pdf#2", "Grace (Hopper) compiled.", {"page": 3, "file": "report.pdf"}),
    ]


def test_a_word_document_is_read_with_its_headings_and_tables(tmp_path: Path) -> None:
    path = tmp_path / "towers.docx"
    write_docx(path)
    assert titled(read(path)) == [
        ("Lighthouses", "They stand at the sea."),
        ("Lighthouses: Keepers", "Ida Lewis kept one at Newport.\nEddystone | 1759"),
    ]


def test_rows_of_a_table_are_passages(tmp_path: Path) -> None:
    text = 'country;capital;"since; about"\nFrance;Paris;987\n\nItaly;"Rome, again";\n'
    found = read(tmp_path / "capitals.csv", text)
    assert titled(found) == [
        ("capitals", "country: France; capital: Paris; since; about: 987"),
        ("capitals", "country: Italy; capital: Rome, again"),
    ]
    assert [one.meta["row"] for one in found] == [1, 3]
    assert titled(read(tmp_path / "b.csv", "a,a\n1,2,3\n")) == [("b", "a: 1; a: 2; 3")]


def test_a_column_called_text_is_the_text_and_the_others_are_known_of_it(tmp_path: Path) -> None:
    lines = """{"id": 7, "Title": "Ada", "text": "She wrote notes.", "tags": ["x"], "file": "no"}
"A line."

{"name": "Grace", "born": 1906, "where": {"in": ["a", null, "b"]}, "share": NaN}
"""
    found = read(tmp_path / "people.jsonl", lines)
    assert titled(found) == [
        ("Ada", "She wrote notes."),
        ("people", "A line."),
        ("Grace", "name: Grace; born: 1906; where: in a, , b; share: NaN"),
    ]
    assert found[0].meta == {"id": 7, "file": "people.jsonl", "row": 1}


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("a.txt", b"caf\xe9", "not UTF-8"),
        ("a.txt", b"a\0b", "not text"),
        ("a.txt", b" \n", "holds no text"),
        ("a.csv", b'a\n"' + b"x" * 200_000 + b'"\n', "not a table"),
        ("a.jsonl", b'{"a": \n', ":1: .*JSON"),
        ("a.jsonl", b"[" * 100_000, ":1: .*JSON"),
        ("a.jsonl", b"\n7\n", ":2: is neither"),
        ("a.pdf", b"%PDF-1.4 broken", "is damaged"),
        ("a.pdf", b"no pdf", "is damaged"),
        ("a.pdf", pdf("Some text.")[:300], "is damaged"),
        ("a.pdf", with_password(pdf("Some text.")), "is encrypted"),
        ("a.pdf", pdf(""), "holds no text"),
        ("a.docx", b"no zip", "is damaged"),
        ("a.docx", _with_flaw(), "is damaged"),
        ("a.docx", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "is encrypted"),
        ("a.html", b"<!-- nothing -->", "holds no text"),
    ],
)
def test_damage_is_one_sentence(tmp_path: Path, name: str, content: bytes, problem: str) -> None:
    with pytest.raises(FormatError, match=problem) as error:
        read(tmp_path / name, content)
    assert str(error.value).startswith(str(tmp_path / name))
    assert "\n" not in str(error.value)


def test_what_unpacks_to_too_much_is_not_unpacked(tmp_path: Path) -> None:
    write_bomb(tmp_path / "a.docx", megabytes=201)
    assert (tmp_path / "a.docx").stat().st_size < 1 << 20
    with pytest.raises(FormatError, match="unpacks to more than 200 MB"):
        read(tmp_path / "a.docx")
    write_bomb(tmp_path / "b.docx", megabytes=1)
    with pytest.raises(FormatError, match="is damaged"):
        read(tmp_path / "b.docx")


def test_too_large_a_file_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prose, "MAX_BYTES", 1 << 20)
    with pytest.raises(FormatError, match="larger than 1 MB; split it"):
        read(tmp_path / "a.txt", "x" * ((1 << 20) + 1))


def test_a_folder_is_listed_without_what_is_hidden_or_elsewhere(tmp_path: Path) -> None:
    root, outside = tmp_path / "docs", tmp_path / "secret.txt"
    (root / "sub").mkdir(parents=True)
    (root / ".git").mkdir()
    for file in (outside, root / "b.TXT", root / "sub/a.md", root / ".git/c.txt", root / "d.exe"):
        file.write_text("x", encoding="utf-8")
    (root / "out.txt").symlink_to(outside)
    (root / "in.txt").symlink_to(root / "b.TXT")
    (root / "up").symlink_to(tmp_path)
    (root / "gone.txt").symlink_to(root / "nothing")
    os.mkfifo(root / "pipe.txt")
    problems: list[str] = []
    assert list(find_documents(root, problems.append)) == ["b.TXT", "in.txt", "sub/a.md"]
    assert problems == []


def test_what_cannot_be_named_or_needs_an_extra_is_reported_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a.txt", "b.pdf", "c.pdf"):
        (tmp_path / name).write_text("x", encoding="utf-8")
    Path(tmp_path, os.fsdecode(b"caf\xe9.txt")).write_text("x", encoding="utf-8")
    monkeypatch.setattr(documents, "find_spec", lambda name: None if name == "pypdf" else name)
    problems: list[str] = []
    assert list(find_documents(tmp_path, problems.append)) == ["a.txt"]
    unnamed, needed = sorted(problems)
    assert "not UTF-8; rename it" in unnamed
    assert "reading .pdf files needs an extra: pip install 'jpr[documents]'; left out" in needed


def test_a_folder_that_is_none_is_reported(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="does not exist"):
        find_documents(tmp_path / "nowhere", pytest.fail)
    (tmp_path / "file").write_text("x", encoding="utf-8")
    with pytest.raises(FormatError, match="is not a folder"):
        find_documents(tmp_path / "file", pytest.fail)


def test_every_kind_has_a_sample_here() -> None:
    text = Path(__file__).read_text(encoding="utf-8")
    assert [ending for ending in READERS if f'{ending}"' not in text] == []
