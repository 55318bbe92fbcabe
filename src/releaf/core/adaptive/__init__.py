"""Kernels of AdaptiveReleaf: a Bayesian additive model per action, with tables of one and of two features."""
