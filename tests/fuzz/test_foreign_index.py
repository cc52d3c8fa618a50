"""An index that somebody else made: one file is hostile, and its checksums say that it is right."""

import json
import random
import struct
from collections import Counter
from pathlib import Path

import pytest

from jpr.errors import FormatError, JprError
from jpr.io.checksums import sealed, sha256
from jpr.retrieve.index import Index, build_index, remove_from_index
from jpr.retrieve.index_manifest import file_sizes
from tests.damage import damaged
from tests.retrieve.toy import WordEncoder, passages

from .hostile import EXAMPLES

TRIES = 30 * EXAMPLES
NUMBERS = [0, 1, 41, 2**31, 2**32, 2**40, 2**63, 2**64 - 1]
ENCODER = WordEncoder()


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("foreign") / "index"
    build_index(passages(40), folder, source="test", encoder=ENCODER)
    remove_from_index(["id 0 3"], folder)
    return folder


def used(folder: Path) -> object:
    """All that a search does, with and without a filter."""
    index = Index(folder)
    questions = ENCODER.encode_questions(["river castle"])
    found = [
        hits
        for where in (None, {"half": [1]})
        for hits in (
            index.search_bm25("river castle", 5, where),
            *index.search_dense(questions, 5, where),
        )
    ]
    rows = [row for hits in found for row, _ in hits]
    return found, [index.store[row] for row in rows], len(list(index.store))


def hostile(chance: random.Random, content: bytes) -> bytes:
    """Change, remove, insert or zero some bytes, or put a number of eight bytes there."""
    made = bytearray(content)
    for _ in range(chance.randint(1, 3)):
        at, some = chance.randrange(len(made) + 1), chance.randbytes(chance.randint(1, 40))
        old, new = chance.choice(
            [(1, some[:1]), (len(some), b""), (0, some), (64, bytes(64)), (len(made), b""),
             (8, struct.pack("<Q", chance.choice(NUMBERS)))]
        )  # fmt: skip
        made[at : at + old] = new
    return bytes(made)


def vouch(version: Path, *, sums: bool) -> None:
    """Make a manifest that fits the files, if it is one, with their checksums or none."""
    file = version / "manifest.json"
    try:
        record = json.loads(file.read_bytes())
    except ValueError:
        return
    if isinstance(record, dict):
        record.pop("sha256", None)
        if "sizes" in record:
            record["sizes"] = file_sizes(version)
        if "sums" in record:
            record["sums"] = (
                {name: sha256(version / name) for name in record["sizes"]} if sums else {}
            )
        file.write_text(json.dumps(sealed(record)))


def test_a_hostile_file_is_an_error_or_no_matter(index: Path) -> None:
    chance, results = random.Random(EXAMPLES), Counter[str]()
    version = index / "v2"
    files = [index / "CURRENT", *(path for path in version.rglob("*") if path.is_file())]
    files = sorted(path for path in files if path.suffix != ".lock")
    whole = {path: path.read_bytes() for path in (*files, version / "manifest.json")}
    right = used(index)
    for number in range(TRIES):
        file = files[number % len(files)]
        content = hostile(chance, whole[file])
        if file.suffix == ".json" and chance.random() < 0.7:
            records = list(damaged(json.loads(whole[file])))
            content = json.dumps(chance.choice(records)).encode()
        file.unlink()  # an index that is still open maps it
        file.write_bytes(content)
        vouch(version, sums=number % 3 > 0)
        try:
            results["same" if used(index) == right else "other"] += 1
        except JprError as error:
            results["error"] += 1
            assert "\n" not in str(error), file  # noqa: PT017  most are errors
        for path in {file, version / "manifest.json"}:
            path.unlink(missing_ok=True)
            path.write_bytes(whole[path])
    assert results["error"] > TRIES / 2
    assert used(index) == right


@pytest.mark.parametrize("name", ["/dev/zero", "../lock", "store/../../lock", "store/\0", "x"])
def test_a_manifest_names_no_file_elsewhere(index: Path, name: str) -> None:
    file = index / "v2" / "manifest.json"
    whole = file.read_bytes()
    record = json.loads(whole)
    del record["sha256"]
    for key in ("sizes", "sums"):
        more = {**record, key: {**record[key], name: 0 if key == "sizes" else "0"}}
        file.write_text(json.dumps(sealed(more)))
        with pytest.raises(FormatError, match="v2"):
            Index(index)
    file.write_bytes(whole)


def test_a_link_to_a_device_is_no_file_of_an_index(index: Path) -> None:
    file = index / "v2" / "store" / "passages.dict"
    whole = file.read_bytes()
    file.unlink()
    file.symlink_to("/dev/zero")
    with pytest.raises(FormatError, match="a file is missing"):
        Index(index)
    file.unlink()
    file.write_bytes(whole)
