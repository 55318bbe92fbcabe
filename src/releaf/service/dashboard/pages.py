"""Pages of the dashboard: templates and scripts that read all data from the API.

Pages contain no data beyond an experiment's name, so they need no key; the API does. They load nothing from other
hosts, and the content security policy allows neither inline scripts and styles nor ``eval``.
"""

from __future__ import annotations

import hashlib
from functools import partial
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from releaf._version import __version__
from releaf.service.dashboard.vega import VegaScript
from releaf.service.http.security_headers import PAGE_HEADERS

__all__ = ["routes"]

HERE = Path(__file__).parent
MEDIA_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
HTML_HEADERS = {name.decode(): value.decode() for name, value in PAGE_HEADERS}
FILE_HEADERS = {**HTML_HEADERS, "cache-control": "no-cache"}  # browsers cache files and revalidate them


def routes(*, needs_keys: bool = False) -> list[Route]:
    """Routes of the pages and their static files.

    Parameters
    ----------
    needs_keys
        Whether every request needs a key: then pages have a log-out button, and their examples contain the key.
    """
    templates = Environment(
        loader=FileSystemLoader(HERE / "templates"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    templates.globals.update(version=__version__, needs_keys=needs_keys)
    pages = {
        "/": "experiments.html",
        "/new": "new.html",
        "/experiments/{name}": "experiment.html",
        "/login": "login.html",
    }
    vega = VegaScript()
    page_routes = [
        Route(path, partial(_page, templates, template, vega), methods=["GET"], include_in_schema=False)
        for path, template in pages.items()
    ]
    files = [
        Route(f"/static/{path.name}", _StaticFile(path), methods=["GET"], include_in_schema=False)
        for path in sorted((HERE / "static").iterdir())
        if path.suffix in MEDIA_TYPES
    ]
    return [*page_routes, *files, Route("/static/vega.js", vega, methods=["GET"], include_in_schema=False)]


async def _page(templates: Environment, template: str, vega: VegaScript, request: Request) -> Response:
    vega.prepare()  # the page will soon request it
    variables: dict[str, Any] = {
        "name": request.path_params.get("name", ""),
        "failed": "failed" in request.query_params,
    }
    body = templates.get_template(template).render(variables)
    return Response(body, media_type="text/html", headers=HTML_HEADERS)


class _StaticFile:
    """A static file, read once and served with an ETag."""

    def __init__(self, path: Path) -> None:
        self.body = path.read_bytes()
        self.media_type = MEDIA_TYPES[path.suffix]
        self.tag = f'"{hashlib.sha256(self.body).hexdigest()[:32]}"'

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        request = Request(scope)
        headers = {**FILE_HEADERS, "ETag": self.tag}
        if self.tag in request.headers.get("if-none-match", ""):
            response = Response(status_code=304, headers=headers)
        else:
            response = Response(self.body, media_type=self.media_type, headers=headers)
        await response(scope, receive, send)
