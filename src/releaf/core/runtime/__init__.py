"""Learner runtime: kernel compilation and cache, pointers, random generator, entry points and state files."""
