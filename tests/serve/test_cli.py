"""`jpr serve` before it serves: options that have no meaning, and the token."""

import socket
import sys
from pathlib import Path

import pytest

from jpr.cli import serve
from jpr.cli.serve import ServeArguments
from jpr.errors import ConfigError, FormatError, MissingExtraError
from jpr.io.settings import parse_settings
from jpr.serve.app import Address
from jpr.serve.limits import ServiceLimits, ServiceSettings
from jpr.serve.tokens import Tokens


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
    assert serve.read_tokens(None) is None
    monkeypatch.setenv("JPR_TOKEN", "from-the-environment")
    tokens = serve.read_tokens(None)
    assert tokens is not None
    assert tokens.name_of(b"from-the-environment") == ""
    file = tmp_path / "token"
    file.write_text("from-the-only-line\n")
    file.chmod(0o600)
    tokens = serve.read_tokens(file)
    assert tokens is not None
    assert tokens.name_of(b"from-the-only-line") == ""
    assert tokens.name_of(b"from-the-environment") is None
    monkeypatch.setenv("JPR_TOKEN", "")
    with pytest.raises(FormatError, match="JPR_TOKEN: has no token"):
        serve.read_tokens(None)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "jpr.example.org"])
def test_other_machines_need_a_token(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JPR_TOKEN", raising=False)
    with pytest.raises(ConfigError, match=f"--host {host}: .*--set insecure=true"):
        serve.run(ServeArguments(host=host))
    assert Address(host).policy(None, ServiceSettings(insecure=True)).tokens is None


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


def test_which_host_names_are_accepted() -> None:
    tokens, named = Tokens.of_text("0123456789abcdef", "here"), ServiceSettings(hosts=("JPR.test",))
    given = ServiceSettings()
    for local in (Address(), Address("::1"), Address("localhost"), Address("127.0.0.9")):
        assert local.policy(None, given).hosts == ("localhost",)
        assert local.policy(tokens, given).hosts == ("localhost",)
        assert local.policy(tokens, named).hosts == ("localhost", "jpr.test")
    public = Address("0.0.0.0")
    assert not public.is_local
    assert public.policy(tokens, given).hosts is None  # a page of another site has no token
    assert public.policy(tokens, named).hosts == ("localhost", "jpr.test")
    assert public.policy(None, ServiceSettings(insecure=True)).hosts == ("localhost",)


def test_limits_are_above_zero() -> None:
    with pytest.raises(ConfigError, match="seconds = 0"):
        ServiceLimits(seconds=0)


def test_limits_are_set_by_name() -> None:
    given = ["waiting=3", "corpus-passages=7", "hosts=a.test", "hosts=b.test", "insecure=true"]
    settings = parse_settings(ServiceSettings, given)
    assert (settings.waiting, settings.corpus_passages, settings.insecure) == (3, 7, True)
    assert settings.hosts == ("a.test", "b.test")
    with pytest.raises(ConfigError, match="--set: unknown key wating; did you mean waiting"):
        serve.run(ServeArguments(set=["wating=3"]))
    with pytest.raises(ConfigError, match=r"proxies = 10\.0\.0\.1/8"):
        Address().policy(None, ServiceSettings(proxies=("10.0.0.1/8",)))
