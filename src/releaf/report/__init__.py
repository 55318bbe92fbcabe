"""Tables, charts and one-file HTML reports of results."""
