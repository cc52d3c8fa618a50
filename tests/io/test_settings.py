from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest

from jpr.errors import ConfigError, FormatError
from jpr.io.checksums import sealed
from jpr.io.json_files import write_json
from jpr.io.settings import below, not_one_of, parse_settings, read_sealed, reject


@dataclass(frozen=True, slots=True)
class Options:
    decoder: str = "tree"
    beta: float = 2.0
    lambda_: float = 0.5
    any_text: bool = False
    budget: int | None = None
    name: str | None = None
    skip: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        reject(not_one_of(self, decoder=("tree", "seq")) + below(self, 0, "beta"))


@dataclass(frozen=True, slots=True)
class NoOptions:
    pass


def test_pairs_become_typed_fields() -> None:
    pairs = ["decoder=seq", "beta=1", "lambda=0.7", "any-text=true", "budget = 9", "name=12"]
    assert parse_settings(Options, pairs) == Options("seq", 1.0, 0.7, True, 9, "12")
    assert parse_settings(Options, []) == Options()


def test_a_key_of_a_list_may_be_repeated() -> None:
    assert parse_settings(Options, ["skip=a", "skip=2"]).skip == ("a", "2")
    assert parse_settings(Options, ["skip=['a', 'b']"]).skip == ("a", "b")


def test_strings_may_be_quoted_and_the_last_pair_counts() -> None:
    assert parse_settings(Options, ["name='a b'", "name=https://a?b=c"]).name == "https://a?b=c"
    assert parse_settings(Options, ["name='a b'"]).name == "a b"


@pytest.mark.parametrize(
    ("pair", "facts"),
    [
        ("betta=1", ["betta", "did you mean beta", "decoder, beta, lambda, any_text"]),
        ("lamda=1", ["did you mean lambda?"]),
        ("x=1", ["unknown key x", "known: decoder"]),
        ("beta=big", ["beta = 'big'", "number"]),
        ("beta=-1", ["beta = -1.0", "0"]),
        ("lambda=a", ["lambda = 'a'"]),
        ("any-text=1", ["any_text = 1", "boolean"]),
        ("budget=1.5", ["budget = 1.5", "whole number"]),
        ("decoder=best", ["decoder = 'best'", "tree, seq"]),
        ("beta", ["--set beta", "KEY=VALUE"]),
    ],
)
def test_a_mistake_is_named(pair: str, facts: list[str]) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_settings(Options, [pair])
    assert [fact for fact in facts if fact not in str(raised.value)] == []


def test_all_mistakes_are_named_at_once() -> None:
    with pytest.raises(ConfigError, match=r"betta.*budget"):
        parse_settings(Options, ["betta=1", "budget=a"])


def test_a_method_without_settings_says_so() -> None:
    with pytest.raises(ConfigError, match="known: none"):
        parse_settings(NoOptions, ["beta=1"])


def test_values_are_checked_without_a_file_too() -> None:
    with pytest.raises(ConfigError, match="beta"):
        Options(beta=-1)


@dataclass(frozen=True, slots=True)
class Part:
    recall: float


@dataclass(frozen=True, slots=True)
class Whole:
    sizes: Mapping[str, int]
    part: Part | None
    names: tuple[str, ...] = ()
    format: int = 2


@pytest.mark.parametrize("part", [None, Part(0.5)])
def test_a_sealed_record_is_read_as_it_was_declared(tmp_path: Path, part: Part | None) -> None:
    whole, file = Whole({"a/b": 7}, part, ("x", "y")), tmp_path / "whole.json"
    write_json(file, sealed(asdict(whole)))
    assert read_sealed(Whole, file, 2) == whole


@pytest.mark.parametrize(
    ("change", "fact"),
    [
        ({"sizes": {"a": "7"}}, r"sizes\.a = '7'"),
        ({"sizes": [7]}, "sizes must be a table"),
        ({"part": {}}, r"part\.recall is missing"),
        ({"names": "x"}, "names must be a list"),
        ({"format": 3}, "format 3 .* reads 2"),
        ({"sha256": "0"}, "checksum"),
    ],
)
def test_a_record_of_another_shape_is_refused(
    tmp_path: Path, change: dict[str, object], fact: str
) -> None:
    file = tmp_path / "whole.json"
    write_json(file, {**asdict(Whole({}, None)), **change})
    with pytest.raises(FormatError, match=rf"whole\.json: .*{fact}"):
        read_sealed(Whole, file, 2)
