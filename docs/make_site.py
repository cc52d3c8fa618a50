"""Build the documentation site into site/: `python docs/make_site.py` (extra `docs`).

The site has the pages of docs/ and those at the root of the repository; README.md is its home page.
They are copied to build/docs, with their links changed to match, and Zensical builds from there.
A warning of Zensical (a missing page, a broken link) fails the build.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
STAGE = ROOT / "build" / "docs"
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
INFO = re.compile(r"\A(```\w*)[^\n]*")
LINK = re.compile(r"(?<=\]\()([^()\s#]+)")


def place(path: Path) -> Path:
    """Return where a file of the repository is on the site."""
    inside = path.relative_to(ROOT)
    if inside == Path("README.md"):
        return Path("index.md")
    if inside.parts[0] == "docs":
        return Path(*inside.parts[1:])
    return inside if inside.suffix == ".md" and len(inside.parts) == 1 else Path("files", inside)


def copy_linked(page: Path, link: str) -> str:
    """Return a link as the site has it; a linked file that is not a page is copied."""
    target = (page.parent / link).resolve()
    if "://" in link or not target.is_file():
        return link
    copied = place(target)
    if copied.parts[0] == "files":
        (STAGE / copied).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(target, STAGE / copied)
    return Path(os.path.relpath(copied, place(page).parent)).as_posix()


def site_page(page: Path) -> str:
    """Return a page with the site's links; of a code block's first line only the language stays."""
    text = page.read_text(encoding="utf-8")
    prose = FENCE.split(text)
    code = [INFO.sub(r"\1", block) for block in FENCE.findall(text)]
    linked = [LINK.sub(lambda found: copy_linked(page, found[1]), part) for part in prose]
    return "".join(part + block for part, block in zip(linked, [*code, ""], strict=True))


def main() -> None:
    """Copy the pages and build the site."""
    shutil.rmtree(STAGE, ignore_errors=True)
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]:
        target = STAGE / place(page)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(site_page(page), encoding="utf-8")
    shutil.copytree(ROOT / "docs" / "img", STAGE / "img")
    build = [sys.executable, "-m", "zensical", "build", "--clean", "--strict"]
    subprocess.run(build, cwd=ROOT, check=True)


if __name__ == "__main__":
    main()
