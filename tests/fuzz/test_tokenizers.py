"""A `tokenizer.json` from anywhere: it works, or is refused in one sentence; nothing panics."""

import base64
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jpr.encode.encoder_folder import export_encoder, load_encoder
from jpr.encode.tokenizer import read_tokenizer
from jpr.errors import FormatError
from jpr.types import Passage
from tests.cli.running import fails
from tests.damage import without_sums
from tests.encode.tiny import ID, tiny_tokenizer, write_encoder

from .hostile import altered, damaged, explained, fuzzing

Record = dict[str, Any]
WHOLE: Record = json.loads(tiny_tokenizer().to_str())
MODEL: Record = WHOLE["model"]
CLS: Record = WHOLE["added_tokens"][2]
TEXTS = ["where is the old river castle", "a" * 90, "x" * 25_000, "é zz1 [CLS] \u0301 日本 ꙮ"]


def normalizer(*steps: Record) -> Record:
    return {**WHOLE, "normalizer": {"type": "Sequence", "normalizers": list(steps)}}


def replaced(pattern: Record, content: str) -> Record:
    return {"type": "Replace", "pattern": pattern, "content": content}


def table(content: bytes) -> Record:
    charsmap = base64.b64encode(content).decode()
    return normalizer({"type": "Precompiled", "precompiled_charsmap": charsmap})


def split(expression: str) -> Record:
    pattern = {"Regex": expression}
    step = {"type": "Split", "pattern": pattern, "behavior": "Isolated", "invert": False}
    return {**WHOLE, "pre_tokenizer": step}


def vocabulary(**more: object) -> Record:
    return {**WHOLE, "model": {**MODEL, "vocab": {**ID, **more}}}


def model(kind: str, **settings: object) -> Record:
    return {**WHOLE, "model": {"type": kind, "vocab": ID, "unk_token": "[UNK]", **settings}}


def added(*tokens: Record) -> Record:
    return {**WHOLE, "added_tokens": [*WHOLE["added_tokens"], *tokens]}


def nested(depth: int) -> str:
    inner = '{"type": "Sequence", "normalizers": [' * depth + "]}" * depth
    return json.dumps({**WHOLE, "normalizer": "@"}).replace('"@"', inner)


NO_UNKNOWN = {word: id for word, id in ID.items() if word != "[UNK]"}
UNIGRAM = [["[UNK]", 0.0], ["[CLS]", 0.0], ["[SEP]", 0.0]]
BPE: Record = {"unk_token": None, "merges": []}
REFUSED: dict[str, Record | str] = {
    "empty": "",
    "null": "null",
    "a list": "[]",
    "lists in lists": "[" * 100_000,
    "objects in objects": '{"a":' * 100_000,
    "steps in steps": nested(60),
    "many steps in steps": nested(5_000),
    "UTF-16": json.dumps(WHOLE).encode("utf-16").decode("latin-1"),
    "no model": {name: part for name, part in WHOLE.items() if name != "model"},
    "a model of the wrong type": {**WHOLE, "model": ["WordPiece"]},
    "an unknown model": model("Nonsense"),
    "no words": {**WHOLE, "model": {**MODEL, "vocab": {}}},
    "a list of words": {**WHOLE, "model": {**MODEL, "vocab": list(ID)}},
    "no unknown word": {**WHOLE, "model": {**MODEL, "vocab": NO_UNKNOWN}, "added_tokens": []},
    "an unknown word of the wrong type": {**WHOLE, "model": {**MODEL, "unk_token": [7]}},
    "another unknown word": {**WHOLE, "model": {**MODEL, "unk_token": "nowhere"}},
    "words of any length": {**WHOLE, "model": {**MODEL, "max_input_chars_per_word": 10**6}},
    "a negative id": vocabulary(old=-1),
    "half an id": vocabulary(old=1.5),
    "an id of 64 bits": vocabulary(old=2**40),
    "an id of 32 bits": vocabulary(the=2**32 - 1, old=2**32 - 1, where=2**32 - 1),
    "ids beyond the model's": vocabulary(where=5_000),
    "half a character": vocabulary(**{"\ud800": 7}),
    "a number as prefix": model("WordPiece", continuing_subword_prefix=7),
    "BPE without its unknown word": model("BPE", merges=[], unk_token="gone"),
    "BPE with a long prefix": model(
        "BPE", **BPE, continuing_subword_prefix="####"
    ),
    "BPE of other words": model("BPE", unk_token=None, merges=["zz yy"]),
    "WordLevel without its unknown word": model("WordLevel", unk_token="gone"),
    "Unigram of nothing": model("Unigram", vocab=[], unk_id=0),
    "Unigram without an unknown word": model("Unigram", vocab=UNIGRAM, unk_id=None),
    "Unigram with an unknown word beyond": model("Unigram", vocab=UNIGRAM, unk_id=10**6),
    "added tokens of the wrong type": {**WHOLE, "added_tokens": {"a": 1}},
    "no added token": added({}),
    "an added token with a negative id": added({**CLS, "id": -5, "content": "zz"}),
    "200,000 added tokens": added(*({**CLS, "content": f"zz{i}"} for i in range(200_000))),
    "an added token of a megabyte": added({**CLS, "content": "a" * 2**20}),
    "an unknown normalizer": normalizer({"type": "Nonsense"}),
    "a normalizer without a type": {**WHOLE, "normalizer": {"normalizers": []}},
    "a normalizer of the wrong type": {**WHOLE, "normalizer": 7},
    "an expression that is none": normalizer(replaced({"Regex": "(("}, "x")),
    "an expression that explodes": normalizer(replaced({"Regex": "(a|a|aa)+$"}, "x")),
    "a million million letters for one": normalizer(
        *[replaced({"String": "a"}, "a" * 10) for _ in range(12)]
    ),
    "a long text before each": normalizer({"type": "Prepend", "prepend": "x" * 2**20}),
    "an empty table": table(b""),
    "a table shorter than its index": table(b"\xff\xff\xff\xff\0\0\0\0"),
    "a table without an index": table(b"\0\0\0\0abc\0"),
    "a table of bytes": table(b"\4\0\0\0abcd\xff\xff\xff"),
    "a table of long texts": table(b"\4\0\0\0abcd" + b"x" * 2**20),
    "pieces of length zero": {**WHOLE, "pre_tokenizer": {"type": "FixedLength", "length": 0}},
    "pieces that explode": split("(x+x+)+y"),
    "pieces that explode in another way": split("((a*)*)*b"),
    "pieces by an expression that is none": split("[z-a]"),
    "an unknown decoder": {**WHOLE, "decoder": {"type": "Nonsense"}},
}  # fmt: skip
ACCEPTED: dict[str, Record | str] = {
    "whole": WHOLE,
    "an added token with the wrong id": added({**CLS, "content": "castle", "id": 2**31}),
    "an empty added token": added({**CLS, "content": ""}),
    "T5's normalizer": normalizer(replaced({"Regex": " {2,}"}, "▁")),
    "GPT's pieces": split(r"'s|[^\r\n\p{L}]?\p{L}+|\p{N}{1,3}| ?[^\s()*+]+[\r\n]*|\s+(?!\S)|\s+"),
    "nothing but a model": {"version": "1.0", "model": MODEL, "added_tokens": []},
    "padding and truncation": {
        **WHOLE,
        "padding": {
            "strategy": {"Fixed": 2**40}, "direction": "Right", "pad_to_multiple_of": 0,
            "pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]",
        },
        "truncation": {
            "direction": "Right", "max_length": 0, "strategy": "LongestFirst", "stride": 0
        },
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokenizers")
    export_encoder(write_encoder(folder / "torch"), folder / "onnx")
    without_sums(folder / "onnx" / "encoder.json")  # or every tokenizer would be damaged
    return folder


def encode(folder: Path) -> None:
    opened = load_encoder(folder, "cpu", threads=1)
    opened.encode_questions(TEXTS)
    opened.encode_passages([Passage("1", "old castle", text) for text in TEXTS])


def put(record: Record | str, folder: Path) -> None:
    text = record if isinstance(record, str) else json.dumps(record)
    (folder / "tokenizer.json").write_bytes(text.encode("latin-1" if "ÿþ" in text else "utf-8"))


@pytest.mark.parametrize("kind", ["onnx", "torch"])
@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_work_is_refused_before_it_panics(
    encoder: Path, name: str, kind: str, capfd: pytest.CaptureFixture[str]
) -> None:
    put(REFUSED[name], encoder / kind)
    with pytest.raises(FormatError) as error:
        encode(encoder / kind)
    assert "\n" not in str(error.value)
    assert error.value.path.parent == encoder / kind
    assert "panicked" not in capfd.readouterr().err


@pytest.mark.parametrize("kind", ["onnx", "torch"])
@pytest.mark.parametrize("name", ACCEPTED)
def test_what_is_odd_but_works_is_accepted(encoder: Path, name: str, kind: str) -> None:
    put(ACCEPTED[name], encoder / kind)
    encode(encoder / kind)


def test_a_command_ends_with_one_sentence_and_code_2(
    encoder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    put(split("(x+x+)+y"), encoder / "onnx")
    corpus = tmp_path / "corpus.tsv"
    corpus.write_text(f"1\t{'x' * 40}\tTitle\n")
    command = ["index", str(corpus), "--out", str(tmp_path / "index")]
    said = fails(capsys, monkeypatch, *command, "--encoder", str(encoder / "onnx"))
    assert "tokenizer.json" in said


def test_a_vocabulary_without_an_unknown_word_is_refused(encoder: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(encoder / "onnx", tmp_path / "encoder")
    (folder / "tokenizer.json").unlink()
    (folder / "vocab.txt").write_text("\n".join(NO_UNKNOWN))
    with pytest.raises(FormatError, match=r"vocab\.txt.*\[UNK\]"):
        encode(folder)


@given(data=st.data())
@fuzzing
def test_changed_tokenizers(encoder: Path, data: st.DataObject) -> None:
    text = json.dumps(WHOLE)
    made = damaged(text.encode()) | altered(WHOLE).map(lambda one: json.dumps(one).encode())
    file = encoder / "changed.json"
    file.write_bytes(data.draw(made))

    def use(path: Path) -> None:
        read_tokenizer(path).encode_batch_fast(TEXTS, add_special_tokens=False)

    explained(use, file)
