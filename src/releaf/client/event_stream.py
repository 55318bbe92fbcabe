"""Parser of server-sent events (text/event-stream)."""

from __future__ import annotations

import json

from releaf.client.responses import Event


class EventStreamParser:
    """Parses the lines of a feed into events."""

    def __init__(self) -> None:
        self._kind, self._data = "message", ""

    def feed_line(self, line: str) -> Event | None:
        """Parse a line; return the event that it completes, if any."""
        if line.startswith("event:"):
            self._kind = line[6:].strip()
        elif line.startswith("data:"):
            self._data += line[5:].strip()
        elif not line and self._data:
            event = Event(self._kind, json.loads(self._data))
            self._kind, self._data = "message", ""
            return event
        return None
