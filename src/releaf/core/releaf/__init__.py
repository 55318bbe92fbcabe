"""Kernels of RELEAF: partitions, cells, one decision step, replay of streams, and merging of learners."""
