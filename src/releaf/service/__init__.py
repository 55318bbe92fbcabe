"""HTTP decision service: decide and learn over HTTP, with a write-ahead log that keeps every acknowledged event.

Layers, from the top: ``app`` assembles a service; ``dashboard`` serves HTML pages; ``http`` serves the API; ``auth``
controls access; ``experiments`` hold learners and their state; ``log`` makes events durable; ``store`` is SQLite or
PostgreSQL. ``messages``, ``errors``, ``settings`` and other modules of this package are shared by all of them.
"""
