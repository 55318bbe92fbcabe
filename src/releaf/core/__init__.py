"""Partitions, cells and the compiled kernels that learn on them."""
