"""API keys: their format and scopes, and the commands that make, list and revoke them."""

from __future__ import annotations

import asyncio
import hmac
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from releaf.cli import app
from releaf.cli import keys as commands
from releaf.service.auth import api_keys
from releaf.service.auth.api_keys import FULL_ACCESS, NO_ACCESS, Identity, Keyring, make_key, parse_scopes
from releaf.service.errors import ApiError
from releaf.service.store import open_store

WIDE = {"COLUMNS": "120", "NO_COLOR": "1", "RELEAF_STORE": None}


def refusal(ring: Keyring, header: bytes | None) -> ApiError:
    with pytest.raises(ApiError) as caught:
        ring.identify(header)
    return caught.value


# --- what a key is --------------------------------------------------------------------------------------------


def test_a_key_has_a_public_id_and_a_secret_of_256_bits_of_which_a_hash_is_kept() -> None:
    plain, row = make_key("desk", ["triage:reward", "triage:decide", "triage:decide"], created=12.0)
    prefix, public, secret = plain.split("_")
    assert (prefix, public, row.id) == ("rlf", row.id, public)
    assert len(public) == 8
    assert 62 ** len(secret) >= 2**256
    assert plain.replace("_", "").isalnum()
    assert secret not in repr(row)
    assert len(row.digest) == 32
    assert (row.name, row.scopes, row.created, row.revoked) == ("desk", "triage:decide triage:reward", 12.0, None)


def test_keys_are_unique() -> None:
    made = [make_key("desk", ["*:read"]) for _ in range(100)]
    assert len({plain.split("_")[2] for plain, _ in made}) == 100
    assert len({row.digest for _, row in made}) == 100


@pytest.mark.parametrize("name", ["", "a" * 201, "two\nlines", "\x1b[31m"])
def test_an_unprintable_or_too_long_name_is_rejected(name: str) -> None:
    with pytest.raises(ValueError, match=r"name is .*: expected 1 to 200 printable characters"):
        make_key(name, ["*:read"])


@pytest.mark.parametrize(
    "scope", ["triage", "triage:", ":read", "triage:write", "tri age:read", "-x:read", "a/b:read", "**:read", ""]
)
def test_an_invalid_scope_is_named_in_the_error(scope: str) -> None:
    with pytest.raises(ValueError, match=r"scope is .*: expected "):
        make_key("desk", ["triage:decide", scope])


def test_a_key_needs_at_least_one_scope() -> None:
    with pytest.raises(ValueError, match="at least one, such as triage:decide"):
        make_key("desk", [])


# --- what it may do -------------------------------------------------------------------------------------------


def test_scopes_are_those_of_one_experiment_or_of_all() -> None:
    desk = Identity("id", "desk", parse_scopes("triage:decide triage:reward *:read"))
    allowed = {
        (name, scope) for name in ("triage", "other", "*") for scope in api_keys.SCOPES if desk.allows(name, scope)
    }
    assert allowed == {
        ("triage", "decide"),
        ("triage", "reward"),
        ("triage", "read"),
        ("other", "read"),
        ("*", "read"),
    }


def test_admin_implies_all_in_its_experiment_alone() -> None:
    boss = Identity("id", "boss", parse_scopes("triage:admin"))
    assert all(boss.allows("triage", scope) for scope in api_keys.SCOPES)
    assert not any(boss.allows("other", scope) for scope in api_keys.SCOPES)
    assert all(Identity("", "", parse_scopes("*:admin")).allows("any", scope) for scope in api_keys.SCOPES)


def test_full_access_has_all_scopes_and_no_access_has_none() -> None:
    assert all(FULL_ACCESS.allows("any", scope) for scope in api_keys.SCOPES)
    assert not any(NO_ACCESS.allows("any", scope) for scope in api_keys.SCOPES)


def test_a_missing_scope_is_named_in_the_error() -> None:
    desk = Identity("Ab12Cd34", "desk", parse_scopes("triage:decide"))
    desk.require("triage", "decide")
    with pytest.raises(ApiError, match="the key Ab12Cd34 lacks the scope triage:admin") as caught:
        desk.require("triage", "admin")
    assert (caught.value.status, caught.value.code) == (403, "forbidden")


# --- who it lets in -------------------------------------------------------------------------------------------


def test_the_scheme_of_the_authorization_header_is_case_insensitive() -> None:
    plain, row = make_key("desk", ["triage:decide"])
    ring = Keyring([row, make_key("other", ["*:read"])[1]])
    for scheme in ("Bearer", "bearer", "BEARER"):
        assert ring.identify(f"{scheme} {plain}".encode()) == Identity(
            row.id, "desk", {"triage": frozenset({"decide"})}
        )
    assert len(ring) == 2


def test_unknown_wrong_and_revoked_keys_get_the_same_error() -> None:
    plain, row = make_key("desk", ["triage:decide"])
    old, revoked = make_key("old", ["triage:decide"])
    other, _ = make_key("other", ["*:admin"])
    ring = Keyring([row, revoked._replace(revoked=1.0)])
    secret = plain.split("_")[2]
    wrong = [other, old, plain[:-1], plain + "x", plain.swapcase(), f"rlf_{row.id}_", f"rlf_{row.id}", secret]
    wrong += ["", "_", "__", f"xyz_{row.id}_{secret}", f"rlf__{secret}", "x" * 100_000]
    headers = [f"Bearer {key}" for key in wrong] + [f"Basic {plain}", plain, f"Bearer{plain}", "Bearer", ""]
    answers = {(error.status, error.code, error.message) for error in _refusals(ring, headers)}
    assert answers == {(401, "key_wrong", api_keys.WRONG_KEY)}


def _refusals(ring: Keyring, headers: list[str]) -> Iterator[ApiError]:
    for header in headers:
        yield refusal(ring, header.encode())
    yield refusal(ring, b"Bearer rlf_\xff\xfe_\x00")


def test_the_error_for_a_missing_key_explains_how_to_send_one() -> None:
    error = refusal(Keyring(), None)
    assert (error.status, error.code) == (401, "key_needed")
    assert "Authorization: Bearer" in error.message


def test_every_comparison_is_of_whole_hashes_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[int, int]] = []
    compare = hmac.compare_digest

    def noted(left: bytes, right: bytes) -> bool:
        compared.append((len(left), len(right)))
        return compare(left, right)

    monkeypatch.setattr(hmac, "compare_digest", noted)
    plain, row = make_key("desk", ["triage:decide"])
    ring = Keyring([row])
    ring.identify(f"Bearer {plain}".encode())
    for wrong in (f"rlf_{row.id}_x", "rlf_unknown0_x", "nonsense", ""):
        refusal(ring, f"Bearer {wrong}".encode())
    assert compared == [(32, 32)] * 5


def test_the_placeholder_for_unknown_keys_admits_no_request() -> None:
    digest, identity = Keyring()._unknown
    assert identity is NO_ACCESS
    assert digest != Keyring()._unknown[0]


def test_reloading_adds_and_removes_keys() -> None:
    plain, row = make_key("desk", ["triage:decide"])
    header = f"Bearer {plain}".encode()
    ring = Keyring()
    refusal(ring, header)
    ring.reload([row])
    assert ring.identify(header).name == "desk"
    assert ring.find(row.id) == ring.identify(header)
    ring.reload([row._replace(revoked=1.0)])
    refusal(ring, header)
    assert ring.find(row.id) is None


def test_an_unreadable_row_has_no_scopes_and_does_not_affect_other_keys() -> None:
    (plain, row), (other, broken) = make_key("desk", ["*:read"]), make_key("odd", ["*:read"])
    ring = Keyring([broken._replace(scopes="triage:fly *:read"), row])
    assert ring.identify(f"Bearer {plain}".encode()).allows("triage", "read")
    assert not ring.identify(f"Bearer {other}".encode()).allows("triage", "read")


# --- the commands ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "example"), [(name, example) for name, _, example in commands.COMMANDS])
def test_every_command_has_an_example_and_json_output(name: str, example: str) -> None:
    shown = CliRunner().invoke(app, ["keys", name, "--help"], env=WIDE).output
    assert f"Example: {example}" in shown
    assert example.startswith(f"releaf keys {name}")
    assert "--json" in shown
    assert "RELEAF_STORE" in shown


def run(*arguments: str | Path, expect: int = 0, default: Path | None = None) -> Any:
    given = ["keys", *(str(argument) for argument in arguments)]
    result = CliRunner().invoke(app, given, env={**WIDE, "RELEAF_STORE": None if default is None else str(default)})
    assert result.exit_code == expect, result.output + result.stderr
    return result


def told(*arguments: str | Path, default: Path | None = None) -> Any:
    return json.loads(run(*arguments, "--json", default=default).stdout)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "releaf.db"


def test_a_key_is_shown_once_listed_and_revoked(store: Path) -> None:
    shown = run("add", "desk", "--scope", "triage:decide", "--scope", "triage:reward", "--store", store).stdout
    plain = shown.splitlines()[0]
    assert "not shown again" in shown
    public, secret = plain.split("_")[1:]
    listed = run("list", "--store", store).stdout
    assert public in listed
    assert "triage:decide triage:reward" in listed
    assert secret not in listed
    assert secret.encode() not in b"".join(path.read_bytes() for path in store.parent.iterdir() if path.is_file())
    assert f"The key {public} is revoked." in run("revoke", public, "--store", store).stdout
    (row,) = told("list", "--store", store)
    assert (row["id"], row["scopes"]) == (public, ["triage:decide", "triage:reward"])
    assert row["revoked"] >= row["created"]


def test_commands_print_json(store: Path) -> None:
    made = told("add", "desk", "--scope", "*:admin", "--store", store)
    assert made.keys() == {"key", "id", "name", "scopes", "created", "revoked"}
    assert made["key"].split("_")[1] == made["id"]
    (row,) = told("list", "--store", store)
    assert row == {name: value for name, value in made.items() if name != "key"}
    assert told("revoke", made["key"], "--store", store) == {"id": made["id"], "revoked": True}  # the whole key will do


def test_the_store_can_come_from_the_environment(store: Path) -> None:
    made = told("add", "desk", "--scope", "*:read", default=store)
    assert [row["id"] for row in told("list", default=store)] == [made["id"]]


def test_a_wrong_scope_makes_no_key_and_no_store(store: Path) -> None:
    result = run("add", "desk", "--scope", "triage:write", "--store", store, expect=1)
    assert "scope is 'triage:write': expected experiment:scope" in result.stderr
    assert not store.exists()
    assert "--scope" in run("add", "desk", "--store", store, expect=2).stderr


def test_reading_a_missing_store_does_not_create_it(store: Path) -> None:
    for arguments in (("list",), ("revoke", "Ab12Cd34")):
        assert "there is no store" in run(*arguments, "--store", store, expect=1).stderr
    assert not store.exists()


def test_a_store_without_keys_says_what_to_do_next(store: Path) -> None:
    run("add", "desk", "--scope", "*:read", "--store", store)
    store.with_name("empty.db").touch()
    assert "Next: releaf keys add" in run("list", "--store", store.with_name("empty.db")).stdout


def test_revoking_an_unknown_key_is_an_error(store: Path) -> None:
    made = told("add", "desk", "--scope", "*:read", "--store", store)
    assert "no valid key Ab12Cd34" in run("revoke", "Ab12Cd34", "--store", store, expect=1).stderr
    run("revoke", made["id"], "--store", store)
    assert "no valid key" in run("revoke", made["id"], "--store", store, expect=1).stderr  # and not twice


def test_damage_of_the_store_is_reported(store: Path) -> None:
    store.write_bytes(b"no database" * 1_000)
    result = run("list", "--store", store, expect=1)
    assert str(store) in result.stderr.replace("\n", "")


def test_errors_do_not_contain_the_password_of_an_address() -> None:
    result = run("list", "--store", "postgresql://releaf:hunter2@localhost:1/releaf", expect=1)
    assert "hunter2" not in result.output + result.stderr


def test_a_store_that_fails_to_open_is_an_error(tmp_path: Path) -> None:
    result = run("add", "desk", "--scope", "*:read", "--store", tmp_path / "nowhere" / "releaf.db", expect=1)
    assert "nowhere" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_running_service_sees_keys_that_another_process_adds_and_revokes(store: Path) -> None:
    def releaf(*arguments: str) -> Any:
        command = [sys.executable, "-m", "releaf", "keys", *arguments, "--store", str(store), "--json"]
        return json.loads(subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout)

    async def service() -> None:
        opened = open_store(str(store))
        await opened.open()
        experiment = await opened.create("triage", 1.0, b"{}", b"state")
        assert await opened.acquire(experiment.id)
        ring = Keyring(await opened.keys())
        made = await asyncio.to_thread(releaf, "add", "desk", "--scope", "triage:decide")
        header = f"Bearer {made['key']}".encode()
        refusal(ring, header)
        ring.reload(await opened.keys())
        assert ring.identify(header).allows("triage", "decide")
        await asyncio.to_thread(releaf, "revoke", made["id"])
        ring.reload(await opened.keys())
        refusal(ring, header)
        await opened.close()

    asyncio.run(service())
