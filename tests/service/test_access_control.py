"""Who may come in: every refusal of the guard, its limits, and the sessions of the dashboard."""

from __future__ import annotations

import json
import socket
import threading
import time
import timeit
from collections.abc import Iterator
from typing import Any

import pytest
import uvicorn

from releaf.service.auth import access_control as guarding
from releaf.service.auth.access_control import Guard, answer_headers, client_of, parse_authority
from releaf.service.auth.api_keys import EVERYONE, NOBODY, Identity, Keyring, make_key
from releaf.service.auth.rate_limiter import RateLimit, neighbourhood
from releaf.service.auth.session_cookies import (
    LIFETIME,
    Sessions,
    came_by_https,
    no_cookie,
    session_cookie,
    session_token,
)
from releaf.service.errors import Problem
from releaf.service.settings import Settings
from releaf.service.store.base import KeyRow


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


class Door:
    """A guard with one key, a clock, and requests to it."""

    def __init__(self, **settings: Any) -> None:
        self.clock = Clock()
        self.key, self.row = make_key("desk", ["triage:decide"])
        self.keyring = Keyring([self.row])
        self.sessions = Sessions(self.keyring, clock=self.clock)
        self.guard = Guard(Settings(**settings), self.keyring, self.sessions, clock=self.clock)

    def ask(self, method: str = "GET", **given: Any) -> Identity:
        public = given.pop("public", False)
        return self.guard.admit(request(method, **given), public=public)

    def refusal(self, method: str = "GET", **given: Any) -> Problem:
        with pytest.raises(Problem) as caught:
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
        assert Door(host=own).ask(host=host) is EVERYONE


def test_a_tunnel_may_map_the_port() -> None:
    assert Door(port=8000).ask(host="localhost:9000") is EVERYONE


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
def test_a_foreign_host_is_refused_and_named(host: str) -> None:
    door = Door()
    for _ in range(2):  # what was refused once is not remembered as right
        problem = door.refusal(host=host)
        assert (problem.status, problem.code) == (403, "host_foreign")
        assert str(parse_authority(host)[0]) in problem.message  # type: ignore[index]


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
def test_a_malformed_host_is_refused(host: str) -> None:
    problem = Door().refusal(host=host)
    assert (problem.status, problem.code) == (400, "host_malformed")


@pytest.mark.parametrize("host", [None, ""])
def test_a_missing_host_is_refused(host: str | None) -> None:
    problem = Door().refusal(host=host)
    assert (problem.status, problem.code) == (400, "host_missing")


def test_further_names_are_allowed_with_their_port_if_they_have_one() -> None:
    door = Door(hosts=("Releaf.Example.org", "other.example:81", "2001:db8::5"))
    for host in ("releaf.example.org", "releaf.example.org.:443", "OTHER.example:81", "[2001:DB8:0::5]:9"):
        assert door.ask(host=host) is EVERYONE
    for host in ("other.example", "other.example:82", "sub.releaf.example.org"):
        assert door.refusal(host=host).status == 403


def test_a_further_name_that_is_none_is_an_error_at_the_start() -> None:
    with pytest.raises(ValueError, match=r"hosts has 'https://a\.example', expected a name"):
        Door(hosts=("https://a.example",))


def test_a_service_on_one_address_answers_to_that_one() -> None:
    door = Door(host="192.0.2.1")
    bearer = f"Bearer {door.key}"
    assert door.ask(host="192.0.2.1:8000", authorization=bearer).name == "desk"
    for host in ("192.0.2.2:8000", "localhost:8000"):
        assert door.refusal(host=host, authorization=bearer).code == "host_foreign"


@pytest.mark.parametrize("own", ["0.0.0.0", "::"])
def test_a_service_on_all_addresses_answers_to_any_address_but_to_no_name_it_was_not_told(own: str) -> None:
    door = Door(host=own, hosts=("releaf.example",))
    bearer = f"Bearer {door.key}"
    for host in ("192.0.2.1:8000", "[2001:db8::1]:8000", "localhost:8000", "releaf.example"):
        assert door.ask(host=host, authorization=bearer).name == "desk"
    assert door.refusal(host="rebound.example", authorization=bearer).code == "host_foreign"


def test_hosts_that_were_found_right_are_remembered_up_to_a_bound() -> None:
    door = Door(rate_limit=0)
    for port in range(1, guarding.MOST_REMEMBERED + 50):
        door.ask(host=f"localhost:{port}")
    assert len(door.guard._hosts._seen) == guarding.MOST_REMEMBERED


@pytest.mark.parametrize("name", ["host", "authorization", "origin", "cookie", "sec-fetch-site"])
def test_a_header_that_decides_must_not_be_there_twice(name: str) -> None:
    scope = request("POST", host="localhost:8000")
    value = b"localhost:8000" if name == "host" else b"x"
    scope["headers"] = [pair for pair in scope["headers"] if pair[0] != name.encode()]
    if name != "host":
        scope["headers"].append((b"host", b"localhost:8000"))
    scope["headers"] += [(name.encode(), value)] * 2
    with pytest.raises(Problem, match=r"two .* headers") as caught:
        Door().guard.admit(scope)
    assert caught.value.status == 400


def test_other_headers_may_be_there_twice() -> None:
    scope = request()
    scope["headers"] += [(b"accept", b"text/html"), (b"accept", b"application/json")]
    assert Door().guard.admit(scope) is EVERYONE


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
def test_what_a_page_elsewhere_sends_is_refused(method: str, origin: str) -> None:
    problem = Door().refusal(method, origin=origin)
    assert (problem.status, problem.code) == (403, "origin_foreign")


@pytest.mark.parametrize("site", ["cross-site", "same-site", "invented"])
def test_what_the_browser_says_comes_from_elsewhere_is_refused_even_without_an_origin(site: str) -> None:
    assert Door().refusal("POST", sec_fetch_site=site).code == "origin_foreign"
    assert Door().refusal("POST", sec_fetch_site=site, origin="http://localhost:8000").code == "origin_foreign"


def test_a_key_does_not_open_the_door_to_pages_elsewhere() -> None:
    door = Door()
    problem = door.refusal("POST", origin="https://evil.example", authorization=f"Bearer {door.key}")
    assert problem.code == "origin_foreign"


def test_being_public_does_not_open_the_door_to_pages_elsewhere() -> None:
    with pytest.raises(Problem, match="not this service"):
        Door().ask("POST", public=True, origin="https://evil.example")
    with pytest.raises(Problem, match="not this service"):
        Door().ask(public=True, host="evil.example")


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
def test_our_own_pages_may_send_anything(origin: str, host: str) -> None:
    door = Door(hosts=("releaf.example",))
    assert door.ask("POST", origin=origin, host=host, sec_fetch_site="same-origin") is EVERYONE


def test_a_page_that_came_by_http_is_foreign_to_one_that_came_by_https() -> None:
    door = Door(hosts=("releaf.example",))
    sent = {"host": "releaf.example:443", "origin": "http://releaf.example:443"}
    assert door.refusal("POST", x_forwarded_proto="https", **sent).code == "origin_foreign"
    with pytest.raises(Problem, match="not this service"):
        door.guard.admit(request("POST", scheme="https", **sent))
    sent = {"host": "releaf.example", "origin": "https://releaf.example"}
    assert door.ask("POST", x_forwarded_proto="https", **sent) is EVERYONE


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_reading_is_left_to_the_browsers_own_rules(method: str) -> None:
    assert Door().ask(method, origin="https://evil.example", sec_fetch_site="cross-site") is EVERYONE


def test_programs_need_no_origin() -> None:
    assert Door().ask("POST") is EVERYONE
    assert Door().ask("POST", sec_fetch_site="none") is EVERYONE


# --- keys -----------------------------------------------------------------------------------------------------


def test_beyond_loopback_a_key_is_needed() -> None:
    door = Door(host="0.0.0.0")
    problem = door.refusal()
    assert (problem.status, problem.code) == (401, "key_needed")
    assert (b"www-authenticate", b'Bearer realm="releaf"') in answer_headers(problem)
    assert door.ask(authorization=f"Bearer {door.key}").allows("triage", "decide")


def test_keys_can_be_needed_on_loopback_too() -> None:
    assert Door(require_keys=True).refusal().status == 401


def test_a_wrong_key_is_told_even_where_none_is_needed() -> None:
    assert Door().refusal(authorization="Bearer rlf_nobody00_x").code == "key_wrong"
    door = Door()
    identity = door.ask(authorization=f"Bearer {door.key}")
    assert identity.name == "desk"
    assert not identity.allows("triage", "admin")


def test_what_is_public_needs_no_key_and_gives_no_rights() -> None:
    door = Door(require_keys=True)
    assert door.ask(public=True) is NOBODY
    assert door.ask(public=True, authorization="Bearer nonsense") is NOBODY
    assert not NOBODY.allows("triage", "read")


def test_a_revoked_key_is_refused_as_soon_as_the_keys_are_read_again() -> None:
    door = Door()
    door.keyring.reload([door.row._replace(revoked=5.0)])
    assert door.refusal(authorization=f"Bearer {door.key}").code == "key_wrong"


# --- rates ----------------------------------------------------------------------------------------------------


def test_a_rate_is_kept_to_and_recovers() -> None:
    door = Door(rate_limit=5)
    for _ in range(5):
        door.ask()
    problem = door.refusal()
    assert (problem.status, problem.code, problem.retry_after) == (429, "too_many", 1)
    assert (b"retry-after", b"1") in answer_headers(problem)
    door.clock.now += 0.2
    door.ask()
    assert door.refusal().status == 429
    door.clock.now += 100
    for _ in range(5):
        door.ask()
    assert door.refusal().status == 429


def test_over_time_no_more_gets_through_than_the_rate() -> None:
    clock, passed = Clock(), 0
    limit = RateLimit(100, clock=clock)
    for _ in range(10_000):  # ten seconds at ten times the rate
        clock.now += 0.001
        try:
            limit.take("a")
        except Problem:
            continue
        passed += 1
    assert 1_090 <= passed <= 1_101  # a full bucket, and what flowed in


def test_a_slow_rate_says_how_long_to_wait() -> None:
    limit = RateLimit(0.1, clock=Clock())
    limit.take("a")
    with pytest.raises(Problem, match=r"more than 0\.1 requests a second") as caught:
        limit.take("a")
    assert caught.value.retry_after == 10


def test_a_refused_request_does_not_make_the_wait_longer() -> None:
    clock = Clock()
    limit = RateLimit(1, clock=clock)
    limit.take("a")
    for _ in range(100):
        with pytest.raises(Problem):
            limit.take("a")
    clock.now += 1
    limit.take("a")


def test_keys_and_addresses_have_limits_of_their_own() -> None:
    door = Door(rate_limit=1)
    door.ask(authorization=f"Bearer {door.key}")
    assert door.refusal(authorization=f"Bearer {door.key}").status == 429
    door.ask()
    assert door.refusal().status == 429
    door.guard.admit(request(client="192.0.2.8"))


def test_a_key_has_one_limit_wherever_it_is_used() -> None:
    door = Door(rate_limit=1)
    door.guard.admit(request(client="192.0.2.8", authorization=f"Bearer {door.key}"))
    with pytest.raises(Problem, match="slow down"):
        door.guard.admit(request(client="192.0.2.9", authorization=f"Bearer {door.key}"))


def test_no_limit_where_it_is_0() -> None:
    door = Door(rate_limit=0)
    for _ in range(1_000):
        door.ask()


def test_the_number_of_buckets_is_bounded_and_full_ones_go_first() -> None:
    clock = Clock()
    limit = RateLimit(1, burst=5, clock=clock, most=100)
    for _ in range(5):
        limit.take("busy")
    for number in range(60):
        limit.take(f"early {number}")
    clock.now += 1.5  # the early ones are full again; the busy one, older than they, is not
    for number in range(45):
        limit.take(f"late {number}")
        assert len(limit) <= 100
    limit.take("busy")  # what has flowed in since
    with pytest.raises(Problem):
        limit.take("busy")


def test_the_number_of_buckets_is_bounded_when_all_are_in_use() -> None:
    limit = RateLimit(1, clock=Clock(), most=100)
    for number in range(10_000):
        limit.take(str(number))
        assert len(limit) <= 100


def test_wrong_keys_are_limited_by_address_and_the_right_one_still_comes_in() -> None:
    door = Door(require_keys=True)
    for _ in range(20):
        assert door.refusal(authorization="Bearer rlf_guess000_x").status == 401
    problem = door.refusal(authorization="Bearer rlf_guess000_x")
    assert (problem.status, problem.message) == (429, "more than 1 wrong keys a second: slow down")
    assert door.refusal().status == 401  # none at all is no guess
    assert door.ask(authorization=f"Bearer {door.key}").name == "desk"
    with pytest.raises(Problem) as caught:
        door.guard.admit(request(client="192.0.2.8", authorization="Bearer rlf_guess000_x"))
    assert caught.value.status == 401
    door.clock.now += 1
    assert door.refusal(authorization="Bearer rlf_guess000_x").status == 401


def test_requests_without_a_key_are_limited_like_others() -> None:
    door = Door(require_keys=True, rate_limit=3)
    assert [door.refusal().status for _ in range(4)] == [401, 401, 401, 429]
    assert door.ask(authorization=f"Bearer {door.key}").name == "desk"


def test_one_client_has_half_of_an_ipv6_address_to_choose_from() -> None:
    assert neighbourhood("2001:db8:0:1::7") == neighbourhood("2001:db8::1:ffff:0:0:9") == "2001:db8:0:1::/64"
    assert neighbourhood("2001:db8:0:2::7") != neighbourhood("2001:db8:0:1::7")
    assert neighbourhood("::ffff:192.0.2.7") == "192.0.2.7"
    assert neighbourhood("fe80::1%eth0") == "fe80::/64"
    assert neighbourhood("testclient") == "testclient"
    assert client_of({"client": None}) == client_of({}) == ""


# --- sessions -------------------------------------------------------------------------------------------------


def log_in(door: Door) -> str:
    token = door.guard.log_in(request("POST"), f" {door.key}\n")
    return f"theme=dark; releaf_session={token}; other=1"


def test_a_session_stands_for_its_key() -> None:
    door = Door(require_keys=True)
    cookie = log_in(door)
    assert door.ask(cookie=cookie) == door.keyring.find(door.row.id)
    assert door.ask("POST", cookie=cookie, origin="http://localhost:8000").name == "desk"
    assert door.refusal("POST", cookie=cookie, origin="http://evil.example").status == 403


def test_a_session_ends_after_twelve_hours() -> None:
    door = Door(require_keys=True)
    cookie = log_in(door)
    door.clock.now += 12 * 3600 - 1
    assert door.ask(cookie=cookie).name == "desk"
    door.clock.now += 1
    assert door.refusal(cookie=cookie).status == 401
    assert len(door.sessions) == 0


def test_a_session_ends_with_logging_out() -> None:
    door = Door(require_keys=True)
    cookie, other = log_in(door), log_in(door)
    door.guard.log_out(request("POST", cookie=cookie))
    assert door.refusal(cookie=cookie).status == 401
    assert door.ask(cookie=other).name == "desk"
    door.guard.log_out(request("POST"))  # without a session: nothing


def test_a_session_ends_with_its_key_and_changes_with_its_scopes() -> None:
    door = Door(require_keys=True)
    cookie = log_in(door)
    door.keyring.reload([door.row._replace(scopes="triage:admin")])
    assert door.ask(cookie=cookie).allows("triage", "admin")
    door.keyring.reload([door.row._replace(revoked=1.0)])
    assert door.refusal(cookie=cookie).status == 401
    door.keyring.reload([door.row])
    assert door.refusal(cookie=cookie).status == 401  # it does not come back


def test_an_ended_session_is_no_hindrance_where_no_key_is_needed() -> None:
    assert Door().ask(cookie="releaf_session=old") is EVERYONE


def test_a_key_goes_before_a_session() -> None:
    door = Door(require_keys=True)
    assert door.refusal(cookie=log_in(door), authorization="Bearer rlf_nobody00_x").status == 401


def test_the_number_of_sessions_is_bounded_and_the_oldest_goes() -> None:
    door = Door()
    sessions = Sessions(door.keyring, clock=door.clock, most=3)
    identity = door.keyring.find(door.row.id)
    assert identity is not None
    tokens = [sessions.start(identity).encode() for _ in range(4)]
    assert len(sessions) == 3
    assert [sessions.find(token) is not None for token in tokens] == [False, True, True, True]
    door.clock.now += LIFETIME
    sessions.start(identity)
    assert len(sessions) == 1


def test_tokens_are_not_kept() -> None:
    door = Door()
    token = door.guard.log_in(request("POST"), door.key)
    assert token not in repr(vars(door.sessions))
    assert len(token) >= 43


@pytest.mark.parametrize("key", ["", "rlf_nobody00_x", "Bearer x", "rlf_é_ü", "\ud800"])
def test_a_wrong_key_starts_no_session_and_counts_against_the_address(key: str) -> None:
    door = Door()
    for _ in range(20):
        with pytest.raises(Problem) as caught:
            door.guard.log_in(request("POST"), key)
        assert caught.value.status == 401
    with pytest.raises(Problem) as caught:
        door.guard.log_in(request("POST"), key)
    assert caught.value.status == 429
    assert len(door.sessions) == 0


def test_the_cookie_is_kept_from_scripts_and_from_other_sites() -> None:
    plain = session_cookie("abc", secure=False)
    assert plain == "releaf_session=abc; Max-Age=43200; Path=/; HttpOnly; SameSite=Strict"
    assert session_cookie("abc", secure=True) == plain + "; Secure"
    assert no_cookie(secure=True) == "releaf_session=; Max-Age=0; Path=/; HttpOnly; SameSite=Strict; Secure"


def test_cookies_of_others_are_not_taken_for_ours() -> None:
    assert session_token(b"releaf_session=a") == b"a"
    assert session_token(b"x=1;releaf_session=a=b ; y=2") == b"a=b"
    for other in (None, b"", b"releaf_session", b"xreleaf_session=a", b"x=releaf_session=a"):
        assert session_token(other) is None


def test_cookies_are_secure_where_the_browser_spoke_https() -> None:
    assert came_by_https(request(scheme="https"))
    assert came_by_https(request(x_forwarded_proto="HTTPS, http"))
    assert not came_by_https(request(x_forwarded_proto="http"))
    assert not came_by_https(request())


# --- answers --------------------------------------------------------------------------------------------------


def test_pages_may_load_what_is_ours_and_nothing_else() -> None:
    headers = dict(guarding.PAGE_HEADERS)
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
    assert set(guarding.JSON_HEADERS) <= set(guarding.PAGE_HEADERS)
    assert (b"x-content-type-options", b"nosniff") in guarding.JSON_HEADERS


def test_a_problem_without_a_wait_has_the_usual_headers() -> None:
    assert answer_headers(Problem(404, "x", "y")) == guarding.JSON_HEADERS


# --- for real -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """A server that answers with the name of who asks, or the status of the refusal."""
    row = KeyRow("id", "desk", b"\0" * 32, "*:read", 0.0, None)
    keyring = Keyring([row])
    guard = Guard(Settings(), keyring, Sessions(keyring))

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        try:
            status, text = 200, guard.admit(scope).name
        except Problem as problem:
            status, text = problem.status, problem.code
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": text.encode()})

    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(answer, lifespan="off", log_config=None, http="httptools", loop="uvloop"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    yield listening.getsockname()[1]
    server.should_exit = True
    thread.join(30)
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
def test_a_server_refuses_the_same(port: int, lines: str, answer: str) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(f"{lines.format(port=port)}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n".encode())
        received = b""
        while part := connection.recv(4096):
            received += part
    assert received.partition(b"\r\n\r\n")[2].decode().strip().endswith((answer, f"{answer}\r\n0"))


def test_a_request_is_checked_in_less_time_than_its_body_takes_to_read() -> None:
    door = Door(require_keys=True, rate_limit=1e9)
    door.guard = Guard(Settings(require_keys=True, rate_limit=1e9), door.keyring, door.sessions, clock=time.monotonic)
    bearer = {"authorization": f"Bearer {door.key}", "content_type": "application/json", "content_length": "40"}
    scope = request("POST", accept="*/*", accept_encoding="gzip", user_agent="x", connection="keep-alive", **bearer)
    checks = timeit.repeat(lambda: door.guard.admit(scope).allows("triage", "decide"), number=1_000, repeat=20)
    body = json.dumps({"contexts": [[0.123456] * 9] * 10})
    readings = timeit.repeat(lambda: json.loads(body), number=1_000, repeat=20)
    assert min(checks) < min(readings)
