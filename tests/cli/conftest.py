import pytest


@pytest.fixture(autouse=True)
def no_cache_of_the_user(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JPR_CACHE", str(tmp_path_factory.mktemp("cache")))
