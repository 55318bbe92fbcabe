"""Examples, exit codes and cross-references that `--help` and the reference show of each command."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from rich.markup import escape

EXAMPLE, EXIT_CODE, SEE_ALSO = "Example: ", "Exit code: ", "See also: "
# Of every command. 3 is uvicorn's, 130 and 143 are 128 and the number of the signal.
EXIT_CODES = {
    0: "success",
    1: "an error, which is on stderr; or a check that failed, or rows that were unusable",
    2: "a wrong option or argument; nothing was done",
    3: "`releaf serve` could not start",
    130: "stopped by Ctrl-C",
    143: "stopped by SIGTERM, except `releaf serve`, which ends with 0",
}
USUAL = "0, or 1 if it fails"


class CommandManual(NamedTuple):
    """A command with what its `--help` shows beside its options.

    Attributes
    ----------
    command
        The function.
    panel
        The heading under which `releaf --help` lists it.
    example
        A command line that works; those on files take what `releaf sample` and the commands before have written.
    see_also
        Related commands.
    exit_code
        Its exit codes where they say more than that it failed.
    """

    command: Callable[..., None]
    panel: str
    example: str
    see_also: tuple[str, ...] = ()
    exit_code: str = USUAL

    @property
    def description(self) -> str:
        """The docstring, one line a paragraph."""
        return paragraphs(self.command)

    @property
    def epilog(self) -> str:
        """The end of its help."""
        return epilog(self.example, self.see_also, self.exit_code)


def paragraphs(command: Callable[..., None]) -> str:
    """A docstring with one line a paragraph: Typer would break lines where the source does."""
    return "\n\n".join(" ".join(part.split()) for part in (command.__doc__ or "").split("\n\n"))


def epilog(example: str, see_also: tuple[str, ...] = (), exit_code: str = USUAL) -> str:
    """The lines that end a help text. Typer joins single line breaks, and makes one of two."""
    lines = [EXAMPLE + escape(example), f"{EXIT_CODE}{exit_code}; 2 for a wrong option or argument."]
    if see_also:
        lines.append(SEE_ALSO + ", ".join(f"releaf {name}" for name in see_also))
    return "\n\n".join(lines)


def parts_of(epilog: str | None) -> dict[str, str]:
    """The lines of an epilog by what begins them."""
    lines = (epilog or "").replace("\\[", "[").split("\n\n")
    return {
        start: line.removeprefix(start) for line in lines for start in (EXAMPLE, EXIT_CODE, SEE_ALSO) if start in line
    }
