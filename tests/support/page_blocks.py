"""A documentation page: its blocks that run, each with the output shown directly after it, and its running text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

FILE = "{code-block} json\n:caption: "
BLOCK = re.compile(r"^```(\{code-block\} json\n:caption: [^\n]+|\w+)\n(.*?)^```\n*", flags=re.DOTALL | re.MULTILINE)
RUN = ("python", "console", FILE)
NOT_TEXT = re.compile(r"^```.*?^```|<!--.*?-->|^:::.*?$", re.DOTALL | re.MULTILINE)
MADE = re.compile(r"<!-- (.+?): begin -->.*?<!-- \1: end -->", re.DOTALL)  # tables with their captions
ROW_OR_TITLE = re.compile(r"^[|#].*$", re.MULTILINE)


class Block(NamedTuple):
    """A block of a page; ``shown`` is what the page says that it prints, or None if it says nothing."""

    kind: str
    content: str
    shown: str | None


def blocks(page: str) -> Iterator[Block]:
    """Blocks of Python, of commands, and files, in their order."""
    found = list(BLOCK.finditer(page))
    for block, following in pairwise([*found, None]):
        if block is not None and block[1].startswith(RUN):
            shows = following is not None and following[1] == "text" and following.start() == block.end()
            yield Block(block[1], block[2], following[2] if following is not None and shows else None)


def sentences(page: str) -> Iterator[str]:
    """Sentences of a page's running text, and of its lists; not of tables, their captions, titles and code."""
    text = ROW_OR_TITLE.sub("\n", NOT_TEXT.sub("\n\n", MADE.sub("", page)))
    for paragraph in re.split(r"\n\s*\n|^\s*(?:-|\d+\.) ", text, flags=re.MULTILINE):
        plain = re.sub(r"\]\([^)]*\)", "]", " ".join(paragraph.split()))
        yield from filter(None, re.split(r"(?<=[.?!:;])[*)\"”]*\s+", plain))


def words(page: str) -> set[str]:
    """Words of a page, in lower case; not of code, and not parts of words with a hyphen."""
    text = re.sub(r"`[^`]*`|\]\([^)]*\)", " ", NOT_TEXT.sub(" ", page))
    return {word.lower() for word in re.findall(r"(?<![\w-])[A-Za-z]+(?![\w-])", text)}


def shown_in(printed: str, shown: str) -> bool:
    """Whether these lines are what was printed.

    A line of an ellipsis stands for any number of lines, one at the end of a line for the rest of that line.
    Spaces at the ends of lines do not count.
    """
    lines = [line.rstrip() for line in shown.strip("\n").splitlines()]
    pattern = "".join(
        r"(?:.*\n)*" if line.strip() == "…" else re.escape(line.removesuffix("…").rstrip()) + _rest(line) + "\n"
        for line in lines
    )
    given = "".join(f"{line.rstrip()}\n" for line in printed.strip("\n").splitlines())
    return re.fullmatch(pattern, given) is not None


def _rest(line: str) -> str:
    return ".*" if line.endswith("…") else ""
