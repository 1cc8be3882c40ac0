"""The array libraries that the contract suite runs on."""

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

from faemb.arrays import on_device


@dataclass(frozen=True)
class Backend:
    name: str
    device: str

    def array(self, x: np.ndarray) -> Any:
        """x as an array of this library, on its device."""
        return on_device(x, self.device)


def _installed() -> list[Backend]:
    found = [Backend("numpy", "cpu")]
    if find_spec("torch"):
        import torch

        found.append(Backend("torch-cpu", "torch:cpu"))
        if torch.cuda.is_available():
            found.append(Backend("torch-cuda", "cuda"))
    if find_spec("cupy"):
        import cupy

        if cupy.cuda.is_available():
            found.append(Backend("cupy", "cupy"))
    return found


BACKENDS = _installed()
