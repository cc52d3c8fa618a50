import io
import json
from pathlib import Path

import pytest

from jpr.errors import DataError, FormatError
from jpr.formats.corpus import read_passages, write_passages
from jpr.types import Passage

GOOD: dict[str, dict[str, object]] = {
    "beir": {"_id": "1", "title": "Bees", "text": "Bees make honey."},
    "atlas": {"id": "1", "title": "Bees", "text": "Bees make honey."},
    "pyserini": {"id": "1", "contents": "Bees\nBees make honey."},
}
HONEY = "Bees make honey."


def stored(folder: Path, *records: object) -> Path:
    path = folder / "p.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def only(folder: Path, record: object, name: str | None = None) -> Passage:
    (passage,) = read_passages(stored(folder, record), name)
    return passage


def test_what_else_a_record_says_becomes_meta(tmp_path: Path) -> None:
    beir = {**GOOD["beir"], "metadata": {"url": "u", "year": 1999}, "lang": "en"}
    assert only(tmp_path, beir).meta == {"lang": "en", "url": "u", "year": 1999}
    atlas = {**GOOD["atlas"], "section": "Food", "url": "u"}
    assert only(tmp_path, atlas).meta == {"section": "Food", "url": "u"}
    assert only(tmp_path, {**GOOD["pyserini"], "n": [1]}).meta == {"n": [1]}


@pytest.mark.parametrize("name", ["beir", "pyserini", "atlas"])
def test_a_column_without_a_name_is_meta_as_any_other(tmp_path: Path, name: str) -> None:
    record = {"_id": "1", "id": "1", "text": "Bees", "contents": "Bees", "": 0}
    (tmp_path / "p.jsonl").write_text(json.dumps(record), encoding="utf-8")
    (passage,) = read_passages(tmp_path / "p.jsonl", name)
    assert passage.meta[""] == 0


@pytest.mark.parametrize(
    ("contents", "title", "text"),
    [
        ("Bees\nBees make honey.\nYes.", "Bees", "Bees make honey.\nYes."),
        ('"Bees"\nBees make honey.', "Bees", HONEY),  # FlashRAG's quotes
        ('""Heroes""\nA song.', '"Heroes"', "A song."),
        ("\nBees make honey.", "", HONEY),
        ("Bees make honey.", "", HONEY),
        ("b" * 255 + "\ntext", "b" * 255, "text"),
        ("b" * 256 + "\ntext", "", "b" * 256 + "\ntext"),
        ('"\ntext', '"', "text"),
        ("", "", ""),
    ],
)
def test_the_first_line_of_contents_is_the_title(
    tmp_path: Path, contents: str, title: str, text: str
) -> None:
    assert only(tmp_path, {"id": 7, "contents": contents}) == Passage("7", title, text)


@pytest.mark.parametrize("contents", ["Bees make honey.", "Bees\nBees make honey."])
def test_a_title_beside_contents_is_the_title(tmp_path: Path, contents: str) -> None:
    record = {"id": "1", "title": "Bees", "contents": contents}
    assert only(tmp_path, record) == Passage("1", "Bees", HONEY)


@pytest.mark.parametrize("name", ["beir", "atlas"])
def test_a_title_may_be_null_or_missing(tmp_path: Path, name: str) -> None:
    untitled = {key: value for key, value in GOOD[name].items() if key != "title"}
    assert only(tmp_path, {**untitled, "title": None}) == Passage("1", "", HONEY)
    assert only(tmp_path, untitled, name) == Passage("1", "", HONEY)


def test_a_json_array_is_read_as_well(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    path.write_text(json.dumps([GOOD["atlas"], {**GOOD["atlas"], "id": 2}], indent=1))
    assert [passage.id for passage in read_passages(path)] == ["1", "2"]


def test_a_beir_folder_is_read_by_its_corpus_file(tmp_path: Path) -> None:
    stored(tmp_path, GOOD["beir"]).rename(tmp_path / "corpus.jsonl")
    (tmp_path / "README.md").write_text("# About")
    assert [passage.id for passage in read_passages(tmp_path)] == ["1"]
    (tmp_path / "corpus.jsonl").unlink()
    with pytest.raises(FormatError, match=r"the folder holds no corpus\.jsonl"):
        list(read_passages(tmp_path, "beir"))


@pytest.mark.parametrize("name", GOOD)
@pytest.mark.parametrize("value", [None, True, 1.5, "", " ", [], {"a": 1}])
def test_a_wrong_id_is_refused(tmp_path: Path, name: str, value: object) -> None:
    key = next(iter(GOOD[name]))
    says = (
        "is empty; give" if str(value).isspace() or value == "" else "should be a string or a who"
    )
    with pytest.raises(FormatError, match=rf"p.jsonl:2: '{key}' {says}"):
        list(read_passages(stored(tmp_path, GOOD[name], {**GOOD[name], key: value})))


@pytest.mark.parametrize(
    ("name", "key"),
    [(name, key) for name in GOOD for key in GOOD[name] if not key.endswith("id")],
)
@pytest.mark.parametrize("value", [None, True, 1, [], ["x"], {"a": 1}])
def test_a_field_of_a_wrong_kind_is_refused(
    tmp_path: Path, name: str, key: str, value: object
) -> None:
    path = stored(tmp_path, GOOD[name], {**GOOD[name], next(iter(GOOD[name])): "2", key: value})
    if key == "title" and value is None:
        assert len(list(read_passages(path))) == 2
        return
    with pytest.raises(FormatError, match=rf"p.jsonl:2: '{key}' should be a string, not "):
        list(read_passages(path))


@pytest.mark.parametrize("name", GOOD)
@pytest.mark.parametrize("record", [None, 3, "x", [], [{}], {}])
def test_a_line_that_is_no_such_object_is_refused(
    tmp_path: Path, name: str, record: object
) -> None:
    with pytest.raises(FormatError, match=r"p\.jsonl:2: (a JSON object is exp|key '_?id' is miss)"):
        list(read_passages(stored(tmp_path, GOOD[name], record)))


@pytest.mark.parametrize("metadata", ["x", 1, ["x"], False])
def test_beir_metadata_must_be_an_object(tmp_path: Path, metadata: object) -> None:
    with pytest.raises(FormatError, match=r"p.jsonl:1: 'metadata' should be an object"):
        only(tmp_path, {**GOOD["beir"], "metadata": metadata})


@pytest.mark.parametrize("name", GOOD)
def test_bad_json_is_named_with_its_line(tmp_path: Path, name: str) -> None:
    key = next(iter(GOOD[name]))
    path = stored(tmp_path, *({**GOOD[name], key: n} for n in range(6)))
    path.write_text(path.read_text() + '{"id": "7", oops}\n')
    with pytest.raises(FormatError, match=r"p.jsonl:7: not valid JSON"):
        list(read_passages(path))


@pytest.mark.parametrize("name", GOOD)
def test_half_a_character_survives(tmp_path: Path, name: str) -> None:
    passages = [
        Passage("é\ud83d", "t\ud83d", "a \ud83d b", {"m": "\udc00"}),
        Passage("2", "é", "ü"),
    ]
    stream = io.StringIO()
    write_passages(passages, stream, name)
    assert '"é' not in stream.getvalue().splitlines()[0]
    assert "ü" in stream.getvalue().splitlines()[1]
    path = tmp_path / "p.jsonl"
    path.write_text(stream.getvalue(), encoding="utf-8")
    assert list(read_passages(path, name)) == passages


@pytest.mark.parametrize("name", GOOD)
def test_meta_that_is_not_json_is_refused(name: str) -> None:
    with pytest.raises(DataError, match="meta cannot be written as JSON"):
        write_passages([Passage("1", "", "x", {"a": {1}})], io.StringIO(), name)
