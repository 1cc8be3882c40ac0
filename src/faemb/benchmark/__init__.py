"""Benchmarks of instance search: datasets, ground truth, tables of results, and the numbers published in the paper."""
