"""Makes docs/reference/ from the code: every command, public name and setting.

python docs/make_reference
"""

from collections.abc import Callable, Iterator
from pathlib import Path

from api_page import api_page
from cli_page import cli_page
from config_page import config_page

FOLDER = Path(__file__).resolve().parents[1] / "reference"
PAGES: dict[str, Callable[[], Iterator[str]]] = {
    "cli.md": cli_page,
    "api.md": api_page,
    "config.md": config_page,
}
NOTE = "<!-- Made by `python docs/make_reference`; do not edit. -->"


def page(name: str) -> str:
    """Return the text of a page as the code has it now."""
    return "\n\n".join([NOTE, *PAGES[name]()]) + "\n"


def main() -> None:
    """Write all pages."""
    FOLDER.mkdir(exist_ok=True)
    for name in PAGES:
        (FOLDER / name).write_text(page(name), encoding="utf-8")


if __name__ == "__main__":
    main()
