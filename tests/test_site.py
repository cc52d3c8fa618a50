"""The navigation of the documentation site; `python docs/make_site.py` builds it strictly."""

import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from runpy import run_path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SITE = run_path(str(ROOT / "docs" / "make_site.py"))
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]


def leaves(nav: list[dict[str, Any]]) -> Iterator[str]:
    for entry in nav:
        for target in entry.values():
            yield from [target] if isinstance(target, str) else leaves(target)


def test_every_page_is_in_the_navigation_once() -> None:
    nav = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]["nav"]
    assert Counter(leaves(nav)) == Counter(SITE["place"](page).as_posix() for page in PAGES)


def test_links_of_the_home_page_lead_to_pages_of_the_site() -> None:
    home = SITE["site_page"](ROOT / "README.md")
    assert "](tutorial.md)" in home
    assert "](docs/" not in home


def test_code_blocks_keep_only_their_language() -> None:
    assert "```python client" in (ROOT / "docs" / "serve.md").read_text(encoding="utf-8")
    assert "```python client" not in SITE["site_page"](ROOT / "docs" / "serve.md")
