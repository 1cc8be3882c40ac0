"""LAPACK's dsyevr on NumPy arrays, with the GIL released, so that other threads run and Ctrl-C works.

SciPy's own wrapper holds the GIL until LAPACK returns, which takes an hour at n = 16,560; NumPy's `eigh` releases it,
but calls dsyevd, which needs a workspace of 2 n^2 more numbers. So LAPACK's function is called by its address, which
SciPy exports for compiled callers in `scipy.linalg.cython_lapack`.
"""

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float

_ARGUMENTS = 21


def dsyevr(matrix: Float[np.ndarray, "n n"]) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, "n n"]]:
    """Eigenvalues, smallest first, and eigenvectors as columns, of a symmetric matrix in column-major order.

    The matrix is overwritten; only the vectors and a workspace of 26 n numbers are allocated.
    """
    if matrix.dtype != np.float64 or not matrix.flags.f_contiguous or not matrix.flags.writeable:
        raise ValueError("expected a writable float64 matrix in column order")
    n = len(matrix)
    values, vectors = np.empty(n), np.empty((n, n), order="F")
    support, found = np.empty(2 * max(n, 1), np.int32), ctypes.c_int()
    work, whole = np.empty(1), np.empty(1, np.int32)
    for query in (True, False):  # the first call gives the sizes of the workspaces
        status = ctypes.c_int()
        sizes = (-1, -1) if query else (len(work), len(whole))
        _call(
            *(b"V", b"A", b"L", n, matrix, max(n, 1), 0.0, 0.0, 0, 0, 0.0),
            *(found, values, vectors, max(n, 1), support, work, sizes[0], whole, sizes[1], status),
        )
        if status.value:
            raise np.linalg.LinAlgError(f"LAPACK's dsyevr has failed with status {status.value}")
        if query:
            work, whole = np.empty(int(work[0])), np.empty(int(whole[0]), np.int32)
    return values, vectors


def _call(*arguments: Any) -> None:
    """Call dsyevr; Fortran takes every argument by reference."""
    held = [_held(argument) for argument in arguments]  # alive until the call has returned
    _address()(*(each.ctypes.data if isinstance(each, np.ndarray) else ctypes.addressof(each) for each in held))


def _held(argument: Any) -> Any:
    if isinstance(argument, bytes):
        return ctypes.c_char(argument)
    if isinstance(argument, float):
        return ctypes.c_double(argument)
    return ctypes.c_int(argument) if isinstance(argument, int) else argument


def _address() -> Callable[..., None]:
    from scipy.linalg import cython_lapack  # here, since importing it takes a fifth of a second

    capsule = cython_lapack.__pyx_capi__["dsyevr"]
    name, pointer = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    name.restype, name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    kind = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * _ARGUMENTS)  # unlike PYFUNCTYPE it releases the GIL
    return kind(pointer(capsule, name(capsule)))
