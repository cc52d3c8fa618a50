"""Documents that would take all memory, all time, or become any amount of text."""

import subprocess
import sys
from functools import partial
from pathlib import Path
from time import monotonic

import pytest

from jpr.encode.encoder_folder import BUNDLED_ENCODER
from jpr.encode.tokenizer import read_tokenizer
from jpr.errors import FormatError
from jpr.formats.corpus import read_passages
from jpr.formats.corpus.document_process import DocumentLimits, DocumentProcess, read_documents
from jpr.formats.corpus.documents import Cut, read_document
from jpr.formats.corpus.split import split_words, usual_cut
from tests.formats.corpus.hostile_cut import hostile
from tests.fuzz.test_bombs import word

WORDS = partial(split_words, words=100)
USUAL = usual_cut(read_tokenizer(BUNDLED_ENCODER))


def written(folder: Path, **texts: str | bytes) -> dict[str, Path]:
    files = {name.replace("_", "."): folder / name.replace("_", ".") for name in texts}
    for path, text in zip(files.values(), texts.values(), strict=True):
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return files


def problems(files: dict[str, Path], cut: Cut, limits: DocumentLimits) -> dict[str, str]:
    """Read files one after the other; return what is wrong with each, or its text."""
    found: dict[str, str] = {}
    with DocumentProcess(cut, limits) as process:
        for name, file in files.items():
            try:
                found[name] = " ".join(passage.text for passage in process.read(file, name))
            except FormatError as error:
                found[name] = error.problem
    return found


def test_one_file_that_takes_down_its_reader_harms_no_other(tmp_path: Path) -> None:
    kinds = ["hang", "grow", "abort", "fail", "print", "refuse", "bees"]
    files = written(tmp_path, **{f"{kind}_txt": kind for kind in kinds})
    limits = DocumentLimits(memory=200 << 20, seconds=1)
    assert problems(files, hostile, limits) == {
        "hang.txt": "takes more than 1 seconds to read; split it",
        "grow.txt": "takes more than 0.195 GB of memory to read; split it",
        "abort.txt": "ended the process that read it (status -6); convert it",
        "fail.txt": "cannot be read (KeyError: 'font')",
        "print.txt": "print",
        "refuse.txt": "one character is too long",
        "bees.txt": "bees",
    }


def merged_cells(rows: int, text: str) -> bytes:
    cell = "<w:tc><w:tcPr><w:vMerge{}/></w:tcPr><w:p>{}</w:p></w:tc>"
    first = cell.format(' w:val="restart"', f"<w:r><w:t>{text}</w:t></w:r>")
    other = cell.format("", "")
    return word(
        f"<w:tbl><w:tr>{first}{first.replace('bees', 'wasps')}</w:tr>"
        + f"<w:tr>{other}{other}</w:tr>" * rows
        + "</w:tbl>"
    )


def test_files_that_become_far_more_than_they_are(tmp_path: Path) -> None:
    docx = merged_cells(3000, "bees " * 20_000)
    assert len(docx) < 50_000
    header = "x" * 20_000
    files = written(
        tmp_path,
        merged_docx=docx,
        names_csv=f"{header}\n" + "1\n" * 1000,
        rows_csv="text\n" + "bees\n" * 100_000,
        meta_csv=f"{'y' * 9000},text\n" + "1,bees\n" * 49 + f"1,{'bees ' * 9000}\n",
        good_md="# Bees\nThey make honey.",
    )
    limits = DocumentLimits(memory=200 << 20, seconds=20, passages=500, output=1 << 20)
    began = monotonic()
    assert problems(files, WORDS, limits) == {
        "merged.docx": "takes more than 0.195 GB of memory to read; split it",
        "names.csv": "is more than 500 passages; split it",
        "rows.csv": "is more than 500 passages; split it",
        "meta.csv": "becomes more than 1 MB of passages; split it",
        "good.md": "They make honey.",
    }
    assert monotonic() - began < 20


def test_it_reads_what_is_read_without_it(tmp_path: Path) -> None:
    files = written(
        tmp_path,
        a_csv="title,text,year\nZoë,bees\u2028 make,1\n",
        b_jsonl='{"text": "\\ud800 half", "n": 1e999, "ok": true}\n',
        c_txt="word " * 1000,
    )
    with DocumentProcess(USUAL) as process:
        for name, file in files.items():
            assert process.read(file, name) == list(read_document(file, name, USUAL))


def test_what_is_left_out_is_noted_with_its_reason(tmp_path: Path) -> None:
    files = written(tmp_path, a_txt="bees", b_txt=b"\xff", c_txt="wasps")
    files["gone.txt"] = tmp_path / "gone.txt"
    notes: list[str] = []
    read = dict(read_documents(files, WORDS, notes.append, lambda _: None))
    assert {name: len(passages) for name, passages in read.items()} == {
        "a.txt": 1, "b.txt": 0, "c.txt": 1, "gone.txt": 0,
    }  # fmt: skip
    assert [note.endswith("; left out") for note in notes] == [True, True]
    assert notes[0].startswith(f"{tmp_path / 'b.txt'}: is not UTF-8")


def test_a_process_that_was_killed_is_started_again(tmp_path: Path) -> None:
    (file,) = written(tmp_path, a_txt="bees").values()
    with DocumentProcess(WORDS) as process:
        for _ in range(2):
            assert len(process.read(file, "a.txt")) == 1
            assert process._process is not None
            process._process.kill()
            process._process.wait()


def test_a_script_without_a_main_guard_can_read(tmp_path: Path) -> None:
    written(tmp_path, a_txt="bees")
    (tmp_path / "pickle.py").write_text("raise SystemExit('not the library's')")
    script = tmp_path / "scripts" / "script.py"
    script.parent.mkdir()
    script.write_text(
        "from functools import partial\nfrom pathlib import Path\n"
        "from jpr.formats.corpus.document_process import read_documents\n"
        "from jpr.formats.corpus.split import split_words\n"
        "files = {'a.txt': Path('a.txt')}\n"
        "print([len(p) for _, p in read_documents(files, split_words, print, lambda _: None)])\n"
    )
    done = subprocess.run(
        [sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("[1]\n", "")


def test_a_lack_of_memory_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_bytes(b'{"id": "' + bytes(100 << 20))
    lines = ["import sys, resource", "from jpr.cli import main"]
    lines += ["resource.setrlimit(resource.RLIMIT_DATA, (150 << 20, -1))"]
    lines += ["sys.argv = ['jpr', 'validate', 'x.jsonl']", "main()"]
    command = [sys.executable, "-c", "\n".join(lines)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "jpr: not enough memory; give it smaller files or a larger machine\n"


def test_a_table_of_one_long_line_is_refused_before_it_is_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jpr.io.text_files._LONGEST_LINE", 4 << 20)
    path = tmp_path / "x.tsv"
    path.write_bytes(b"1\tbees\t" * (1 << 20))
    with pytest.raises(FormatError, match="a line is longer than 4 MB: not text"):
        list(read_passages(path))
    path.write_text('{"id": "1", "contents": "Bees\\n' + "bees " * (1 << 20) + '"}\n')
    assert len(list(read_passages(path))) == 1  # JSON may be one line
