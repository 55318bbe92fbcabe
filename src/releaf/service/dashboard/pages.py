"""The dashboard: pages for people, made of templates and a few scripts of our own, that get all data from the API.

Pages hold no data beyond an experiment's name, so they can be given to anyone; the API asks for the key. Nothing comes
from another host, and the content security policy allows neither inline scripts and styles nor ``eval``.
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
from releaf.service.auth.access_control import PAGE_HEADERS
from releaf.service.dashboard.vega import Drawing

__all__ = ["routes"]

HERE = Path(__file__).parent
KINDS = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
OF_PAGES = {name.decode(): value.decode() for name, value in PAGE_HEADERS}
OF_FILES = {**OF_PAGES, "cache-control": "no-cache"}  # kept by browsers, which ask whether it has changed


def routes(*, needs_keys: bool = False) -> list[Route]:
    """The pages, and the files that they consist of.

    Parameters
    ----------
    needs_keys
        Whether every request needs a key: the pages then offer to sign out, and their examples show where the key goes.
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
    drawing = Drawing()
    shown = [
        Route(path, partial(_page, templates, template, drawing), methods=["GET"], include_in_schema=False)
        for path, template in pages.items()
    ]
    files = [
        Route(f"/static/{path.name}", _File(path), methods=["GET"], include_in_schema=False)
        for path in sorted((HERE / "static").iterdir())
        if path.suffix in KINDS
    ]
    return [*shown, *files, Route("/static/vega.js", drawing, methods=["GET"], include_in_schema=False)]


async def _page(templates: Environment, template: str, drawing: Drawing, request: Request) -> Response:
    drawing.begin()  # whoever looks at a page will soon want to see charts
    known: dict[str, Any] = {"name": request.path_params.get("name", ""), "failed": "failed" in request.query_params}
    body = templates.get_template(template).render(known)
    return Response(body, media_type="text/html", headers=OF_PAGES)


class _File:
    """A file of the package, read once; a browser that has it already is told so."""

    def __init__(self, path: Path) -> None:
        self.body = path.read_bytes()
        self.kind = KINDS[path.suffix]
        self.tag = f'"{hashlib.sha256(self.body).hexdigest()[:32]}"'

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        request = Request(scope)
        headers = {**OF_FILES, "ETag": self.tag}
        if self.tag in request.headers.get("if-none-match", ""):
            response = Response(status_code=304, headers=headers)
        else:
            response = Response(self.body, media_type=self.kind, headers=headers)
        await response(scope, receive, send)
