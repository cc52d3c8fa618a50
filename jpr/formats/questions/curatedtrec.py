r"""CuratedTREC: a question and the expression its answers match, which becomes `regex`.

Four spellings: `question<TAB>regex`; `id<TAB>factoid<TAB>question<TAB>regex` (the original);
`question<TAB>["regex"]` (DPR); `{"question", "answer": ["regex"]}` (DrQA). The last two look
like DPR's and NQ-open's files of plain answers, so they are recognised by "CuratedTrec" in the
file's name. Several expressions are joined by `|`. `answers` stays empty until the expression is
grouped over a corpus. Questions without an id are numbered from 0.
"""

from dataclasses import replace
from pathlib import Path

from jpr.formats.format import Format, Head, Located
from jpr.formats.gold import Row, json_rows
from jpr.formats.questions.dpr import has_written_list, is_curatedtrec, two_columns, written_list
from jpr.formats.questions.nqopen import answers_row, looks_like_nqopen
from jpr.formats.questions.rows import line_rows, read_rows
from jpr.types import Question


def _sniff(head: Head) -> bool:
    if looks_like_nqopen(head) or has_written_list(head):
        return is_curatedtrec(head)
    columns = head.columns()
    if len(columns) == 4:
        return columns[1].isalpha() and columns[2].rstrip().endswith("?")
    return len(columns) == 2 and columns[0].rstrip().endswith("?")


def _read(path: Path) -> Located[Question]:
    first = next((row.value for row in line_rows(path)), "")
    if first.lstrip().startswith(("{", "[")):
        return read_rows(json_rows(path), _json_question)
    return read_rows(line_rows(path), _tsv_question)


def _json_question(row: Row) -> Question:
    regex = "|".join(answers_row(row).aliases())
    return _question(row, row.id_or_position("id"), row.text("question"), regex)


def _tsv_question(row: Row) -> Question:
    columns = row.value.split("\t")
    if len(columns) == 4:
        id, _, text, regex = columns
        return _question(row, id, text, regex)
    if len(columns) != 2:
        raise row.error(f"{len(columns)} columns instead of 2 or 4; separate them by single tabs")
    quoted = two_columns(row.value)
    listed = written_list(quoted[1]) if quoted is not None else None
    if quoted is not None and listed is not None:
        regex = "|".join(replace(row, value=listed, name="the second column").aliases())
        return _question(row, str(row.position), quoted[0], regex)
    return _question(row, str(row.position), columns[0], columns[1])


def _question(row: Row, id: str, text: str, regex: str) -> Question:
    if not regex.strip():
        raise row.error("the expression is empty; every question needs one")
    return Question(id, text, regex=regex)


FORMAT = Format(
    "curatedtrec",
    "CuratedTREC: a question and its answer's regular expression, as tsv, DPR csv or DrQA JSON",
    _sniff,
    _read,
)
