"""Datasets of benchmarks, read from the files that their authors distribute, or from a folder with a gt.tsv."""

from faemb.benchmark.datasets.checking import Checked, Sum, checked
from faemb.benchmark.datasets.dataset import Dataset, Query
from faemb.benchmark.datasets.kind import COMPLETE, STANDARD, Kind
from faemb.benchmark.datasets.opening import KINDS, kind_named, open_dataset

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
