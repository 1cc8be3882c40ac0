"""A network in an ONNX file as a component: its settings are the preprocessing, its learned data the bytes of the file.

A saved model therefore contains the network, and its fingerprint covers the weights.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped, UInt8

from faemb.component import C, Component
from faemb.errors import FormatError, InputError, NotFittedError
from faemb.features.cnn.preprocessing import (
    PerChannel,
    Size,
    check_preprocessing,
    per_channel,
    read_description,
    require_complete,
    resized,
)
from faemb.features.cnn.session import Session
from faemb.runtime.limits import require_memory, require_plain_file
from faemb.runtime.storage import AnyPath
from faemb.settings import require_whole

# With inputs smaller than this, onnxruntime may crash the process instead of raising an error; see Session.
_CAREFUL_BELOW = 128
_LARGEST = 1 << 31
"""Largest number of bytes of a program that protobuf allows."""
_BYTES_PER_PIXEL = 24
"""Bytes per pixel of the input: three float32 values, and a copy in the channel order of the network."""


class Network(Component):
    """Learned: `program_`, the bytes of the .onnx file. Read one with `Network.open(path)`.

    channels, mean, std, size, multiple, output, prefix_tokens: see preprocessing.py
    threads:   number of cores to use; None: 1 in worker processes, otherwise all
    providers: onnxruntime's execution providers, such as ("CPUExecutionProvider",); None: a GPU if there is one
    """

    learned = ("program_",)
    program_: UInt8[np.ndarray, " bytes"]
    transient = ("threads", "providers")

    def __init__(
        self,
        channels: str,
        mean: PerChannel,
        std: PerChannel,
        *,
        size: Sequence[int] | None = None,
        multiple: int = 1,
        output: str | None = None,
        prefix_tokens: int = 1,
        threads: int | None = None,
        providers: Sequence[str] | None = None,
    ) -> None:
        self.channels, self.mean, self.std = channels, mean, std
        self.size, self.multiple, self.output, self.prefix_tokens = size, multiple, output, prefix_tokens
        self.threads, self.providers = threads, providers

    @classmethod
    def open(cls, path: AnyPath, **changes: Any) -> "Network":
        """Read an .onnx file with the settings in the JSON file beside it; keywords override those settings."""
        file = Path(path)
        transient = {name: changes.pop(name) for name in cls.transient if name in changes}
        program = _read(file)
        check_preprocessing(changes)
        settings = read_description(file) | changes
        require_complete(settings, file)
        network = cls(**settings, **transient)
        network.program_ = program
        try:
            network.check_settings()
        except FormatError as error:
            raise FormatError(f"{file}: {error}") from error
        return network

    def check_settings(self) -> None:
        """Raise an error for a setting that is invalid, or that does not fit this program."""
        self.check_loaded()
        if self.threads is not None:
            require_whole("threads", self.threads, 1)
        self.require_fitted()
        fixed = self._session().input_size
        if fixed is not None and self.size is not None and fixed != tuple(self.size):
            raise InputError(f"size is {self.size!r}; this network takes {fixed[0]} x {fixed[1]} only")

    def check_loaded(self) -> None:
        """Check the settings only: the program is checked when its session starts."""
        check_preprocessing(self.settings())

    def require_fitted(self) -> None:
        if not self.is_fitted:
            raise NotFittedError("this Network has no program yet; read one with Network.open(path)")

    @property
    def input_size(self) -> Size | None:
        """The fixed input size, from the settings or the program; None: any size."""
        if self.size is not None:
            width, height = self.size
            return int(width), int(height)
        return self._session().input_size

    def size_for(self, width: float, height: float, least: int) -> Size:
        """The fixed input size, or else the nearest valid size with sides of at least `least`.

        Only the short side is stretched: keeping the aspect ratio would turn a line of pixels into a huge image.
        """
        return self.input_size or (self._side(width, least), self._side(height, least))

    def prepare(self, rgb: Shaped[np.ndarray, "H W 3"], size: Size) -> Float[np.ndarray, "3 h w"]:
        """The network's input of this width and height, from pixels 0..255."""
        width, height = size
        require_memory(_BYTES_PER_PIXEL * width * height, f"an input of {width} x {height} pixels for the network")
        pixels = resized(rgb, size)
        ordered = pixels if self.channels == "rgb" else pixels[..., ::-1]
        mean, std = per_channel(self.mean)[:, None, None], per_channel(self.std)[:, None, None]
        values = np.subtract(ordered.transpose(2, 0, 1), mean, order="C")
        values /= std
        return values

    def run(self, batch: Float[np.ndarray, "B 3 H W"]) -> Float[np.ndarray, "B ..."]:
        """The network's output for prepared images: (B, d), (B, tokens, d) or (B, d, h, w)."""
        return self._session(careful=min(batch.shape[2:]) < _CAREFUL_BELOW).run(batch, self.output)

    def to(self: C, device: str) -> C:
        """Does nothing: `providers` decides where the program runs."""
        return self

    def __getstate__(self) -> dict[str, Any]:
        """The state without sessions, which cannot be pickled; each process starts its own."""
        return {name: value for name, value in self.__dict__.items() if name != "_sessions"}

    def clone(self) -> "Network":
        """A copy with the same settings and program; `fit` could not restore the program."""
        copy = super().clone()
        if self.is_fitted:
            copy.program_ = self.program_
        return copy

    def _side(self, side: float, least: int) -> int:
        smallest = -(-least // self.multiple)
        return max(smallest, round(side / self.multiple)) * self.multiple

    def _session(self, *, careful: bool = False) -> Session:
        """The session, started on first use and again after a change of the program, `threads` or `providers`."""
        self.require_fitted()
        places = None if self.providers is None else tuple(self.providers)
        sessions: dict[tuple[Any, ...], Session] = self.__dict__.setdefault("_sessions", {})
        key = (self.threads, places, careful)
        if key not in sessions or sessions[key].program is not self.program_:
            sessions[key] = Session(self.program_, threads=self.threads, providers=places, careful=careful)
        return sessions[key]


def _read(path: Path) -> np.ndarray:
    if require_plain_file(path, "an .onnx file").st_size > _LARGEST:
        raise FormatError(f"{path} is larger than 2 GB, which no ONNX program is; export it again as one .onnx file")
    try:
        return np.frombuffer(path.read_bytes(), np.uint8)
    except OSError as error:
        raise FormatError(f"{path} cannot be read: {error.strerror or error}") from error
