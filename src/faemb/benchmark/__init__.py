"""Benchmarks of instance search: their datasets, their ground truth, the numbers that the paper published."""
