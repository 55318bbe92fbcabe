"""Dashboard: HTML pages, their static files, and log-in."""
