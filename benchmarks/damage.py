"""Damage indexes and tokenizers, use them, and count what happens.

python benchmarks/damage.py [--times 1.0] [--seed 0] [--targets pages,bits]

Each use is a process of its own with 8 GiB of memory and 20 s of CPU time. Its end is one of:

- same: the results are those of the whole index;
- error: one message, exit code 2;
- other: other results, or any at all of a tokenizer that does not work, and no error;
- traceback: an exception that is no message of ours;
- killed: a panic or lack of memory that ends the process, or no end in time.

pages and bits damage a dense file too large to be hashed at every opening; files, one file of a
small index; foreign does that too, and makes the manifest fit, as whoever made the index could.
"""

import argparse
import os
import random
import resource
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from lines import line

from jpr.encode.encoder_folder import export_encoder
from jpr.errors import JprError
from jpr.retrieve.index import Index, build_index, remove_from_index
from tests.damage import without_sums
from tests.encode.tiny import write_encoder
from tests.fuzz.test_foreign_index import ENCODER, hostile, used, vouch
from tests.fuzz.test_tokenizers import REFUSED, encode, put
from tests.retrieve.toy import WideEncoder, passages

ENDS = ("same", "error", "other", "traceback", "killed")
COLUMNS = {"target": (10, ""), "tries": (5, "d"), **dict.fromkeys(ENDS, (9, "d"))}
WIDE = WideEncoder()
Use = Callable[[], object]
Try = tuple[Use, object]
"""What to do, and the result that it must have if it ends without an error."""


def end_of(use: Use, expected: object) -> str:
    """Use a thing in a process of its own and say how that ended."""
    child = os.fork()
    if not child:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        for limit, most in ((resource.RLIMIT_AS, 8 << 30), (resource.RLIMIT_CPU, 20)):
            resource.setrlimit(limit, (most, most))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        end = "traceback"
        try:
            end = "same" if use() == expected else "other"
        except JprError:
            end = "error"
        finally:
            os._exit(ENDS.index(end))  # whatever was raised
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return ENDS[code] if code >= 0 else "killed"


def searched(folder: Path) -> object:
    """Search the dense part of a large index."""
    return Index(folder).search_dense(WIDE.encode_questions(["old castle", "river"]), 100)


def damaged_blocks(home: Path, chance: random.Random, count: int, size: int) -> Iterator[Try]:
    """Yield uses of a large dense file with `size` bytes zeroed, or one bit turned if it is 0."""
    folder = home / "large"
    if not folder.exists():
        build_index(passages(4200), folder, source="test", encoder=WIDE)
    (file,) = folder.glob("v*/vectors/vectors.faiss")
    whole, expected = file.read_bytes(), searched(folder)
    for _ in range(count):
        at = chance.randrange(len(whole) - size)
        new = bytes(size) or bytes([whole[at] ^ 1 << chance.randrange(8)])
        file.unlink()  # an index that is still open maps it
        file.write_bytes(whole[:at] + new + whole[at + len(new) :])
        yield lambda: searched(folder), expected
    file.unlink()
    file.write_bytes(whole)


def damaged_files(home: Path, chance: random.Random, count: int, *, fits: bool) -> Iterator[Try]:
    """Yield uses of a small index with one hostile file, in whose manifest it `fits` or not."""
    whole, folder = home / "small", home / "damaged"
    if not whole.exists():
        build_index(passages(40), whole, source="test", encoder=ENCODER)
        remove_from_index(["id 0 3"], whole)
    expected = used(whole)
    files = [path for path in sorted(whole.rglob("*")) if path.is_file()]
    files = [path.relative_to(whole) for path in files if not path.name.endswith("lock")]
    for number in range(count):
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(whole, folder)
        file = folder / files[number % len(files)]
        file.write_bytes(hostile(chance, file.read_bytes()))
        if fits:
            vouch(folder / "v2", sums=number % 3 > 0)
        yield lambda: used(folder), expected


def tokenizers(home: Path) -> Iterator[Try]:
    """Yield uses of an encoder with each tokenizer that does not work."""
    folder = home / "encoder"
    export_encoder(write_encoder(home / "torch"), folder)
    without_sums(folder / "encoder.json")
    for record in REFUSED.values():
        put(record, folder)
        yield lambda: encode(folder), "an error"


def main() -> None:
    """Print a line for each target."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--times", type=float, default=1.0, help="multiplies the tries")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--targets", default="pages,bits,files,foreign,tokenizers")
    options = parser.parse_args()
    print(line(COLUMNS, {}))
    with tempfile.TemporaryDirectory() as folder:
        os.environ["JPR_CACHE"] = f"{folder}/cache"
        home, chance = Path(folder), random.Random(options.seed)
        small, large = round(900 * options.times), round(40 * options.times)
        targets: dict[str, Callable[[], Iterator[Try]]] = {
            "pages": lambda: damaged_blocks(home, chance, large, 4096),
            "bits": lambda: damaged_blocks(home, chance, large, 0),
            "files": lambda: damaged_files(home, chance, small, fits=False),
            "foreign": lambda: damaged_files(home, chance, small, fits=True),
            "tokenizers": lambda: tokenizers(home),
        }
        for name in options.targets.split(","):
            ends = Counter(end_of(*one) for one in targets[name]())
            row = {"target": name, "tries": ends.total(), **{end: ends[end] for end in ENDS}}
            print(line(COLUMNS, row), flush=True)


if __name__ == "__main__":
    main()
