"""Whatever is in a document, it becomes passages or is refused in a sentence."""

import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jpr.encode.encoder_folder import BUNDLED_ENCODER
from jpr.encode.tokenizer import read_tokenizer
from jpr.formats.corpus.documents import READERS, read_document
from jpr.formats.corpus.split import usual_cut
from tests.formats.corpus.document_samples import pdf, write_docx

from .hostile import damaged, explained, fuzzing
from .packed import repacked

HTML = """<!doctype html><html><head><meta charset="utf-8"><title>Bees &amp; more</title></head>
<body><h1>Bees</h1><p>They make <b>honey</b><!-- so --><br>all year.<script>1 < 2</script>
<table><tr><td>a<td>b</table></body></html>"""
MARKDOWN = "---\ntitle: Bees\n---\n# Bees\nThey *make* [honey](x).\n```\ncode\n```\n## Wax\nToo.\n"
CSV = 'name,text,year\nBees,"They make ""honey"", all year.",1999\nWasps,They do not.,\n'
JSONL = '{"title": "Bees", "text": "They make honey.", "year": 1.5}\n"Wasps do not."\n'


def docx() -> bytes:
    made = io.BytesIO()
    write_docx(made)
    return made.getvalue()


SAMPLES: dict[str, bytes] = {
    ".txt": "Bees make honey, é.\n".encode(),
    ".md": MARKDOWN.encode(),
    ".html": HTML.encode(),
    ".pdf": pdf("Bees make honey", "Wasps do not"),
    ".docx": docx(),
    ".csv": CSV.encode(),
    ".jsonl": JSONL.encode(),
}
CUT = usual_cut(read_tokenizer(BUNDLED_ENCODER))


def test_every_kind_is_tried() -> None:
    assert set(READERS) - {".htm"} == set(SAMPLES)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("documents")


@pytest.mark.parametrize("ending", SAMPLES)
@given(data=st.data())
@fuzzing
def test_documents(folder: Path, ending: str, data: st.DataObject) -> None:
    path = folder / f"sample{ending}"
    given = SAMPLES[ending]
    some = damaged(given) | st.binary(max_size=200)
    path.write_bytes(data.draw(some | repacked(given) if ending == ".docx" else some))
    explained(lambda file: list(read_document(file, file.name, CUT)), path)
