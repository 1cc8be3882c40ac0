"""Datasets of benchmarks, read from the files that their authors distribute."""

from faemb.benchmark.datasets.checking import Checked, Sum, checked
from faemb.benchmark.datasets.dataset import Dataset, Query
from faemb.benchmark.datasets.kind import STANDARD, Kind
from faemb.benchmark.datasets.opening import COMPLETE, KINDS, kind_named, open_dataset

__all__ = [
    "COMPLETE",
    "KINDS",
    "STANDARD",
    "Checked",
    "Dataset",
    "Kind",
    "Query",
    "Sum",
    "checked",
    "kind_named",
    "open_dataset",
]
