import io
from pathlib import Path

import pytest

from jpr.errors import DataError, FormatError
from jpr.formats.corpus import read_passages, write_passages
from jpr.types import Passage

HEADER = "id\ttext\ttitle\n"


def stored(folder: Path, text: str) -> Path:
    path = folder / "p.tsv"
    path.write_text(text, encoding="utf-8", newline="")
    return path


@pytest.mark.parametrize(
    ("row", "passage"),
    [
        ('1\t"He said ""no"" twice"\tRefusal', Passage("1", "Refusal", 'He said "no" twice')),
        ('1\t"""No"", he said"\t"The ""No"""', Passage("1", 'The "No"', '"No", he said')),
        ('1\tA 6" pipe\tPipes', Passage("1", "Pipes", 'A 6" pipe')),
        ('1\t"with\ta tab"\tTabs', Passage("1", "Tabs", "with\ta tab")),
        ('1\t"two\nlines"\tLines', Passage("1", "Lines", "two\nlines")),
        ('1\t""\t', Passage("1", "", "")),
    ],
)
def test_dpr_quotes_as_csv_does(tmp_path: Path, row: str, passage: Passage) -> None:
    text = f"{HEADER}{row}\n2\tnext\tNext\n"
    assert list(read_passages(stored(tmp_path, text))) == [passage, Passage("2", "Next", "next")]


def test_the_header_names_the_columns(tmp_path: Path) -> None:
    text = "title\tid\turl\ttext\nBees\t1\thttps://x.org\tBees make honey.\n"
    bees = Passage("1", "Bees", "Bees make honey.", {"url": "https://x.org"})
    assert list(read_passages(stored(tmp_path, text))) == [bees]


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ('1\tx\tX\n2\t"open\tY\n3\tz\tZ\n', "p.tsv:3: a quote opens a field and nothing closes it"),
        ('1\t"open\tX\n2\t"text"\tY\n', "p.tsv:2: text follows a closing quote; double the quotes"),
        ('1\t"no" he said\tX\n', "p.tsv:2: text follows a closing quote; .* --from tsv"),
        ("1\tx\tX\n2\ty\n", "p.tsv:3: 2 columns instead of the header's 3"),
        ("1\tx\tX\textra\n", "p.tsv:2: 4 columns instead of the header's 3"),
        (" \tx\tX\n", "p.tsv:2: the id is empty"),
        ("", "p.tsv: holds no record of format dpr"),
    ],
)
def test_a_broken_dpr_file_is_named_with_its_line(tmp_path: Path, rows: str, says: str) -> None:
    with pytest.raises(FormatError, match=says):
        list(read_passages(stored(tmp_path, HEADER + rows)))


def test_an_open_quote_does_not_swallow_a_large_file(tmp_path: Path) -> None:
    rows = '1\t"open\tX\n' + "".join(f"{n}\tx\tX\n" for n in range(2, 5000))
    with pytest.raises(FormatError, match=r"p.tsv:2: a quote opens a field"):
        list(read_passages(stored(tmp_path, HEADER + rows)))


def test_dpr_needs_its_header(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"p.tsv:1: .*id, text and title"):
        list(read_passages(stored(tmp_path, "1\tx\tX\n"), "dpr"))


def test_an_empty_dpr_file_is_refused_as_that_of_any_format(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="holds no record of format dpr"):
        list(read_passages(stored(tmp_path, "\n\n"), "dpr"))


def test_dpr_is_written_with_header_and_quotes_only_where_needed() -> None:
    stream = io.StringIO()
    write_passages([Passage("1", "X", 'a "b"'), Passage("2", "Y", "c\td\n")], stream, "dpr")
    assert stream.getvalue() == f'{HEADER}1\t"a ""b"""\tX\n2\tc d \tY\n'


@pytest.mark.parametrize("name", ["dpr", "tsv"])
@pytest.mark.parametrize(
    "passage",
    [Passage("7\ud83d", "", ""), Passage("7", "\ud83d", ""), Passage("7", "é", "a \ud83d b")],
)
def test_half_a_character_is_refused(name: str, passage: Passage) -> None:
    with pytest.raises(DataError, match=r"passage '7.*' holds half a character \('\\ud83d'\)"):
        write_passages([passage], io.StringIO(), name)


def test_without_a_header_quotes_are_plain_and_a_fourth_column_is_the_source(
    tmp_path: Path,
) -> None:
    text = '1\t"No" he said\tX\twiki\n\n2\t"open\t"Y"\n3\ty z\t\twiki\n4\ty\tZ\t\n'
    assert list(read_passages(stored(tmp_path, text))) == [
        Passage("1", "X", '"No" he said', {"source": "wiki"}),
        Passage("2", '"Y"', '"open'),
        Passage("3", "", "y z", {"source": "wiki"}),
        Passage("4", "Z", "y"),
    ]


def test_the_source_is_written_as_fourth_column() -> None:
    stream = io.StringIO()
    passages = [Passage("1", "X", '"x"', {"source": "wiki", "url": "u"}), Passage("2", "Y", "y")]
    write_passages(passages, stream)
    assert stream.getvalue() == '1\t"x"\tX\twiki\n2\ty\tY\n'


def test_plain_quotes_under_a_header_are_read_as_tsv(tmp_path: Path) -> None:
    path = stored(tmp_path, HEADER + '1\t"no" he said\tX\n')
    assert list(read_passages(path, "tsv")) == [Passage("1", "X", '"no" he said')]


@pytest.mark.parametrize("row", ["2\ty", "2", "2\ty\tY\ts\tmore"])
def test_other_numbers_of_columns_are_refused(tmp_path: Path, row: str) -> None:
    with pytest.raises(FormatError, match=rf"p.tsv:2: {len(row.split(chr(9)))} columns instead of"):
        list(read_passages(stored(tmp_path, f"1\tx y\tX\n{row}\n")))


def test_msmarco_has_an_id_and_a_passage(tmp_path: Path) -> None:
    path = stored(tmp_path, '0\tThe "Manhattan" project.\n1\tBees\n')
    assert [p.text for p in read_passages(path)] == ['The "Manhattan" project.', "Bees"]
    with pytest.raises(FormatError, match=r"p.tsv:2: 3 columns instead of an id and a passage"):
        list(read_passages(stored(tmp_path, "0\tThe project.\n1\tx\ty\n")))
