"""Running a network's program with onnxruntime: checks of its input and output, choice of the device, errors.

A program must take one image (batch, 3, height, width) and contain its weights, which program.py checks. The start and
each run are limited to the time of one item (FAEMB_ITEM_SECONDS): onnxruntime needs hours to optimise some programs,
and a program can contain an endless loop.
"""

import math
import os
import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float, UInt8

from faemb.errors import FormatError, InputError, LimitError, MissingExtraError, reason
from faemb.features.cnn.deadline import Watched, deadline
from faemb.features.cnn.preprocessing import Size
from faemb.features.cnn.program import check_program
from faemb.runtime.limits import MEMORY, SECONDS, in_words, is_lack_of_memory, item_memory, item_seconds, net_memory

_CPU = "CPUExecutionProvider"
# TensorRT (takes minutes to start for each input size) and CoreML (half precision) are used only if requested.
_PREFERRED = ("CUDAExecutionProvider", "DmlExecutionProvider", _CPU)
# No exhaustive search for each of the many image sizes; full precision in products, as on the CPU.
_OPTIONS = {"CUDAExecutionProvider": {"cudnn_conv_algo_search": "HEURISTIC", "use_tf32": "0"}}
_TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16}
_LEAST_FOLDED = 1 << 20
_LARGEST_ARENA = 1 << 62


class Session:
    """A program that is ready to run.

    threads:   number of cores to use; None: OMP_NUM_THREADS if set, otherwise all
    providers: onnxruntime's execution providers in order of preference; None: a GPU if there is one
    careful:   disable layout optimisations, with which onnxruntime 1.31 crashes the process if the input is too small
               for the network; about a quarter slower
    """

    def __init__(
        self,
        program: UInt8[np.ndarray, " bytes"],
        *,
        threads: int | None = None,
        providers: Sequence[str] | None = None,
        careful: bool = False,
    ) -> None:
        self.program = program
        code = program.tobytes()
        check_program(code)
        self._runtime = _runtime()
        options = _options(self._runtime, threads, careful)
        _bound_folding(options, len(code))
        _bound_memory(self._runtime, options)
        self._session = _start(self._runtime, code, options, _places(self._runtime, providers))
        self._input, self._outputs = _described(self._session)

    @property
    def input_size(self) -> Size | None:
        """Width and height if the program was exported for one size, otherwise None."""
        height, width = self._input.shape[2:]
        return (width, height) if isinstance(width, int) and isinstance(height, int) else None

    def run(self, batch: Float[np.ndarray, "B 3 H W"], output: str | None) -> Float[np.ndarray, "B ..."]:
        """The named output, or the first, as float32: (B, d), (B, tokens, d) or (B, d, h, w)."""
        names = [self._output(output)]
        # Networks are often exported for a batch size of one.
        parts = np.split(batch, len(batch)) if self._input.shape[0] == 1 else [batch]
        options = self._runtime.RunOptions()
        with deadline(partial(setattr, options, "terminate", True)) as watched:
            values = np.concatenate([self._run(names, part, options, watched) for part in parts])
        if values.ndim not in (2, 3, 4) or len(values) != len(batch) or 0 in values.shape:
            raise FormatError(
                f"the network's output {names[0]!r} has shape {values.shape} for a batch of {len(batch)}; "
                "expected (batch, d), (batch, tokens, d) or (batch, d, height, width)"
            )
        if not np.all(np.isfinite(values)):
            raise FormatError(f"the network's output {names[0]!r} holds NaN or infinite values; check mean and std")
        return values

    def _run(self, names: list[str], batch: np.ndarray, options: Any, watched: Watched) -> np.ndarray:
        feed = {self._input.name: batch.astype(_TYPES[self._input.type], copy=False)}
        try:
            return np.atleast_1d(self._session.run(names, feed, options)[0]).astype(np.float32, copy=False)
        except Exception as error:  # onnxruntime's errors have no common base class
            height, width = batch.shape[2:]
            if watched.is_late:
                raise FormatError(
                    f"the network did not end within {item_seconds():g} seconds on {width} x {height} pixels; "
                    f"use smaller images or another network, or allow more with the environment variable {SECONDS}"
                ) from None
            if is_lack_of_memory(error):
                raise LimitError(
                    f"the network needs more than {in_words(net_memory())} of memory on {width} x {height} pixels, or "
                    "more than there is; use smaller images or another network, or allow more with the environment "
                    f"variable {MEMORY}={math.ceil(2 * item_memory() / 10**9)}GB"
                ) from None
            raise FormatError(
                f"the network fails on an input of {width} x {height} pixels ({reason(error)}); "
                "use larger images, or change its settings size or multiple"
            ) from error

    def _output(self, wanted: str | None) -> str:
        if wanted is not None and wanted not in self._outputs:
            raise InputError(f"output is {wanted!r}; the network has {', '.join(self._outputs)}")
        return wanted or self._outputs[0]


def _runtime() -> Any:
    try:
        import onnxruntime
    except ImportError as error:
        raise MissingExtraError("a neural network", "onnx") from error
    return onnxruntime


def _options(runtime: Any, threads: int | None, careful: bool) -> Any:
    options = runtime.SessionOptions()
    given = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()  # set in worker processes
    options.intra_op_num_threads = threads or (int(given) if given.isdigit() else 0)  # 0: all cores
    options.log_severity_level = 4  # errors are raised, not printed as well
    options.enable_mem_pattern = False  # only useful for inputs of one size, and DirectML does not support it
    # Otherwise onnxruntime could read the bytes as a file of its own format, which check_program does not check.
    options.add_session_config_entry("session.load_model_format", "ONNX")
    if careful:
        options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    return options


def _bound_folding(options: Any, size: int) -> None:
    """Limit the size of constants that onnxruntime computes when it starts: in real networks they are transposed or
    converted weights, but a program of a few bytes could require gigabytes."""
    most = max(2 * size, _LEAST_FOLDED)
    options.add_session_config_entry("optimization.constant_folding_max_output_size_in_bytes", str(most))


def _bound_memory(runtime: Any, options: Any) -> None:
    """Limit the memory of a run with one arena per session: worker processes have a memory limit anyway, but a process
    that searches has none."""
    place = runtime.OrtMemoryInfo("Cpu", runtime.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, runtime.OrtMemType.DEFAULT)
    arena = runtime.OrtArenaCfg({"max_mem": min(net_memory(), _LARGEST_ARENA)})
    runtime.create_and_register_allocator(place, arena)  # earlier sessions keep theirs
    options.add_session_config_entry("session.use_env_allocators", "1")


def _places(runtime: Any, wanted: Sequence[str] | None) -> list[str]:
    available = runtime.get_available_providers()
    if wanted is None:
        return [name for name in _PREFERRED if name in available]
    unknown = [name for name in wanted if name not in available]
    if unknown or not wanted:
        raise InputError(f"providers is {wanted!r}; onnxruntime has {', '.join(available)} here")
    return list(dict.fromkeys([*wanted, _CPU]))


def _start(runtime: Any, code: bytes, options: Any, places: list[str]) -> Any:
    """A session on the first of these providers; if that fails, on the CPU, with a warning."""
    providers = [(name, _OPTIONS.get(name, {})) for name in places]
    with deadline(partial(options.set_load_cancellation_flag, True)) as watched:
        try:
            # Without onnxruntime's own fallback, which prints messages.
            session = runtime.InferenceSession(code, options, providers=providers, enable_fallback=0)
        except Exception as error:
            if watched.is_late:
                raise FormatError(
                    f"the network cannot be started within {item_seconds():g} seconds; use another network, or allow "
                    f"more with the environment variable {SECONDS}"
                ) from None
            if places == [_CPU]:
                raise FormatError(
                    f"the network is not an ONNX program that onnxruntime can run ({reason(error)})"
                ) from error
            session = _start(runtime, code, options, [_CPU])
    if session.get_providers()[0] != places[0]:
        warnings.warn(f"{places[0]} cannot be started; the network runs on the CPU", RuntimeWarning, stacklevel=2)
    return session


def _described(session: Any) -> tuple[Any, list[str]]:
    """The input that takes the image, and the names of the outputs."""
    try:
        outputs = [output.name for output in session.get_outputs()]
        if not outputs:
            raise FormatError("the network has no output; export it again")
        _ = [each.name for each in session.get_inputs()]  # raises the decoding error here, not at the first image
        return _image_input(session.get_inputs()), outputs
    except UnicodeDecodeError:
        raise FormatError(
            "the network has a name of an input, an output or an axis that is not text in UTF-8; export it again"
        ) from None


def _image_input(inputs: Sequence[Any]) -> Any:
    if len(inputs) != 1:
        names = ", ".join(item.name for item in inputs) or "none"
        raise FormatError(f"the network has {len(inputs)} inputs ({names}); expected one, the image")
    (picture,) = inputs
    shape = picture.shape
    if len(shape) != 4 or (isinstance(shape[1], int) and shape[1] != 3):
        raise FormatError(f"the network's input has shape {shape}; expected (batch, 3, height, width)")
    if picture.type not in _TYPES:
        raise FormatError(f"the network's input is a {picture.type}; expected one of {', '.join(_TYPES)}")
    if isinstance(shape[0], int) and shape[0] != 1:
        raise FormatError(f"the network takes batches of {shape[0]} only; export it for any batch size, or for 1")
    return picture
