"""HTTP client of a running service that checks the status of every response."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from running_service import COMPILE_TIMEOUT_SECONDS, run_service

_numbers = itertools.count(1)


@contextmanager
def running_api(folder: Path, *options: str) -> Iterator[Api]:
    """A client of a service that is started for it."""
    with run_service(folder, *options) as url:
        api = Api(url)
        try:
            yield api
        finally:
            api.http.close()


class Api:
    """Requests to a service; each helper expects the answer that its name says."""

    def __init__(self, url: str, key: str | None = None) -> None:
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self.url = url
        self.http = httpx.Client(base_url=url, headers=headers, timeout=COMPILE_TIMEOUT_SECONDS, trust_env=False)

    def new(self, policy: str = "AdaptiveReleaf", actions: Any = ("a", "b"), features: Any = 2, **further: Any) -> str:
        """Create an experiment with a name of its own; its address is returned."""
        seeded = {} if "model" in further else {"seed": 0}  # a model has its own
        parameters = {**seeded, **further.pop("parameters", {})}
        name = f"x{next(_numbers)}"
        chosen = {"name": policy, "parameters": parameters}
        body = {"name": name, "actions": list(actions), "features": features, "policy": chosen, **further}
        answer = self.http.post("/v1/experiments", json=body)
        assert answer.status_code == 201, answer.text
        return f"/v1/experiments/{name}"

    def get(self, path: str, **query: Any) -> Any:
        answer = self.http.get(path, params=query or None)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def post(self, path: str, body: Any = None, **headers: str) -> Any:
        answer = self.http.post(path, json=body, headers=headers) if body is not None else self.http.post(path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def delete(self, path: str) -> Any:
        answer = self.http.delete(path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def lines(self, path: str, *lines: Any) -> list[Any]:
        """Newline-delimited JSON, there and back; a line that is bytes goes as it is."""
        content = b"\n".join(line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines)
        answer = self.http.post(path, content=content, headers={"Content-Type": "application/x-ndjson"})
        assert answer.status_code == 200, answer.text
        assert answer.headers["content-type"] == "application/x-ndjson"
        return [json.loads(line) for line in answer.text.splitlines()]

    def refused(self, status: int, code: str, method: str, path: str, body: Any = None, **further: Any) -> str:
        """The request is refused with this status and code; the message is returned."""
        if body is not None:
            further["json"] = body
        answer = self.http.request(method, path, **further)
        assert answer.status_code == status, answer.text
        assert answer.headers["content-type"] == "application/problem+json"
        problem = answer.json()
        assert list(problem) == ["type", "title", "status", "detail", "instance", "request_id", "error"]
        assert problem["type"] == f"urn:releaf:problem:{code}"
        assert problem["status"] == status
        assert problem["request_id"] == answer.headers["x-request-id"]
        assert problem["detail"] == problem["error"]["message"]
        assert sorted(problem["error"]) == ["code", "message", "status"]
        assert problem["error"]["status"] == status
        assert problem["error"]["code"] == code
        assert problem["error"]["message"]
        return str(problem["error"]["message"])

    def model(self, path: str) -> bytes:
        answer = self.http.get(f"{path}/model")
        assert answer.status_code == 200
        return answer.content
