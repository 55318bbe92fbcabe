"""The paper's experiments, each a short declaration."""
