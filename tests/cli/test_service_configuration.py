"""Settings of `releaf serve`: options, environment variables and a file, in this order, and --print-config."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import httpx
import pytest
from running_service import run_service
from typer.testing import CliRunner

from releaf.cli import app
from releaf.service.settings import ServiceSettings


def invoke(*arguments: str, environment: Mapping[str, str] | None = None) -> Any:
    return CliRunner().invoke(app, ["serve", *arguments], env=dict(environment or {}))


def printed(*arguments: str, environment: Mapping[str, str] | None = None) -> str:
    result = invoke(*arguments, "--print-config", environment=environment)
    assert result.exit_code == 0, result.output
    return str(result.stdout)


def sources(text: str) -> dict[str, str]:
    """The comment of each setting."""
    return {line.split(" = ")[0]: line.rsplit("  # ", 1)[1] for line in text.splitlines()}


def failure(*arguments: str) -> str:
    result = invoke(*arguments)
    assert result.exit_code == 1, result.output
    return " ".join(result.output.split())


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return tmp_path / "service.toml"


def test_defaults_are_printed_as_toml_with_their_source() -> None:
    text = printed()
    values, defaults = tomllib.loads(text), asdict(ServiceSettings())
    assert set(sources(text).values()) == {"default"}
    assert values.pop("name") == values.pop("trusted_proxy") == []
    assert values.pop("log_level") == "INFO"
    assert values.pop("client_connection_limit") == 1024
    assert values == {name: value for name, value in defaults.items() if name in values}
    once = {"salvage"}  # an option that nobody should set for good
    assert set(defaults) - set(values) == {"hosts", "trusted_proxies", "client_connection_limit"} | once


def test_an_option_overrides_the_environment_which_overrides_the_file_which_overrides_the_default(
    config: Path,
) -> None:
    config.write_text("batch_limit = 11\nfeed_limit = 11\nrate_limit = 11\n")
    environment = {"RELEAF_CONFIG": str(config), "RELEAF_BATCH_LIMIT": "22", "RELEAF_FEED_LIMIT": "22"}
    text = printed("--batch-limit", "33", environment=environment)
    values = tomllib.loads(text)
    assert [values[name] for name in ("batch_limit", "feed_limit", "rate_limit")] == [33, 22, 11.0]
    told = sources(text)
    assert told["batch_limit"] == "option --batch-limit"
    assert told["feed_limit"] == "environment RELEAF_FEED_LIMIT"
    assert told["rate_limit"] == f'file "{config}"'
    assert told["port"] == "default"


def test_every_setting_has_a_variable_and_a_name_in_the_file(config: Path) -> None:
    other: dict[str, Any] = {
        "store": "other.db",
        "host": "::1",
        "port": 9,
        "name": ["a.example", "b.example:81"],
        "require_keys": True,
        "trusted_proxy": ["10.0.0.7", "10.1.0.0/16"],
        "log_format": "text",
        "log_level": "DEBUG",
        "personalizer": "dishes",
    }
    other |= {name: value + 7 for name, value in tomllib.loads(printed()).items() if name not in other}
    environment = {
        f"RELEAF_{name.upper()}": " ".join(value) if isinstance(value, list) else str(value)
        for name, value in other.items()
    }
    text = printed(environment=environment)
    assert tomllib.loads(text) == other
    assert all(source.startswith("environment RELEAF_") for source in sources(text).values())
    config.write_text(text)
    again = printed("--config", str(config))
    assert tomllib.loads(again) == other
    assert set(sources(again).values()) == {f'file "{config}"'}


@pytest.mark.parametrize(
    "store", ["postgresql://releaf:hunter2@db/releaf", "postgresql://db/releaf?user=a&password=hunter2"]
)
def test_passwords_are_masked(store: str) -> None:
    for text in (printed("--store", store), printed(environment={"RELEAF_STORE": store})):
        assert "hunter2" not in text
        assert tomllib.loads(text)["store"] == store.replace("hunter2", "***")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("rate_limt = 3", "unknown setting 'rate_limt': did you mean 'rate_limit'?"),
        ("rate-limit = 3", "unknown setting 'rate-limit': did you mean 'rate_limit'?"),
        ("config = 'x.toml'", "unknown setting 'config': expected one of store, host, port,"),
        ("[http]\nport = 3", "unknown setting 'http':"),
        ("port = true", "port is True: expected a whole number"),
        ("port = 80.5", "port is 80.5: expected a whole number"),
        ("port = 70000", "port is 70000: "),
        ("read_timeout = 0", "read_timeout is 0: "),
        ("client_connection_limit = 0", "client_connection_limit is 0: "),
        ("client_connection_limit = 'all'", "client_connection_limit is 'all': expected a whole number"),
        ("rate_limit = '3'", "rate_limit is '3': expected a number"),
        ("require_keys = 1", "require_keys is 1: expected true or false"),
        ("name = 'public.example'", "name is 'public.example': expected a list of texts"),
        ("store = ['postgresql://a:hunter2@db']", "store is ['postgresql://a:***@db']: expected a text"),
        ("port =", "is not valid TOML"),
    ],
)
def test_an_invalid_file_is_an_error_that_names_the_file_and_the_setting(config: Path, line: str, message: str) -> None:
    config.write_text(line + "\n")
    told = failure("--config", str(config), "--print-config")
    assert "service.toml" in told
    assert message in told


@pytest.mark.parametrize("wrong", ["proxy.example", "10.0.0.1/8", "10.0.0.0/33", "*", ""])
def test_a_trusted_proxy_is_an_address_or_a_network(wrong: str) -> None:
    told = failure("--trusted-proxy", wrong, "--print-config")
    assert f"trusted_proxy is {wrong!r}: expected an address or a network such as 10.1.0.0/16" in told


@pytest.mark.parametrize("wrong", ["two words", "a/b", "-dish", "x" * 65])
def test_the_experiment_for_personalizers_api_has_the_name_of_one(wrong: str) -> None:
    told = failure(f"--personalizer={wrong}", "--print-config")
    assert f"personalizer is {wrong!r}: expected the name of an experiment" in told


def test_the_connection_limit_of_a_client_is_a_quarter_by_default() -> None:
    for limit, share in ((4096, 1024), (10, 2), (1, 1)):
        assert tomllib.loads(printed("--connection-limit", str(limit)))["client_connection_limit"] == share
    assert tomllib.loads(printed("--client-connection-limit", "7"))["client_connection_limit"] == 7


def test_a_missing_file_is_an_error(config: Path) -> None:
    assert "there is no file" in failure("--config", str(config))


def test_the_service_runs_with_the_settings_of_all_sources(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[ServiceSettings] = []
    monkeypatch.setattr("releaf.service.app.serve", lambda settings, level: given.append(settings))
    config.write_text("write_timeout = 2.5\nname = ['public.example']\n")
    result = invoke("--config", str(config), "--port", "9", environment={"RELEAF_BATCH_LIMIT": "22"})
    assert result.exit_code == 0, result.output
    (settings,) = given
    assert (settings.write_timeout, settings.hosts) == (2.5, ("public.example",))
    assert (settings.port, settings.batch_limit) == (9, 22)


def test_a_process_reads_its_file(tmp_path: Path, config: Path) -> None:
    config.write_text("require_keys = true\n")
    with run_service(tmp_path, "--config", str(config)) as url:
        assert httpx.get(f"{url}/v1/experiments", trust_env=False).status_code == 401


@pytest.mark.parametrize("option", ["lease_timeout", "rate_limit", "write_timeout", "drain_seconds"])
@pytest.mark.parametrize("value", ["inf", "nan"])
def test_numbers_are_finite(option: str, value: str) -> None:
    result = invoke("--print-config", environment={f"RELEAF_{option.upper()}": value})
    assert result.exit_code != 0
    assert option.replace("_", "-") in result.output or f"{option} is {value}: expected a finite" in result.output


def test_a_variable_that_is_no_setting_is_named_with_the_nearest_one() -> None:
    environment = {"RELEAF_BATCH_LIMITS": "7", "RELEAF_FROBNICATE": "x", "RELEAF_KEY": "k", "RELEAF_SERVICE_HOST": "h"}
    told = invoke("--print-config", environment=environment).stderr.splitlines()
    assert told == [
        "the environment variable RELEAF_BATCH_LIMITS is no setting, and is ignored: did you mean RELEAF_BATCH_LIMIT?",
        "the environment variable RELEAF_FROBNICATE is no setting, and is ignored: releaf serve --help lists all",
    ]
