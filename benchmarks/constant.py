"""The same server (uvicorn, Starlette) answering a constant: what the service is measured against."""

from __future__ import annotations

import sys

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

ANSWER = (
    b'{"decision":1,"action":"benign","probability":1.0,"explored":false,"wants_reward":true,"deadline":null,'
    b'"estimates":{"benign":0.7,"malignant":0.2},"relevant":{"benign":["x0"],"malignant":["x0"]}}'
)


async def answer(request: Request) -> Response:
    await request.body()
    return Response(ANSWER, media_type="application/json")


app = Starlette(
    routes=[
        Route("/v1/experiments/{experiment}/decide", answer, methods=["POST"]),
        Route("/readyz", answer),
    ]
)

if __name__ == "__main__":
    port = int(sys.argv[1])
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning", access_log=False, proxy_headers=False)
