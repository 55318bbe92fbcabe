"""Experiments: state, learner slots, shadows, pending decisions, time series, and their registry."""
