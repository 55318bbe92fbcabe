"""The examples for containers are well-formed, and name commands, options and files that there are."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml
from running_service import run_service
from typer.main import get_command

from releaf.cli import app

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
INSTRUCTIONS = re.findall(
    r"^([A-Z]+) (.*)$",
    (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " "),
    flags=re.MULTILINE,
)


def require_command(words: list[str]) -> None:
    """Raise unless the words are a command of releaf with options that it has."""
    group: Any = get_command(app)
    command = group.commands[words[0]]
    known = {option for parameter in command.params for option in parameter.opts}
    given = {word for word in words if word.startswith("--")}
    assert given <= known, f"releaf {words[0]} has no {', '.join(given - known)}"


def test_the_image_runs_a_command_that_there_is_as_somebody_without_rights() -> None:
    last = dict(INSTRUCTIONS)
    assert json.loads(last["ENTRYPOINT"]) == ["releaf"]
    require_command(json.loads(last["CMD"]))
    assert last["USER"] not in ("root", "0")
    assert ("RUN", "releaf warmup") in INSTRUCTIONS
    for name, rest in INSTRUCTIONS:
        if name == "COPY" and "--from" not in rest:
            *sources, _ = rest.split()
            assert all((ROOT / source).exists() for source in sources), rest


def test_its_health_check_finds_a_service_that_lives(tmp_path: Path) -> None:
    check = dict(INSTRUCTIONS)["HEALTHCHECK"]
    _, *command = json.loads(check[check.index("CMD ") + 4 :])
    with run_service(tmp_path) as url:
        alive = [part.replace("http://127.0.0.1:8000", url) for part in command]
        assert subprocess.run([sys.executable, *alive], timeout=60).returncode == 0
    assert subprocess.run([sys.executable, *alive], timeout=60, stderr=subprocess.DEVNULL).returncode != 0


def test_the_services_are_complete() -> None:
    services, volumes, secrets = COMPOSE["services"], COMPOSE["volumes"], COMPOSE["secrets"]
    assert set(services) == {"postgres", "service", "standby"}
    for service in services.values():
        assert set(service.get("secrets", ())) <= set(secrets)
        assert set(service.get("depends_on", ())) <= set(services)
        assert all(volume.partition(":")[0] in volumes for volume in service.get("volumes", ()))
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))
    assert "healthcheck" in services["postgres"]
    assert services["service"]["ports"] != services["standby"]["ports"]
    for name in ("service", "standby"):
        require_command(services[name]["command"])
    assert not re.search(r"(?i)password\s*[:=]\s*[^/\s]", json.dumps(services))


def test_the_password_comes_from_its_file(tmp_path: Path) -> None:
    """The entry point, run by a real shell with a program that shows what releaf would be given."""
    (tmp_path / "password").write_text("s3cret\n")
    (tmp_path / "releaf").write_text('#!/bin/sh\necho "$RELEAF_STORE" "$@"\n')
    (tmp_path / "releaf").chmod(0o755)
    entry = COMPOSE["services"]["service"]["entrypoint"]
    words = [
        word.replace("$$", "$").replace("/run/secrets/postgres-password", str(tmp_path / "password")) for word in entry
    ]
    variables = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run([*words, "serve", "--port", "1"], env=variables, capture_output=True, text=True, timeout=60)
    assert done.stdout == "postgresql://releaf:s3cret@postgres/releaf serve --port 1\n", done.stderr
