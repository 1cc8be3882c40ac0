"""One implementation for arrays of several libraries: NumPy by default, PyTorch or CuPy if such arrays are given.

`namespace(x)` returns the functions of the array API standard in x's own library. This module adds what the standard
does not cover: conversion between libraries and devices, and the input checks of public methods.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import array_api_compat
import numpy as np

from faemb.errors import FaembError, InputError, MissingExtraError, reason

Array = Any
"""An array of any library; shapes are written with jaxtyping, as in Float[Array, "N d"]."""

if TYPE_CHECKING:

    class ArrayLike(Protocol):
        """An array of any library, as type checkers see it."""

        @property
        def shape(self) -> tuple[int, ...]: ...
        @property
        def ndim(self) -> int: ...

    MatrixLike = ArrayLike | Sequence[Sequence[float] | ArrayLike]
    """Input of public methods, which check it: any (rows, columns) array of numbers, or nested lists."""
else:
    ArrayLike = MatrixLike = Any  # tests check types at run time; other input must reach the messages of as_float

# Temporaries of about 4 MB stay near a core's cache; a GPU is faster with few, large ones.
_CPU_BLOCK = 1 << 20
_DEVICE_BLOCK = 1 << 27


def namespace(*arrays: Array) -> Any:
    """The array-API functions of the library that these arrays belong to."""
    return array_api_compat.array_namespace(*arrays)


def is_array(x: object) -> bool:
    return array_api_compat.is_array_api_obj(x)


def to_numpy(x: Array) -> np.ndarray:
    """A NumPy array with the same values, on the host."""
    if isinstance(x, np.ndarray):
        return x
    if array_api_compat.is_torch_array(x):
        return x.detach().cpu().numpy()
    if array_api_compat.is_cupy_array(x):
        return x.get()
    return np.asarray(x)


def like(values: Array, reference: Array, *, dtype: Any = None) -> Array:
    """`values` as an array of the reference's library and device, in its dtype unless another is given."""
    xp = namespace(reference)
    dtype = reference.dtype if dtype is None else dtype
    if not is_array(values) or namespace(values) is not xp:
        values = xp.asarray(np.array(to_numpy(values)))
    return xp.astype(array_api_compat.to_device(values, array_api_compat.device(reference)), dtype, copy=False)


def on_device(x: Array, device: str) -> Array:
    """x on the named device: "cpu" is NumPy, "cupy" CuPy, else PyTorch's, such as "cuda", "cuda:1" or "torch:cpu"."""
    if device == "cpu":
        return to_numpy(x)
    if device == "cupy":
        try:
            import cupy
        except ImportError as error:
            raise FaembError(f"{device=} needs CuPy, in the build for your CUDA: pip install cupy-cuda13x") from error
        return cupy.asarray(x if array_api_compat.is_cupy_array(x) else to_numpy(x))
    try:
        import torch
    except ImportError as error:
        raise MissingExtraError(f"device={device!r}", "torch") from error
    place = device.removeprefix("torch:")
    tensor = x if array_api_compat.is_torch_array(x) else torch.as_tensor(np.array(to_numpy(x)))
    try:
        return tensor.to(place)
    except (RuntimeError, AssertionError) as error:  # raised by PyTorch for a device that does not exist
        raise InputError(f"PyTorch cannot use device={device!r} here ({reason(error)})") from error


def has_cuda() -> bool:
    """Whether PyTorch is installed and can use a GPU of this machine."""
    try:
        import torch
    except ImportError:
        return False
    return bool(torch.cuda.is_available())


def float64(x: Array) -> Array:
    xp = namespace(x)
    return xp.astype(x, xp.float64, copy=False)


def block_elements(reference: Array) -> int:
    """Largest number of elements of a temporary array on the reference's device."""
    return _CPU_BLOCK if str(array_api_compat.device(reference)) == "cpu" else _DEVICE_BLOCK


def row_blocks(rows: int, elements_per_row: int, reference: Array) -> Iterator[slice]:
    """Slices over `rows` whose temporaries of `elements_per_row` fill one block of the reference's device."""
    step = max(1, block_elements(reference) // max(1, elements_per_row))
    return (slice(start, min(start + step, rows)) for start in range(0, rows, step))


def contiguous(x: Array) -> Array:
    """x in row-major order, the layout of all learned arrays: rounding of matrix products depends on the layout."""
    xp = namespace(x)
    return xp.reshape(xp.reshape(x, (-1,)), tuple(x.shape))


def as_float(x: object, name: str) -> Array:
    """x as a real floating array: float32 and float64 stay as they are, other real numbers become float32."""
    try:
        array: Array = x if is_array(x) else np.asarray(x)
    except ValueError as error:
        raise InputError(f"{name} are not a rectangular array: {error}") from error
    if isinstance(array, np.ndarray) and array.dtype.kind not in "biufc":
        kind = f"an array of {array.dtype}" if is_array(x) else f"of type {type(x).__name__}"
        raise InputError(f"{name} are {kind}, not numbers; expected an array of floats")
    xp = namespace(array)
    if xp.isdtype(array.dtype, ("bool", "complex floating")):
        raise InputError(f"{name} have type {array.dtype}; expected real numbers: convert them first")
    if array.dtype not in (xp.float32, xp.float64):
        array = xp.astype(array, xp.float32)
    return array


def as_matrix(x: object, name: str, *, columns: int | None = None) -> Array:
    """x as a finite (rows, columns) float array; if `columns` is given, with this number of columns."""
    array = as_float(x, name)
    if array.ndim != 2:
        raise InputError(f"{name} have shape {tuple(array.shape)}; expected two axes, (rows, columns)")
    if columns is not None and array.shape[1] != columns:
        raise InputError(f"{name} have {array.shape[1]} columns; this model was fitted on {columns}")
    require_finite(array, name)
    return array


def require_finite(x: Array, name: str) -> None:
    xp = namespace(x)
    if not bool(xp.all(xp.isfinite(x))):
        bad = int(to_numpy(xp.sum(xp.astype(~xp.isfinite(x), xp.int64))))
        raise InputError(f"{name} hold {bad} NaN or infinite values; remove those rows or repair their source")
