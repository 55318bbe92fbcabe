"""The script that draws the charts, out of the bundle that vl-convert carries: made once, when it is first needed."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

PROGRAM = "import sys, vl_convert; sys.stdout.buffer.write(vl_convert.javascript_bundle(None).encode())"


@dataclass(frozen=True, slots=True)
class Bundle:
    """The script as it is and compressed, with a tag that changes when it does."""

    plain: bytes
    compressed: bytes
    tag: str


async def make_bundle() -> Bundle:
    """Vega-Embed with all it needs: some seconds, in a process of its own, since making it holds the interpreter."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-c", PROGRAM), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        script, errors = await process.communicate()
    finally:
        if process.returncode is None:  # the service ends meanwhile
            process.kill()
    if process.returncode != 0 or not script:
        raise RuntimeError(f"vl-convert did not give its bundle: {errors.decode(errors='replace').strip()[-500:]}")
    compressed = await run_in_threadpool(gzip.compress, script, mtime=0)
    return Bundle(script, compressed, hashlib.sha256(script).hexdigest()[:32])


class Drawing:
    """Answers with the bundle."""

    def __init__(self) -> None:
        self._bundle: asyncio.Task[Bundle] | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        response = await self._answer(Request(scope))
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        bundle = await asyncio.shield(self.begin())
        small = "gzip" in request.headers.get("accept-encoding", "")
        tag = f'"{bundle.tag}{"-gzip" if small else ""}"'  # a strong tag names the very bytes
        headers = {
            "ETag": tag,
            "Vary": "Accept-Encoding",
            "Cache-Control": "no-cache",
            "X-Content-Type-Options": "nosniff",
        }
        if tag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        if small:
            headers["Content-Encoding"] = "gzip"
        return Response(bundle.compressed if small else bundle.plain, media_type="text/javascript", headers=headers)

    def begin(self) -> asyncio.Task[Bundle]:
        """Made once, also when many ask at the same time; made again after a failure."""
        if self._bundle is None or (self._bundle.done() and not self._succeeded(self._bundle)):
            self._bundle = asyncio.create_task(make_bundle())
        return self._bundle

    @staticmethod
    def _succeeded(task: asyncio.Task[Bundle]) -> bool:
        return not task.cancelled() and task.exception() is None
