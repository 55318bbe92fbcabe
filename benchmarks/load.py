"""Load on a service on the loopback address, bounded in time: as much as it takes."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from benchmarks.paced_load import paced

CONNECTIONS = 64
_LUA = """wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.body = [==[{body}]==]
local rejected = false
function response(status, headers, body)
  if status ~= 200 and not rejected then
    rejected = true
    print("first rejected:", status, body)
  end
end
"""


def throughput(url: str, body: str, seconds: float, connections: int = CONNECTIONS) -> float:
    """Requests a second that are answered with 200; an error where one is not."""
    if shutil.which("wrk") is None:  # this process may then be slower than the service
        return len(paced(url, [body], seconds, connections=connections).decided) / seconds
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "post.lua"
        script.write_text(_LUA.replace("{body}", body))
        command = ["wrk", "-t1", f"-c{connections}", f"-d{round(seconds)}s", "-s", str(script), url]
        told = subprocess.run(command, check=True, capture_output=True, text=True, timeout=seconds + 60).stdout
    if "Non-2xx" in told or "Socket errors" in told:
        raise RuntimeError(f"not all requests were answered:\n{told}")
    found = re.search(r"Requests/sec:\s+([0-9.]+)", told)
    if found is None:
        raise RuntimeError(f"wrk said nothing of its rate:\n{told}")
    return float(found[1])
