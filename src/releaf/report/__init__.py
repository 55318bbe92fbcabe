"""Tables, plots and one-file reports of what was measured."""
