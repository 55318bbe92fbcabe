"""The Vega-Embed script, bundled from vl-convert when a page first needs it."""

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
class ScriptBundle:
    """The script, plain and compressed, with an ETag."""

    plain: bytes
    compressed: bytes
    tag: str


async def make_bundle() -> ScriptBundle:
    """Bundle Vega-Embed with its dependencies, in a subprocess: it takes seconds and holds the interpreter's lock."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-c", PROGRAM), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        script, errors = await process.communicate()
    finally:
        if process.returncode is None:  # the service is stopping
            process.kill()
    if process.returncode != 0 or not script:
        raise RuntimeError(f"vl-convert failed to bundle Vega-Embed: {errors.decode(errors='replace').strip()[-500:]}")
    compressed = await run_in_threadpool(gzip.compress, script, mtime=0)
    return ScriptBundle(script, compressed, hashlib.sha256(script).hexdigest()[:32])


class VegaScript:
    """ASGI application that serves the bundle."""

    def __init__(self) -> None:
        self._bundle: asyncio.Task[ScriptBundle] | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        response = await self._answer(Request(scope))
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        bundle = await asyncio.shield(self.prepare())
        small = "gzip" in request.headers.get("accept-encoding", "")
        tag = f'"{bundle.tag}{"-gzip" if small else ""}"'  # a strong ETag identifies the bytes
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

    def prepare(self) -> asyncio.Task[ScriptBundle]:
        """Start to make the bundle, once for all requests; again after a failure."""
        if self._bundle is None or (self._bundle.done() and not self._succeeded(self._bundle)):
            self._bundle = asyncio.create_task(make_bundle())
        return self._bundle

    @staticmethod
    def _succeeded(task: asyncio.Task[ScriptBundle]) -> bool:
        return not task.cancelled() and task.exception() is None
