import os
from pathlib import Path

import pytest

from jpr.errors import FormatError
from jpr.formats.corpus import read_passages
from jpr.types import Passage


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    files = {
        "b.txt": "Bees.\r\nHoney.\n",
        "B.MD": "no heading",
        "sub/a.md": "---\nx: y\n---\n## A *title* ##\n# Later\n",
        "sub/code.md": "```sh\n# a comment\n```\n# After\n",
        "sub/blank.txt": "",
        ".hidden.txt": "x",
        ".git/notes.txt": "x",
        "sub/picture.png": "x",
        "sub/txt": "x",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text.encode())
    return folder


def test_every_text_file_is_a_passage_named_by_its_path(notes: Path) -> None:
    assert list(read_passages(notes)) == [
        Passage("B.MD", "B", "no heading"),
        Passage("b.txt", "b", "Bees.\nHoney."),
        Passage("sub/a.md", "A *title*", "---\nx: y\n---\n## A *title* ##\n# Later"),
        Passage("sub/blank.txt", "blank", ""),
        Passage("sub/code.md", "code", "```sh\n# a comment\n```\n# After"),
    ]


def test_one_file_can_be_named_as_text(notes: Path) -> None:
    assert list(read_passages(notes / "b.txt", "text")) == [
        Passage("b.txt", "b", "Bees.\nHoney."),
    ]


def test_a_folder_without_text_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".x.txt").write_text("x")
    (tmp_path / "x.pdf").write_text("x")
    with pytest.raises(FormatError, match=r"the folder holds no \.txt or \.md file"):
        list(read_passages(tmp_path))


def test_a_file_that_is_not_utf8_is_named(notes: Path) -> None:
    (notes / "sub" / "latin.txt").write_bytes(b"ok\ncaf\xe9\n")
    with pytest.raises(FormatError, match=r"sub/latin\.txt:2: byte 0xe9 is not UTF-8"):
        list(read_passages(notes))


def test_a_name_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    Path(tmp_path, os.fsdecode(b"caf\xe9.txt")).write_text("x")
    with pytest.raises(FormatError, match="the file's name is not UTF-8; rename it"):
        list(read_passages(tmp_path))


def test_a_link_that_leads_nowhere_is_named(tmp_path: Path) -> None:
    (tmp_path / "gone.txt").symlink_to(tmp_path / "nowhere")
    with pytest.raises(FormatError, match=r"gone\.txt: cannot be read"):
        list(read_passages(tmp_path))
