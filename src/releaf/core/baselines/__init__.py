"""Kernels of the baselines, one module for each kind of model."""
