"""Fixtures for all tests. Shapes written in the types of the package are checked while tests run."""

import os
from pathlib import Path

import jaxtyping
import numpy as np
import pytest

# Before the package is imported: from here on a wrong shape is an error at the call that made it.
jaxtyping.install_import_hook("faemb", "typechecking.check")

from backends import BACKENDS, Backend  # noqa: E402


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20170306)


@pytest.fixture(params=BACKENDS, ids=lambda backend: backend.name)
def backend(request: pytest.FixtureRequest) -> Backend:
    """Each array library that is installed: NumPy always, PyTorch on the CPU and on a GPU where there is one."""
    return request.param


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of real images, from the environment variable FAEMB_DATA."""
    folder = os.environ.get("FAEMB_DATA", "")
    if folder and Path(folder).is_dir():
        return Path(folder)
    reason = f"real images are needed: set FAEMB_DATA to their folder (now {folder!r})"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)
