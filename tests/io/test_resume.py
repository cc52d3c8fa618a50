"""Files that grow by a line per record: what is left of a killed run is used, and only that."""

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from jpr.errors import ConfigError
from jpr.io.resume import write_resumably
from jpr.io.text_files import read_lines

WHOLE = [f"{n}\n" for n in range(6)], [f"{n * n}\n" for n in range(6)]


def two_lines(n: int) -> list[str]:
    return [f"{n}\n", f"{n * n}\n"]


def two_files(folder: Path, key: str, stop: int = 6) -> list[int]:
    """Write the numbers below 6 and their squares, killed before `stop`; return those computed."""
    computed: list[int] = []

    def numbers(done: int) -> Iterator[int]:
        for n in range(done, 6):
            if n == stop:
                raise KeyboardInterrupt
            computed.append(n)
            yield n

    write_resumably([folder / "n.txt", folder / "squares.txt"], key, numbers, two_lines)
    return computed


def test_a_killed_run_resumes_where_both_files_are_whole(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        two_files(tmp_path, "key", stop=4)
    assert not (tmp_path / "n.txt").exists()
    part = tmp_path / ".squares.txt.part"
    part.write_bytes(part.read_bytes()[:-2])  # the line of 3 is torn: "9\n" has lost its end
    assert two_files(tmp_path, "key") == [3, 4, 5]
    texts = [(tmp_path / name).read_text() for name in ("n.txt", "squares.txt")]
    assert texts == ["".join(lines) for lines in WHOLE]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["n.txt", "squares.txt"]


@pytest.mark.parametrize("lost", [".n.txt.part", ".squares.txt.part"])
def test_a_part_without_its_fellow_is_not_used(tmp_path: Path, lost: str) -> None:
    with pytest.raises(KeyboardInterrupt):
        two_files(tmp_path, "key", stop=4)
    (tmp_path / lost).unlink()
    assert two_files(tmp_path, "key") == list(range(6))


def test_parts_of_other_work_are_not_used(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        two_files(tmp_path, "key", stop=4)
    assert two_files(tmp_path, "other") == list(range(6))


def test_finished_parts_are_published_without_computing(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        two_files(tmp_path, "key", stop=5)
    for name, line in ((".n.txt.part", b"5\n"), (".squares.txt.part", b"25\n")):
        with (tmp_path / name).open("ab") as stream:
            stream.write(b"%s %s" % (sha256(line).hexdigest()[:16].encode(), line))
    assert two_files(tmp_path, "key") == []
    assert (tmp_path / "squares.txt").read_text() == "".join(WHOLE[1])


def test_what_is_damaged_is_computed_again(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        two_files(tmp_path, "key", stop=4)
    part = tmp_path / ".squares.txt.part"
    whole = part.read_bytes()
    for place in range(len(whole)):
        turned = bytearray(whole)
        turned[place] ^= 1 << place % 8
        part.write_bytes(turned)
        computed = two_files(tmp_path, "key")
        assert set(computed) > {4, 5}, place
        assert (tmp_path / "squares.txt").read_text() == "".join(WHOLE[1])
        with pytest.raises(KeyboardInterrupt):
            two_files(tmp_path, "key", stop=4)


def test_the_result_is_compressed_if_its_name_says_so(tmp_path: Path) -> None:
    path = tmp_path / "new" / "n.gz"
    write_resumably([path], "", lambda done: range(done, 3), lambda n: [f"{n}\n"])
    assert [text for _, text in read_lines(path)] == ["0", "1", "2"]


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"file/n\.txt: cannot be written"):
        two_files(tmp_path / "file", "key")


def test_two_results_are_two_files(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot share a file"):
        write_resumably([tmp_path / "n"] * 2, "", lambda done: range(done, 3), two_lines)


def test_an_error_of_the_work_is_not_one_of_writing(tmp_path: Path) -> None:
    def broken(done: int) -> Iterator[int]:
        yield done
        raise OSError("the model's file has gone")

    with pytest.raises(OSError, match="gone"):
        write_resumably([tmp_path / "n"], "", broken, lambda n: [f"{n}\n"])
