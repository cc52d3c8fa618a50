"""`jpr serve` before it serves: options that have no meaning, and the token."""

import socket
import sys
from pathlib import Path

import pytest

from jpr.cli import serve
from jpr.cli.serve import ServeArguments
from jpr.errors import ConfigError, MissingExtraError
from jpr.io.settings import parse_settings
from jpr.serve.app import Address
from jpr.serve.limits import ServiceLimits


def test_documents_or_an_index(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--docs and --index exclude each other"):
        ServeArguments(docs=tmp_path, index=tmp_path)


def test_an_assistant_needs_no_address() -> None:
    with pytest.raises(ConfigError, match="--mcp serves standard input and output"):
        ServeArguments(mcp=True, port=9000)


@pytest.mark.parametrize(("mcp", "extra"), [(False, "serve"), (True, "mcp")])
def test_what_is_not_installed_is_named(
    monkeypatch: pytest.MonkeyPatch, mcp: bool, extra: str
) -> None:
    monkeypatch.setattr(serve, "find_spec", lambda _: None)
    with pytest.raises(MissingExtraError, match=rf"pip install 'jpr\[{extra}\]'"):
        serve.run(ServeArguments(mcp=mcp))


def test_the_token_is_of_the_file_or_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JPR_TOKEN", raising=False)
    assert serve.read_token(None) is None
    monkeypatch.setenv("JPR_TOKEN", "from-environment")
    assert serve.read_token(None) == "from-environment"
    file = tmp_path / "token"
    file.write_text("from-file\n")
    assert serve.read_token(file) == "from-file"
    file.write_text("\n")
    with pytest.raises(ConfigError, match="is empty"):
        serve.read_token(file)
    with pytest.raises(ConfigError, match="cannot be read"):
        serve.read_token(tmp_path / "none")


def test_an_address_in_use_is_an_error() -> None:
    with Address(port=0).bind() as bound:
        port = bound.getsockname()[1]
        with pytest.raises(ConfigError, match=f"127.0.0.1:{port}: [^()]*; .*--host"):
            Address(port=port).bind()
    with pytest.raises(ConfigError, match="--host"):
        Address("no.such.host.invalid").bind()


def test_a_person_at_a_terminal_is_reported_where_the_page_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    serve._announce("http://127.0.0.1:8080/")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert capsys.readouterr().err == ""
    serve._announce("http://127.0.0.1:8080/")
    assert (
        capsys.readouterr().err == "jpr: serving at http://127.0.0.1:8080/; press Ctrl-C to stop\n"
    )


def test_small_responses_are_sent_at_once() -> None:
    """Connections inherit it; asyncio sets it only on sockets made with their protocol's number."""
    with Address(port=0).bind() as bound:
        assert bound.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_only_names_of_this_machine_are_local() -> None:
    assert Address("::1").is_local
    assert Address().policy(None).hosts == ("127.0.0.1", "localhost", "::1")
    assert Address().policy("secret").hosts == ()  # say behind a proxy
    assert not Address("0.0.0.0").is_local
    assert Address("0.0.0.0").policy("secret").hosts == ()


def test_limits_are_above_zero() -> None:
    with pytest.raises(ConfigError, match="seconds = 0"):
        ServiceLimits(seconds=0)


def test_limits_are_set_by_name() -> None:
    assert parse_settings(ServiceLimits, ["waiting=3"], "--limit").waiting == 3
    with pytest.raises(ConfigError, match="--limit: unknown key wating; did you mean waiting"):
        serve.run(ServeArguments(limit=["wating=3"]))
