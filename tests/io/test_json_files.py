import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jpr.errors import FormatError
from jpr.io.json_files import iter_json


def values_of(path: Path, text: str) -> list[tuple[int, object]]:
    path.write_text(text, encoding="utf-8")
    return list(iter_json(path))


def test_json_lines_arrays_and_documents_are_distinguished(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    assert values_of(path, '{"a": 1}\n\n{"a": 2}\n') == [(1, {"a": 1}), (3, {"a": 2})]
    assert values_of(path, '[{"a": 1},\n {"a": [2,\n 3]}, 4]') == [
        (1, {"a": 1}),
        (2, {"a": [2, 3]}),
        (3, 4),
    ]
    assert values_of(path, '{\n "a":\n 1\n}\n') == [(1, {"a": 1})]
    assert values_of(path, "[]") == []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)


@given(st.lists(JSON, max_size=6), st.sampled_from([None, 0, 2]))
def test_an_array_is_streamed_item_by_item_however_it_is_laid_out(
    tmp_path_factory: pytest.TempPathFactory, items: list[object], indent: int | None
) -> None:
    path = tmp_path_factory.mktemp("array") / "file.json"
    text = json.dumps(items, indent=indent, ensure_ascii=False)
    assert [value for _, value in values_of(path, text)] == items


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('{"a": 1}\n' * 6 + '{"a": 1,}\n', 7),
        ('{"a": 1}\n' * 6 + '{"a": \n', 7),
        ("[" + '{"a": 1},\n' * 6 + '{"a" 1}]', 7),
        ("[" + '{"a": 1},\n' * 6, 6),  # never closed
        ('{\n"a": 1,\n"b" 2}', 3),
        ('[{"a": 1} {"a": 2}]', 1),
        ('[{"a": 1},\n\n{"a": 2}\n{"a": 3}]', 4),
        ('[{"a": 1},\n,{"a": 2}]', 2),
        ('[,{"a": 1}]', 1),
        ('[{"a": 1},\n]', 2),
        ("not json\n", 1),
        ('{"id7": 1, "id7": 2}', 1),  # a repeated key would vanish
    ],
)
def test_bad_json_is_named_with_its_line(tmp_path: Path, text: str, line: int) -> None:
    with pytest.raises(FormatError, match=rf"bad\.json:{line}: not valid JSON"):
        values_of(tmp_path / "bad.json", text)
