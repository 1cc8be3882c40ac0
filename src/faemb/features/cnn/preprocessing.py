"""Preprocessing: the conversion of an image to the input of a network, as given in `net.json` beside `net.onnx`.

input = (pixel - mean) / std        pixels 0..255, resized first, in the order (3, height, width)

channels       required: "rgb" or "bgr", the order that the network was trained with
mean           required: a number, or three in the order of `channels`
std            required: a number, or three in the order of `channels`, not 0
size           [width, height] if the network takes only one input size; null: any
multiple       the sides of the input must be multiples of this; a transformer's patch size
output         name of the output that holds the features; null: the first
prefix_tokens  number of tokens of a transformer before those of the patches (class token, registers)
"""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from jaxtyping import Float, Shaped

from faemb.errors import FormatError, InputError
from faemb.features.image.levels import MOST_SIDE
from faemb.runtime.limits import require_memory, require_plain_file
from faemb.settings import require_choice, require_kind, require_number, require_whole

PerChannel = float | Sequence[float]
Size = tuple[int, int]
"""Width and height, as for images."""

REQUIRED = ("channels", "mean", "std")
EXAMPLE = json.dumps(
    {"channels": "rgb", "mean": [123.675, 116.28, 103.53], "std": [58.395, 57.12, 57.375], "size": [224, 224]}
)


_JSON_FACTOR = 50
"""Bytes of memory per byte of a JSON file: an empty object takes two bytes in the file and a hundred in Python."""


def read_description(network: Path) -> dict[str, Any]:
    """The settings in the JSON file beside the network; empty if there is no such file."""
    path = network.with_suffix(".json")
    if not path.exists():
        return {}
    require_memory(_JSON_FACTOR * require_plain_file(path, "the JSON file beside a network").st_size, path)
    try:
        settings = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise FormatError(f"{path} cannot be read ({error}); expected JSON such as {EXAMPLE}") from error
    if not isinstance(settings, dict):
        raise FormatError(f"{path} holds a {type(settings).__name__}; expected an object such as {EXAMPLE}")
    try:
        check_preprocessing(settings)
    except InputError as error:
        raise FormatError(f"{path}: {error}; such as {EXAMPLE}") from error
    return settings


def require_complete(settings: Mapping[str, Any], network: Path) -> None:
    missing = [name for name in REQUIRED if name not in settings]
    if missing:
        raise InputError(
            f"no preprocessing is given for {network} (missing: {', '.join(missing)}); give it in the file "
            f"{network.with_suffix('.json')}, such as {EXAMPLE}"
        )


def check_preprocessing(settings: Mapping[str, Any]) -> None:
    """Raise an InputError for a setting that is unknown or invalid; missing settings are allowed."""
    for name, value in settings.items():
        if name not in _CHECKS:
            raise InputError(f"a network has no setting {name!r}; expected some of {', '.join(_CHECKS)}")
        _CHECKS[name](name, value)
    size, multiple = settings.get("size"), settings.get("multiple", 1)
    if size is not None and any(side % multiple for side in size):
        raise InputError(f"size is {size!r}; expected multiples of {multiple}, the setting multiple")


def per_channel(value: PerChannel) -> Float[np.ndarray, "3"]:
    return np.broadcast_to(np.asarray(value, np.float32), 3)


def resized(pixels: Shaped[np.ndarray, "H W 3"], size: Size) -> Float[np.ndarray, "h w 3"]:
    """Area averages along an axis that shrinks, linear interpolation along one that grows.

    Axes that shrink are resized first, since OpenCV does not average if one of the axes grows.
    """
    height, width = pixels.shape[:2]
    smaller = (min(size[0], width), min(size[1], height))
    shrunk = cv2.resize(np.asarray(pixels, np.float32), smaller, interpolation=cv2.INTER_AREA)
    return cv2.resize(shrunk, size, interpolation=cv2.INTER_LINEAR)


def _require_per_channel(name: str, value: Any) -> None:
    numbers = value if isinstance(value, list | tuple) else [value] * 3
    if len(numbers) != 3:
        raise InputError(f"{name} is {value!r}; expected a number, or three, one per channel")
    for number in numbers:
        require_number(name, number)


def _require_spread(name: str, value: Any) -> None:
    _require_per_channel(name, value)
    if not np.all(per_channel(value) > 0):
        raise InputError(f"{name} is {value!r}; expected positive numbers: pixels are divided by them")


def _require_size(name: str, value: Any) -> None:
    if value is None:
        return
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise InputError(f"{name} is {value!r}; expected width and height, or None for any size")
    for side in value:
        require_whole(name, side, 1, MOST_SIDE)


_CHECKS: dict[str, Callable[[str, Any], None]] = {
    "channels": lambda name, value: require_choice(name, value, ("rgb", "bgr")),
    "mean": _require_per_channel,
    "std": _require_spread,
    "size": _require_size,
    "multiple": lambda name, value: require_whole(name, value, 1, MOST_SIDE),
    "output": lambda name, value: require_kind(name, value, str),
    "prefix_tokens": lambda name, value: require_whole(name, value, 0),
}
