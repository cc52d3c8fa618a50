"""Tables that benchmarks print line by line, as they measure."""

from collections.abc import Mapping

Columns = Mapping[str, tuple[int, str]]
"""How wide the columns of a table are, and how numbers are written; words have no way to be."""


def line(columns: Columns, row: Mapping[str, object]) -> str:
    """Return a line of the table; without a row, its head."""
    cells = []
    for name, (width, kind) in columns.items():
        value = row.get(name, "") if row else name
        cell = f"{value:{kind}}" if isinstance(value, float) else str(value)
        cells.append(cell.rjust(width) if kind else cell.ljust(width))
    return "  ".join(cells)
