"""The command line of a script: its docstring is its help."""

import argparse
from pathlib import Path


def parser_of(description: str | None, *paths: str) -> argparse.ArgumentParser:
    """Return a parser with these positional paths."""
    raw = argparse.RawTextHelpFormatter
    parser = argparse.ArgumentParser(description=description, formatter_class=raw)
    for name in paths:
        parser.add_argument(name, type=Path)
    return parser


def results_parser(description: str | None, *paths: str) -> argparse.ArgumentParser:
    """Return a parser with `--results`, the folder of published numbers, too."""
    parser = parser_of(description, *paths)
    parser.add_argument("--results", type=Path, default=Path("results"))
    return parser
