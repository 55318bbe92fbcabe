"""X-Forwarded-For and X-Forwarded-Proto count if a trusted proxy sends them, and only then."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from running_service import run_service
from service_api import Api, running_api
from typer.testing import CliRunner

from releaf.cli import app
from releaf.service.auth.access_control import client_address
from releaf.service.auth.session_cookies import is_https
from releaf.service.auth.trusted_proxies import TrustedProxies
from releaf.service.settings import ServiceSettings

PROXIES = ("10.0.0.7", "10.1.0.0/16", "2001:db8:1::/48")


def resolved(peer: str | None, *headers: tuple[str, str], proxies: tuple[str, ...] = PROXIES) -> dict[str, Any]:
    pairs = [(name.lower().encode(), value.encode("latin-1")) for name, value in headers]
    scope: dict[str, Any] = {"client": None if peer is None else (peer, 5), "scheme": "http", "headers": pairs}
    TrustedProxies(proxies).resolve_client(scope)
    return scope


def client(peer: str, *forwarded: str) -> str:
    return client_address(resolved(peer, *(("X-Forwarded-For", value) for value in forwarded)))


@pytest.mark.parametrize("peer", ["10.0.0.7", "10.1.2.3", "2001:db8:1::9", "::ffff:10.0.0.7"])
def test_the_address_that_a_trusted_proxy_forwards_is_the_client(peer: str) -> None:
    assert client(peer, "203.0.113.9") == "203.0.113.9"
    assert client(peer, "2001:db8:2::5") == "2001:db8:2::/64"


@pytest.mark.parametrize("peer", ["203.0.113.1", "10.0.0.8", "127.0.0.1", "::1", "testclient"])
def test_the_headers_of_others_are_ignored(peer: str) -> None:
    scope = resolved(peer, ("X-Forwarded-For", "203.0.113.9"), ("X-Forwarded-Proto", "https"))
    assert scope["client"] == (peer, 5)
    assert not is_https(scope)


def test_without_trusted_proxies_the_headers_are_ignored() -> None:
    scope = resolved("10.0.0.7", ("X-Forwarded-For", "203.0.113.9"), ("X-Forwarded-Proto", "https"), proxies=())
    assert (scope["client"], scope["scheme"]) == (("10.0.0.7", 5), "http")
    assert resolved(None, ("X-Forwarded-For", "203.0.113.9"))["client"] is None


@pytest.mark.parametrize(
    ("forwarded", "expected"),
    [
        (["198.51.100.1, 203.0.113.9"], "203.0.113.9"),  # the client forged the first
        (["10.1.0.1, 203.0.113.9"], "203.0.113.9"),
        (["198.51.100.1, 203.0.113.9, 10.1.0.4"], "203.0.113.9"),  # two proxies
        (["198.51.100.1", "203.0.113.9"], "203.0.113.9"),  # two headers are one
        (["10.1.0.5, 10.1.0.4"], "10.1.0.5"),  # a client in the network of the proxies
        (["203.0.113.9:4711"], "203.0.113.9"),
        (["[2001:db8:2::5]:4711"], "2001:db8:2::/64"),
        (["::ffff:203.0.113.9"], "203.0.113.9"),
        ([], "10.0.0.7"),
        ([""], "10.0.0.7"),
        (["unknown"], "10.0.0.7"),
        (["203.0.113.9, unknown"], "10.0.0.7"),
        (["203.0.113.9, nonsense, 10.1.0.4"], "10.1.0.4"),
        ([", ".join(["203.0.113.9"] + ["10.1.0.4"] * 10_000)], "10.1.0.4"),
    ],
)
def test_the_client_is_the_last_address_that_is_no_trusted_proxy(forwarded: list[str], expected: str) -> None:
    assert client("10.0.0.7", *forwarded) == expected


def test_the_scheme_is_that_of_the_trusted_proxy() -> None:
    for value, https in (("https", True), ("HTTPS, http", True), ("http", False), ("ftp", False), ("", False)):
        assert is_https(resolved("10.0.0.7", ("X-Forwarded-Proto", value))) == https


def test_an_invalid_network_is_an_error() -> None:
    with pytest.raises(ValueError, match="trusted_proxy is 'proxy': expected an address or a network"):
        ServiceSettings(trusted_proxies=("proxy",))


# --- for real -------------------------------------------------------------------------------------------------


def new_key(folder: Path, scope: str) -> str:
    arguments = ["keys", "add", "me", "--scope", scope, "--store", str(folder / "releaf.db"), "--json"]
    return str(json.loads(CliRunner().invoke(app, arguments).stdout)["key"])


def test_behind_a_trusted_proxy_requests_need_a_key(tmp_path: Path) -> None:
    assert ServiceSettings(trusted_proxies=("127.0.0.1",)).needs_keys
    with run_service(tmp_path, "--trusted-proxy", "127.0.0.1") as url:
        assert statuses(url, "203.0.113.9", 1) == [401]
        assert httpx.get(f"{url}/v1/policies", trust_env=False).status_code == 401


@pytest.mark.parametrize("header", ["Forwarded", "X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host"])
def test_without_keys_a_forwarded_request_is_refused(keyless: Api, header: str) -> None:
    message = keyless.refused(403, "forwarded", "GET", "/v1/policies", headers={header: "for=203.0.113.9"})
    assert f"has a {header} header" in message
    assert all(option in message for option in ("--require-keys", "--name", "--trusted-proxy"))
    assert keyless.http.get("/healthz", headers={header: "x"}).status_code == 200  # which tells nothing, as do pages


@pytest.fixture(scope="module")
def keyless(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with running_api(tmp_path_factory.mktemp("keyless")) as api:
        yield api


def statuses(url: str, forwarded: str, count: int) -> list[int]:
    with httpx.Client(base_url=url, trust_env=False, headers={"X-Forwarded-For": forwarded}) as http:
        return [http.get("/v1/policies").status_code for _ in range(count)]


def test_rate_limits_and_logs_use_the_client_behind_a_trusted_proxy(tmp_path: Path) -> None:
    with run_service(tmp_path, "--rate-limit", "3", "--trusted-proxy", "127.0.0.1") as url:
        assert 429 in statuses(url, "203.0.113.9", 12)  # requests without a key count against their address
        assert statuses(url, "203.0.113.10", 1) == [401]
    lines = [json.loads(line) for line in (tmp_path / "service.log").read_text().splitlines()]
    assert {line["client"] for line in lines if line.get("status") == 429} == {"203.0.113.9"}


def test_a_client_without_a_trusted_proxy_can_not_evade_its_rate_limit(tmp_path: Path) -> None:
    with run_service(tmp_path, "--rate-limit", "3", "--require-keys") as url:
        assert 429 in [statuses(url, f"203.0.113.{number}", 1)[0] for number in range(12)]
    assert "203.0.113." not in (tmp_path / "service.log").read_text()


def test_feed_limits_are_those_of_the_key_behind_a_trusted_proxy(tmp_path: Path) -> None:
    keys = [{"Authorization": f"Bearer {new_key(tmp_path, '*:admin')}"} for _ in range(2)]
    with run_service(tmp_path, "--feed-limit", "1", "--trusted-proxy", "127.0.0.0/8") as url:
        api = Api(url, keys[0]["Authorization"].removeprefix("Bearer "))
        path = f"{api.new('EpsilonGreedy')}/feed"
        first, second = ({"X-Forwarded-For": "203.0.113.9", **key} for key in keys)
        with api.http.stream("GET", path, headers=first) as feed:
            assert feed.status_code == 200
            assert api.http.get(path, headers=first).status_code == 429
            with api.http.stream("GET", path, headers=second) as other:
                assert other.status_code == 200
        api.http.close()


@pytest.mark.parametrize(("options", "secure"), [(("--trusted-proxy", "127.0.0.1"), True), ((), False)])
def test_cookies_are_secure_if_a_trusted_proxy_ends_tls(tmp_path: Path, options: tuple[str, ...], secure: bool) -> None:
    key = new_key(tmp_path, "*:read")
    with run_service(tmp_path, "--require-keys", *options) as url:
        api = Api(url)
        headers = {"X-Forwarded-Proto": "https", "Origin": url.replace("http:", "https:")}
        answer = api.http.post("/login", data={"key": key}, headers=headers)
        api.http.close()
    assert answer.status_code == 303, answer.text
    assert ("Secure" in answer.headers["set-cookie"]) == secure
