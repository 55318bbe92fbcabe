"""Access control: every rejection, the rate limiter, and the sessions of the dashboard."""

from __future__ import annotations

import json
import socket
import threading
import time
import timeit
from collections.abc import Iterator
from statistics import median
from typing import Any

import pytest
import uvicorn
from polling import TIMEOUT_SECONDS

from releaf.service.auth import origins
from releaf.service.auth.access_control import AccessControl, client_address
from releaf.service.auth.api_keys import FULL_ACCESS, NO_ACCESS, Identity, Keyring, make_key
from releaf.service.auth.origins import parse_authority
from releaf.service.auth.rate_limiter import RateLimiter, address_block
from releaf.service.auth.session_cookies import (
    LIFETIME,
    Sessions,
    expired_cookie,
    is_https,
    session_cookie,
    session_token,
)
from releaf.service.errors import ApiError
from releaf.service.http.security_headers import JSON_HEADERS, PAGE_HEADERS, error_headers
from releaf.service.settings import ServiceSettings
from releaf.service.store.base import KeyRow


class Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


class Gate:
    """Access control with one key, a clock, and requests to it."""

    def __init__(self, **settings: Any) -> None:
        self.clock = Clock()
        self.key, self.row = make_key("desk", ["triage:decide"])
        self.keyring = Keyring([self.row])
        self.sessions = Sessions(self.keyring, clock=self.clock)
        self.access = AccessControl(ServiceSettings(**settings), self.keyring, self.sessions, clock=self.clock)

    def ask(self, method: str = "GET", **given: Any) -> Identity:
        public = given.pop("public", False)
        return self.access.admit(request(method, **given), public=public)

    def refusal(self, method: str = "GET", **given: Any) -> ApiError:
        with pytest.raises(ApiError) as caught:
            self.ask(method, **given)
        return caught.value


def request(method: str = "GET", *, client: str = "192.0.2.7", scheme: str = "http", **headers: Any) -> dict[str, Any]:
    """An ASGI scope; ``sec_fetch_site`` stands for Sec-Fetch-Site, None for a header that is not sent."""
    sent = {"host": "localhost:8000", **headers}
    pairs = [(name.replace("_", "-").encode(), value.encode()) for name, value in sent.items() if value is not None]
    return {"type": "http", "method": method, "scheme": scheme, "client": (client, 5), "headers": pairs}


# --- hosts ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host", ["localhost:8000", "LOCALHOST:8000", "127.0.0.1:8000", "[::1]:8000", "[0:0:0:0:0:0:0:1]:8000", "localhost"]
)
def test_a_loopback_service_answers_to_its_loopback_names(host: str) -> None:
    for own in ("127.0.0.1", "::1", "localhost"):
        assert Gate(host=own).ask(host=host) is FULL_ACCESS


def test_a_tunnel_may_map_the_port() -> None:
    assert Gate(port=8000).ask(host="localhost:9000") is FULL_ACCESS


@pytest.mark.parametrize(
    "host",
    [
        "rebound.example:8000",
        "localhost.rebound.example",
        "127.0.0.1.rebound.example",
        "192.168.0.1:8000",
        "[2001:db8::1]:8000",
        "xlocalhost",
    ],
)
def test_an_unknown_host_is_rejected_and_named_in_the_error(host: str) -> None:
    gate = Gate()
    for _ in range(2):  # what was refused once is not remembered as right
        error = gate.refusal(host=host)
        assert (error.status, error.code) == (403, "host_foreign")
        assert str(parse_authority(host)[0]) in error.message  # type: ignore[index]


@pytest.mark.parametrize(
    "host",
    [
        "localhost:",
        "localhost:80000",
        "localhost:0",
        "localhost:8000:1",
        "user@localhost",
        "localhost/",
        "::1",
        "[::1",
        "[:::]",
        "local host",
        "localhost\n",
        "http://localhost",
        "löcalhost",
    ],
)
def test_a_malformed_host_is_rejected(host: str) -> None:
    error = Gate().refusal(host=host)
    assert (error.status, error.code) == (400, "host_malformed")


@pytest.mark.parametrize("host", [None, ""])
def test_a_missing_host_is_rejected(host: str | None) -> None:
    error = Gate().refusal(host=host)
    assert (error.status, error.code) == (400, "host_missing")


def test_further_names_are_allowed_with_their_port_if_they_have_one() -> None:
    gate = Gate(hosts=("Releaf.Example.org", "other.example:81", "2001:db8::5"))
    for host in ("releaf.example.org", "releaf.example.org.:443", "OTHER.example:81", "[2001:DB8:0::5]:9"):
        assert gate.ask(host=host, authorization=f"Bearer {gate.key}").name == "desk"
    for host in ("other.example", "other.example:82", "sub.releaf.example.org"):
        assert gate.refusal(host=host).status == 403


def test_an_invalid_further_name_is_an_error_at_the_start() -> None:
    with pytest.raises(ValueError, match=r"hosts has 'https://a\.example': expected a name"):
        Gate(hosts=("https://a.example",))


def test_a_service_on_one_address_accepts_that_address_only() -> None:
    gate = Gate(host="192.0.2.1")
    bearer = f"Bearer {gate.key}"
    assert gate.ask(host="192.0.2.1:8000", authorization=bearer).name == "desk"
    for host in ("192.0.2.2:8000", "localhost:8000"):
        assert gate.refusal(host=host, authorization=bearer).code == "host_foreign"


@pytest.mark.parametrize("own", ["0.0.0.0", "::"])
def test_a_service_on_all_addresses_accepts_any_address_but_no_unknown_name(own: str) -> None:
    gate = Gate(host=own, hosts=("releaf.example",))
    bearer = f"Bearer {gate.key}"
    for host in ("192.0.2.1:8000", "[2001:db8::1]:8000", "localhost:8000", "releaf.example"):
        assert gate.ask(host=host, authorization=bearer).name == "desk"
    assert gate.refusal(host="rebound.example", authorization=bearer).code == "host_foreign"


def test_the_cache_of_accepted_hosts_is_bounded() -> None:
    gate = Gate(rate_limit=0)
    for port in range(1, origins.MAX_REMEMBERED + 50):
        gate.ask(host=f"localhost:{port}")
    assert len(gate.access._hosts._accepted) == origins.MAX_REMEMBERED


@pytest.mark.parametrize("name", ["host", "authorization", "origin", "cookie", "sec-fetch-site"])
def test_a_duplicate_security_header_is_rejected(name: str) -> None:
    scope = request("POST", host="localhost:8000")
    value = b"localhost:8000" if name == "host" else b"x"
    scope["headers"] = [pair for pair in scope["headers"] if pair[0] != name.encode()]
    if name != "host":
        scope["headers"].append((b"host", b"localhost:8000"))
    scope["headers"] += [(name.encode(), value)] * 2
    with pytest.raises(ApiError, match=r"two .* headers") as caught:
        Gate().access.admit(scope)
    assert caught.value.status == 400


def test_other_headers_may_be_duplicate() -> None:
    scope = request()
    scope["headers"] += [(b"accept", b"text/html"), (b"accept", b"application/json")]
    assert Gate().access.admit(scope) is FULL_ACCESS


# --- origins --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["POST", "DELETE", "PUT", "PATCH", "OPTIONS"])
@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example",
        "http://localhost:3000",
        "http://localhost",
        "http://127.0.0.1:8000",
        "http://localhost:8000.evil.example",
        "ftp://localhost:8000",
        "localhost:8000",
        "null",
        "",
        "http://localhost:8000/",
        "http://user@localhost:8000",
    ],
)
def test_requests_from_pages_of_other_sites_are_rejected(method: str, origin: str) -> None:
    error = Gate().refusal(method, origin=origin)
    assert (error.status, error.code) == (403, "origin_foreign")


@pytest.mark.parametrize("site", ["cross-site", "same-site", "invented"])
def test_a_cross_site_sec_fetch_site_is_rejected_even_without_an_origin(site: str) -> None:
    assert Gate().refusal("POST", sec_fetch_site=site).code == "origin_foreign"
    assert Gate().refusal("POST", sec_fetch_site=site, origin="http://localhost:8000").code == "origin_foreign"


def test_a_key_does_not_admit_pages_of_other_sites() -> None:
    gate = Gate()
    error = gate.refusal("POST", origin="https://evil.example", authorization=f"Bearer {gate.key}")
    assert error.code == "origin_foreign"


def test_public_operations_do_not_admit_pages_of_other_sites() -> None:
    with pytest.raises(ApiError, match="not this service"):
        Gate().ask("POST", public=True, origin="https://evil.example")
    with pytest.raises(ApiError, match="not this service"):
        Gate().ask(public=True, host="evil.example")


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        ("http://localhost:8000", "localhost:8000"),
        ("http://LOCALHOST:8000", "localhost:8000"),
        ("http://[::1]:8000", "[::1]:8000"),
        ("http://localhost", "localhost"),
        ("http://localhost", "localhost:80"),
        ("http://localhost:80", "localhost"),
        ("https://releaf.example", "releaf.example"),
        ("https://releaf.example", "releaf.example:443"),
    ],
)
def test_own_pages_may_send_any_request(origin: str, host: str) -> None:
    gate = Gate(hosts=("releaf.example",))
    sent = {"origin": origin, "host": host, "authorization": f"Bearer {gate.key}"}
    assert gate.ask("POST", sec_fetch_site="same-origin", **sent).name == "desk"


def test_an_http_page_may_not_send_to_an_https_service() -> None:
    gate = Gate(hosts=("releaf.example",))
    sent = {"host": "releaf.example:443", "origin": "http://releaf.example:443"}
    with pytest.raises(ApiError, match="not this service"):
        gate.access.admit(request("POST", scheme="https", **sent))
    sent = {"host": "releaf.example", "origin": "https://releaf.example", "authorization": f"Bearer {gate.key}"}
    assert gate.ask("POST", scheme="https", **sent).name == "desk"


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_get_and_head_are_admitted_from_any_origin(method: str) -> None:
    assert Gate().ask(method, origin="https://evil.example", sec_fetch_site="cross-site") is FULL_ACCESS


def test_programs_need_no_origin() -> None:
    assert Gate().ask("POST") is FULL_ACCESS
    assert Gate().ask("POST", sec_fetch_site="none") is FULL_ACCESS


# --- keys -----------------------------------------------------------------------------------------------------


def test_beyond_loopback_every_request_needs_a_key() -> None:
    gate = Gate(host="0.0.0.0")
    error = gate.refusal()
    assert (error.status, error.code) == (401, "key_needed")
    assert (b"www-authenticate", b'Bearer realm="releaf"') in error_headers(error)
    assert gate.ask(authorization=f"Bearer {gate.key}").allows("triage", "decide")


@pytest.mark.parametrize("host", ["public.example", "localhost", "127.0.0.1:8000"])
def test_a_further_name_means_a_proxy_and_every_request_needs_a_key(host: str) -> None:
    gate = Gate(host="127.0.0.1", hosts=("public.example",))
    assert gate.refusal(host=host).code == "key_needed"
    assert gate.ask(host=host, authorization=f"Bearer {gate.key}").name == "desk"


def test_keys_can_be_required_on_loopback_too() -> None:
    assert Gate(require_keys=True).refusal().status == 401


def test_a_wrong_key_is_rejected_even_if_none_is_needed() -> None:
    assert Gate().refusal(authorization="Bearer rlf_nobody00_x").code == "key_wrong"
    gate = Gate()
    identity = gate.ask(authorization=f"Bearer {gate.key}")
    assert identity.name == "desk"
    assert not identity.allows("triage", "admin")


def test_public_operations_need_no_key_and_grant_no_scope() -> None:
    gate = Gate(require_keys=True)
    assert gate.ask(public=True) is NO_ACCESS
    assert gate.ask(public=True, authorization="Bearer nonsense") is NO_ACCESS
    assert not NO_ACCESS.allows("triage", "read")


def test_a_revoked_key_is_rejected_after_the_keys_are_reloaded() -> None:
    gate = Gate()
    gate.keyring.reload([gate.row._replace(revoked=5.0)])
    assert gate.refusal(authorization=f"Bearer {gate.key}").code == "key_wrong"


# --- rates ----------------------------------------------------------------------------------------------------


def test_the_rate_limit_holds_and_recovers() -> None:
    gate = Gate(rate_limit=5)
    for _ in range(5):
        gate.ask()
    error = gate.refusal()
    assert (error.status, error.code, error.retry_after) == (429, "too_many", 1)
    assert (b"retry-after", b"1") in error_headers(error)
    gate.clock.now += 0.2
    gate.ask()
    assert gate.refusal().status == 429
    gate.clock.now += 100
    for _ in range(5):
        gate.ask()
    assert gate.refusal().status == 429


def test_over_time_the_number_of_admitted_requests_matches_the_rate() -> None:
    clock, passed = Clock(), 0
    limiter = RateLimiter(100, clock=clock)
    for _ in range(10_000):  # ten seconds at ten times the rate
        clock.now += 0.001
        try:
            limiter.acquire("a")
        except ApiError:
            continue
        passed += 1
    assert 1_090 <= passed <= 1_101  # a full bucket, and what flowed in


def test_a_slow_rate_sets_retry_after() -> None:
    limiter = RateLimiter(0.1, clock=Clock())
    limiter.acquire("a")
    with pytest.raises(ApiError, match=r"more than 0\.1 requests a second") as caught:
        limiter.acquire("a")
    assert caught.value.retry_after == 10


def test_a_rejected_request_does_not_extend_the_wait() -> None:
    clock = Clock()
    limiter = RateLimiter(1, clock=clock)
    limiter.acquire("a")
    for _ in range(100):
        with pytest.raises(ApiError):
            limiter.acquire("a")
    clock.now += 1
    limiter.acquire("a")


def test_keys_and_addresses_have_separate_limits() -> None:
    gate = Gate(rate_limit=1)
    gate.ask(authorization=f"Bearer {gate.key}")
    assert gate.refusal(authorization=f"Bearer {gate.key}").status == 429
    gate.ask()
    assert gate.refusal().status == 429
    gate.access.admit(request(client="192.0.2.8"))


def test_a_key_has_one_limit_wherever_it_is_used() -> None:
    gate = Gate(rate_limit=1)
    gate.access.admit(request(client="192.0.2.8", authorization=f"Bearer {gate.key}"))
    with pytest.raises(ApiError, match="slow down"):
        gate.access.admit(request(client="192.0.2.9", authorization=f"Bearer {gate.key}"))


def test_a_rate_of_0_means_no_limit() -> None:
    gate = Gate(rate_limit=0)
    for _ in range(1_000):
        gate.ask()


def test_the_number_of_buckets_is_bounded_and_full_ones_go_first() -> None:
    clock = Clock()
    limiter = RateLimiter(1, burst=5, clock=clock, max_buckets=100)
    for _ in range(5):
        limiter.acquire("busy")
    for number in range(60):
        limiter.acquire(f"early {number}")
    clock.now += 1.5  # the early ones are full again; the busy one, older than they, is not
    for number in range(45):
        limiter.acquire(f"late {number}")
        assert len(limiter) <= 100
    limiter.acquire("busy")  # what has flowed in since
    with pytest.raises(ApiError):
        limiter.acquire("busy")


def test_the_number_of_buckets_is_bounded_when_all_are_in_use() -> None:
    limiter = RateLimiter(1, clock=Clock(), max_buckets=100)
    for number in range(10_000):
        limiter.acquire(str(number))
        assert len(limiter) <= 100


def test_wrong_keys_are_limited_by_address_and_a_valid_one_is_still_admitted() -> None:
    gate = Gate(require_keys=True)
    for _ in range(20):
        assert gate.refusal(authorization="Bearer rlf_guess000_x").status == 401
    error = gate.refusal(authorization="Bearer rlf_guess000_x")
    assert (error.status, error.message) == (429, "more than 1 wrong keys a second: slow down")
    assert gate.refusal().status == 401  # none at all is no guess
    assert gate.ask(authorization=f"Bearer {gate.key}").name == "desk"
    with pytest.raises(ApiError) as caught:
        gate.access.admit(request(client="192.0.2.8", authorization="Bearer rlf_guess000_x"))
    assert caught.value.status == 401
    gate.clock.now += 1
    assert gate.refusal(authorization="Bearer rlf_guess000_x").status == 401


def test_requests_without_a_key_count_against_the_rate_limit() -> None:
    gate = Gate(require_keys=True, rate_limit=3)
    assert [gate.refusal().status for _ in range(4)] == [401, 401, 401, 429]
    assert gate.ask(authorization=f"Bearer {gate.key}").name == "desk"


def test_the_limit_of_an_ipv6_client_applies_to_its_64_bit_prefix() -> None:
    assert address_block("2001:db8:0:1::7") == address_block("2001:db8::1:ffff:0:0:9") == "2001:db8:0:1::/64"
    assert address_block("2001:db8:0:2::7") != address_block("2001:db8:0:1::7")
    assert address_block("::ffff:192.0.2.7") == "192.0.2.7"
    assert address_block("fe80::1%eth0") == "fe80::/64"
    assert address_block("testclient") == "testclient"
    assert client_address({"client": None}) == client_address({}) == ""


# --- sessions -------------------------------------------------------------------------------------------------


def log_in(gate: Gate) -> str:
    token = gate.access.log_in(request("POST"), f" {gate.key}\n")
    return f"theme=dark; releaf_session={token}; other=1"


def test_a_session_has_the_identity_of_its_key() -> None:
    gate = Gate(require_keys=True)
    cookie = log_in(gate)
    assert gate.ask(cookie=cookie) == gate.keyring.find(gate.row.id)
    assert gate.ask("POST", cookie=cookie, origin="http://localhost:8000").name == "desk"
    assert gate.refusal("POST", cookie=cookie, origin="http://evil.example").status == 403


def test_a_session_ends_after_twelve_hours() -> None:
    gate = Gate(require_keys=True)
    cookie = log_in(gate)
    gate.clock.now += 12 * 3600 - 1
    assert gate.ask(cookie=cookie).name == "desk"
    gate.clock.now += 1
    assert gate.refusal(cookie=cookie).status == 401
    assert len(gate.sessions) == 0


def test_log_out_ends_a_session() -> None:
    gate = Gate(require_keys=True)
    cookie, other = log_in(gate), log_in(gate)
    gate.access.log_out(request("POST", cookie=cookie))
    assert gate.refusal(cookie=cookie).status == 401
    assert gate.ask(cookie=other).name == "desk"
    gate.access.log_out(request("POST"))  # without a session: nothing


def test_a_session_ends_with_its_key_and_changes_with_its_scopes() -> None:
    gate = Gate(require_keys=True)
    cookie = log_in(gate)
    gate.keyring.reload([gate.row._replace(scopes="triage:admin")])
    assert gate.ask(cookie=cookie).allows("triage", "admin")
    gate.keyring.reload([gate.row._replace(revoked=1.0)])
    assert gate.refusal(cookie=cookie).status == 401
    gate.keyring.reload([gate.row])
    assert gate.refusal(cookie=cookie).status == 401  # it does not come back


def test_an_ended_session_is_ignored_if_no_key_is_needed() -> None:
    assert Gate().ask(cookie="releaf_session=old") is FULL_ACCESS


def test_a_key_takes_precedence_over_a_session() -> None:
    gate = Gate(require_keys=True)
    assert gate.refusal(cookie=log_in(gate), authorization="Bearer rlf_nobody00_x").status == 401


def test_the_number_of_sessions_is_bounded_and_the_oldest_ends() -> None:
    gate = Gate()
    sessions = Sessions(gate.keyring, clock=gate.clock, max_sessions=3)
    identity = gate.keyring.find(gate.row.id)
    assert identity is not None
    tokens = [sessions.start(identity).encode() for _ in range(4)]
    assert len(sessions) == 3
    assert [sessions.find(token) is not None for token in tokens] == [False, True, True, True]
    gate.clock.now += LIFETIME
    sessions.start(identity)
    assert len(sessions) == 1


def test_session_tokens_are_stored_as_hashes_only() -> None:
    gate = Gate()
    token = gate.access.log_in(request("POST"), gate.key)
    assert token not in repr(vars(gate.sessions))
    assert len(token) >= 43


@pytest.mark.parametrize("key", ["", "rlf_nobody00_x", "Bearer x", "rlf_é_ü", "\ud800"])
def test_a_wrong_key_starts_no_session_and_counts_as_a_failure_of_its_address(key: str) -> None:
    gate = Gate()
    for _ in range(20):
        with pytest.raises(ApiError) as caught:
            gate.access.log_in(request("POST"), key)
        assert caught.value.status == 401
    with pytest.raises(ApiError) as caught:
        gate.access.log_in(request("POST"), key)
    assert caught.value.status == 429
    assert len(gate.sessions) == 0


def test_the_cookie_is_http_only_and_same_site() -> None:
    plain = session_cookie("abc", secure=False)
    assert plain == "releaf_session=abc; Max-Age=43200; Path=/; HttpOnly; SameSite=Strict"
    assert session_cookie("abc", secure=True) == plain + "; Secure"
    assert expired_cookie(secure=True) == "releaf_session=; Max-Age=0; Path=/; HttpOnly; SameSite=Strict; Secure"


def test_other_cookies_are_ignored() -> None:
    assert session_token(b"releaf_session=a") == b"a"
    assert session_token(b"x=1;releaf_session=a=b ; y=2") == b"a=b"
    for other in (None, b"", b"releaf_session", b"xreleaf_session=a", b"x=releaf_session=a"):
        assert session_token(other) is None


def test_cookies_are_secure_if_the_browser_used_https() -> None:
    assert is_https(request(scheme="https"))
    assert not is_https(request())
    assert not is_https(request(x_forwarded_proto="https"))  # TrustedProxies sets the scheme


# --- answers --------------------------------------------------------------------------------------------------


def test_the_content_security_policy_allows_own_files_only() -> None:
    headers = dict(PAGE_HEADERS)
    policy = dict(entry.split(" ", 1) for entry in headers[b"content-security-policy"].decode().split("; "))
    assert policy == {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "img-src": "'self' data:",
        "connect-src": "'self'",
        "form-action": "'self'",
        "base-uri": "'none'",
        "frame-ancestors": "'none'",
    }
    assert headers[b"referrer-policy"] == b"same-origin"
    assert set(JSON_HEADERS) <= set(PAGE_HEADERS)
    assert (b"x-content-type-options", b"nosniff") in JSON_HEADERS


def test_an_error_without_retry_after_has_the_usual_headers() -> None:
    assert error_headers(ApiError(404, "x", "y")) == JSON_HEADERS


# --- for real -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """A server that answers with the name of who asks, or the status of the refusal."""
    row = KeyRow("id", "desk", b"\0" * 32, "*:read", 0.0, None)
    keyring = Keyring([row])
    access = AccessControl(ServiceSettings(), keyring, Sessions(keyring))

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        try:
            status, text = 200, access.admit(scope).name
        except ApiError as error:
            status, text = error.status, error.code
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": text.encode()})

    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(answer, lifespan="off", log_config=None, http="httptools", loop="uvloop"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    yield listening.getsockname()[1]
    server.should_exit = True
    thread.join(TIMEOUT_SECONDS)
    listening.close()


@pytest.mark.parametrize(
    ("lines", "answer"),
    [
        ("GET / HTTP/1.1\r\nHOST: LocalHost:{port}", "everyone"),
        ("POST / HTTP/1.1\r\nHost: [::1]:{port}\r\nOrigin: http://[::1]:{port}", "everyone"),
        ("POST / HTTP/1.1\r\nHost: localhost:{port}\r\nORIGIN: http://localhost:{port}0", "origin_foreign"),
        ("POST / HTTP/1.1\r\nHost: localhost:{port}\r\nSec-Fetch-Site: cross-site", "origin_foreign"),
        ("GET / HTTP/1.1\r\nHost: rebound.example", "host_foreign"),
        ("GET / HTTP/1.1\r\nHost: localhost\r\nhost: rebound.example", "header_twice"),
        ("GET / HTTP/1.0\r\nAccept: */*", "host_missing"),
        ("GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization: bearer rlf_id_x", "key_wrong"),
    ],
)
def test_a_real_server_rejects_the_same_requests(port: int, lines: str, answer: str) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_SECONDS) as connection:
        connection.sendall(f"{lines.format(port=port)}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n".encode())
        received = b""
        while part := connection.recv(4096):
            received += part
    assert received.partition(b"\r\n\r\n")[2].decode().strip().endswith((answer, f"{answer}\r\n0"))


def test_access_control_is_faster_than_decoding_a_body() -> None:
    """About ten times as fast, so that the comparison holds on a busy machine too."""
    gate = Gate(require_keys=True, rate_limit=1e9)
    gate.access = AccessControl(
        ServiceSettings(require_keys=True, rate_limit=1e9), gate.keyring, gate.sessions, clock=time.monotonic
    )
    bearer = {"authorization": f"Bearer {gate.key}", "content_type": "application/json", "content_length": "40"}
    scope = request("POST", accept="*/*", accept_encoding="gzip", user_agent="x", connection="keep-alive", **bearer)
    checks = timeit.repeat(lambda: gate.access.admit(scope).allows("triage", "decide"), number=1_000, repeat=20)
    body = json.dumps({"contexts": [[0.123456] * 9] * 10})
    readings = timeit.repeat(lambda: json.loads(body), number=1_000, repeat=20)
    assert median(checks) < median(readings)
