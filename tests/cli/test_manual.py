"""What `--help` says of each command holds: examples run, exit codes are those that come, completion completes."""

from __future__ import annotations

import importlib
import io
import itertools
import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from console_blocks import console_environment
from rich.console import Console
from running_service import free_port, run_service, start_service
from typer.main import get_command

import releaf
from releaf.cli import COMMANDS, app
from releaf.cli.manual import EXAMPLE, EXIT_CODE, EXIT_CODES, parts_of
from releaf.client import Client

pytestmark = pytest.mark.xdist_group("examples")  # one worker runs the examples
# The commands that take long cold or warm, which tests of their own run.
RUN_ELSEWHERE = {"demo", "serve", "warmup"}
VERBS = {
    *(
        "Compile",
        "Create",
        "Diagnose",
        "Erase",
        "Estimate",
        "Explain",
        "Export",
        "Give",
        "Guess",
        "Learn",
        "List",
        "Print",
    ),
    *("Read", "Replay", "Revoke", "Run", "Serve", "Show", "Train", "Write"),
}


def all_commands(group: Any, before: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, command in group.commands.items():
        more = all_commands(command, f"{before}{name} ") if hasattr(command, "commands") else {before + name: command}
        found |= more
    return found


ALL = all_commands(get_command(app))
EXAMPLES = {name: parts_of(command.epilog)[EXAMPLE] for name, command in ALL.items()}


def shell(line: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command line as a person would type it."""
    program = f'releaf() {{ "{sys.executable}" -m releaf "$@"; }}\n{line}'
    environment = console_environment() | variables
    return subprocess.run(
        ["bash", "-c", program], cwd=folder, env=environment, capture_output=True, text=True, timeout=600
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the examples of files have run in their order."""
    made = tmp_path_factory.mktemp("examples")
    for manual in COMMANDS:
        name = manual.example.split("releaf ")[-1].split()[0] if "|" in manual.example else manual.example.split()[1]
        if name in RUN_ELSEWHERE:
            continue
        done = shell(manual.example, made)
        assert done.returncode == 0, f"$ {manual.example}\n{done.stdout}\n{done.stderr}"
    return made


def test_every_example_on_files_works_after_sample_in_the_order_of_the_help(folder: Path) -> None:
    names = {"clicks.csv", "clicks.releaf", "schema.toml", "relevance.png", "decisions.csv", "policy.json"}
    assert names <= {path.name for path in folder.iterdir()}
    assert len((folder / "decisions.csv").read_text().splitlines()) == 4


def test_the_example_of_reward_rewards_decisions_of_the_example_of_decide(folder: Path) -> None:
    assert releaf.load(folder / "clicks.releaf").pending == 1


def test_the_examples_of_keys_and_the_store_work_on_a_store_with_an_experiment(tmp_path: Path) -> None:
    with run_service(tmp_path) as url, Client(url) as client:
        client.create("triage", actions=["home", "ward"], features=["age"])
        client.decide("triage", [0.5])
    examples = {name: line for name, line in EXAMPLES.items() if name.split()[0] in ("keys", "store")}
    assert len(examples) == 10
    for name, line in examples.items():
        if name == "keys revoke":
            listed = shell("releaf keys list --json", tmp_path).stdout
            line = line.replace("Ab12Cd34", re.findall(r'"id": "(\w+)"', listed)[0])
        done = shell(line, tmp_path)
        assert done.returncode == 0, f"$ {line}\n{done.stdout}\n{done.stderr}"
    assert (tmp_path / "triage.parquet").stat().st_size > 0


@pytest.mark.parametrize("name", ALL)
def test_every_help_ends_with_an_example_its_exit_codes_and_begins_with_a_verb(name: str) -> None:
    parts = parts_of(ALL[name].epilog)
    assert f"releaf {name}" in parts[EXAMPLE]
    assert parts[EXIT_CODE].startswith("0")
    first = str(ALL[name].help).split()[0]
    assert first in VERBS


@pytest.mark.parametrize("name", ALL)
def test_related_commands_exist(name: str) -> None:
    related = re.findall(r"releaf ([a-z]+)", parts_of(ALL[name].epilog).get("See also: ", ""))
    assert set(related) <= set(get_command(app).commands)  # type: ignore[attr-defined]


# --- exit codes -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "code", "stream"),
    [
        ("releaf --version", 0, ""),
        ("releaf schema none.csv", 1, "there is no file none.csv"),
        ("releaf store check none.db", 1, "there is no store none.db"),
        ("releaf demo --seeds 0", 2, "--seeds"),
        ("releaf trian log.csv", 2, "No such command"),
        ("releaf serve --log-format yaml", 1, "--log-format is 'yaml'"),
        ("releaf serve --store none/there/releaf.db", 3, ""),
    ],
)
def test_the_exit_code_tells_success_failure_and_wrong_usage(line: str, code: int, stream: str, tmp_path: Path) -> None:
    assert code in EXIT_CODES
    done = shell(line, tmp_path)
    assert (done.returncode, done.stdout if code else "") == (code, ""), done.stderr
    assert stream in " ".join(done.stderr.split())


def test_a_row_that_cannot_be_used_is_exit_code_1(folder: Path) -> None:
    done = shell("printf 'id,reward\\nx,1\\n' | releaf reward clicks.releaf -o other.releaf", folder)
    assert done.returncode == 1
    assert "id is 'x'" in done.stderr


def test_a_service_that_gets_sigterm_ends_with_0(tmp_path: Path) -> None:
    process = start_service(tmp_path, free_port())
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0


def test_ctrl_c_is_exit_code_130(folder: Path) -> None:
    """The signal comes when the command waits for its input."""
    command = [sys.executable, "-m", "releaf", "decide", "clicks.releaf"]
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        command, cwd=folder, env=console_environment(), stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0
    )
    assert process.stdin is not None
    assert process.stdout is not None
    lines = (folder / "clicks.csv").read_bytes().splitlines(keepends=True)
    process.stdin.write(b"".join(lines[:1_000]))
    assert process.stdout.readline().startswith(b"line,id")
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    process.communicate()


# --- terminal -------------------------------------------------------------------------------------------------

COLOUR = re.compile(r"\x1b\[[0-9;]*?(?:3[0-7]|4[0-7]|9[0-7]|38;|48;)")


def in_terminal(line: str, folder: Path, **variables: str) -> str:
    """What a command prints where its output is a terminal."""
    primary, secondary = pty.openpty()
    environment = {**console_environment(), "TERM": "xterm-256color", **variables}
    environment = {name: value for name, value in environment.items() if value}
    process = subprocess.Popen(
        [sys.executable, "-m", "releaf", *line.split()],
        cwd=folder,
        env=environment,
        stdout=secondary,
        stderr=secondary,
        close_fds=True,
    )
    os.close(secondary)
    shown = b""
    while True:
        try:
            part = os.read(primary, 65_536)
        except OSError:  # Linux tells the end of a terminal so
            break
        if not part:
            break
        shown += part
    os.close(primary)
    assert process.wait(60) == 0, shown.decode()
    return shown.decode()


def test_a_terminal_has_colours_and_progress_and_pipes_have_none(folder: Path) -> None:
    line = "train clicks.csv -o again.releaf --skip-bad"
    shown = in_terminal(line, folder, NO_COLOR="")
    assert COLOUR.search(shown)
    assert "learning from clicks.csv" in shown
    done = shell(f"releaf {line}", folder)
    assert "\x1b" not in done.stdout + done.stderr
    assert "learning from" not in done.stderr


@pytest.mark.parametrize(("seconds", "rate"), [(0.001, "1,000/s"), (1.0, "1/s"), (4.0, "4.0 s each")])
def test_progress_shows_its_rate_and_the_remaining_time(
    seconds: float, rate: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Console(file=io.StringIO(), force_terminal=True, width=120)
    commands = importlib.import_module("releaf.cli.console")  # the package has a console, too
    monkeypatch.setattr(commands, "errors", terminal)
    bar, now = commands.progress_bar(), itertools.count(0.0, seconds)
    monkeypatch.setattr(bar, "get_time", lambda: next(now))
    task = bar.add_task("learning", total=20)
    for _ in range(10):
        bar.update(task, advance=1)
    with terminal.capture() as shown:
        terminal.print(bar.get_renderable())
    assert rate in shown.get()
    assert "10/20" in shown.get()
    assert re.search(r"\d:\d\d:\d\d", shown.get())


@pytest.mark.parametrize("line", ["--help", "doctor", "train clicks.csv -o again.releaf --skip-bad"])
def test_no_color_takes_the_colours_from_a_terminal(line: str, folder: Path) -> None:
    assert not COLOUR.search(in_terminal(line, folder, NO_COLOR="1"))


# --- completion -----------------------------------------------------------------------------------------------


def completions(words: str, folder: Path) -> list[str]:
    """What bash would offer for the last of these words."""
    environment = console_environment() | {
        "_RELEAF_COMPLETE": "complete_bash",
        "COMP_WORDS": f"releaf {words}",
        "COMP_CWORD": str(len(words.split(" "))),
    }
    program = "from releaf.cli import app; app(prog_name='releaf')"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, env=environment, capture_output=True, text=True, timeout=120
    )
    return done.stdout.split()


def test_commands_and_options_are_completed(tmp_path: Path) -> None:
    assert completions("tr", tmp_path) == ["train"]
    assert completions("train --sk", tmp_path) == ["--skip-bad"]
    assert "revoke" in completions("keys re", tmp_path)


def test_the_completion_of_a_shell_can_be_printed_and_installed(tmp_path: Path) -> None:
    variables = {"HOME": str(tmp_path), "SHELL": "/bin/bash"}
    program = (
        "import shellingham, sys; shellingham.detect_shell = lambda *a: ('bash', '/bin/bash');"
        "from releaf.cli import app; app(sys.argv[1:], prog_name='releaf')"
    )
    for option, found in (
        ("--show-completion", "complete -o default -F _releaf_completion releaf"),
        ("--install-completion", "installed in"),
    ):
        done = subprocess.run(
            [sys.executable, "-c", program, option],
            env=console_environment() | variables,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert found in done.stdout, done.stderr
    assert "releaf" in (tmp_path / ".bashrc").read_text()
