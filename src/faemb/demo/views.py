"""Photographs of a picture as visitors of a gallery might take them: rendered, with fixed seeds.

    original     the picture itself, as it was printed
    front        on the wall, in its frame
    left, right  from the side: the camera is turned by about 50 degrees
    below        from below and far away, between its neighbours
    close        a part of it
    evening      in the light of a lamp
    visitor      half hidden by somebody's head and shoulders

The picture is a plane in front of a pinhole camera. Frames of one kind, the wall, and neighbours on the wall are shared
by several pictures, so that they alone do not identify it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np
from jaxtyping import Float
from PIL import Image as Pillow

from faemb.demo.prints import Pixels
from faemb.runtime.storage import replacing

WIDTH, HEIGHT = 640, 480
"""Width and height of a photograph."""
QUALITY = 88
_FOCAL_LENGTH = 620.0


class Frame(NamedTuple):
    """Around a picture: widths of the mat and of the frame, in pixels of the picture, and their colours."""

    mat: int
    frame: int
    paper: tuple[int, int, int]
    wood: tuple[int, int, int]


FRAMES = (
    Frame(34, 16, (246, 244, 238), (58, 44, 34)),
    Frame(0, 30, (0, 0, 0), (150, 104, 62)),
    Frame(58, 8, (52, 54, 58), (226, 222, 214)),
    Frame(18, 12, (232, 226, 208), (24, 24, 26)),
    Frame(46, 24, (250, 248, 244), (190, 156, 92)),
    Frame(26, 6, (86, 104, 92), (120, 46, 40)),
)
"""Kinds of frames; each of them is around two pictures, which are not neighbours."""
_GAP = 90
"""Distance between the frames of two neighbours, in the same pixels."""


@dataclass(frozen=True)
class Camera:
    """Viewpoint of a photograph; angles in degrees."""

    yaw: float = 0.0
    pitch: float = 0.0
    roll: float = 0.0
    distance: float = 900.0
    """Distance from the centre of the picture, in pixels of the picture, which fills the photograph at about 620."""
    aim: tuple[float, float] = (0.0, 0.0)
    """Point of the picture shown at the centre of the photograph, relative to the picture's centre."""

    def homography(self) -> Float[np.ndarray, "3 3"]:
        """Homography from the plane of the picture, with the origin at its centre, to pixels of the photograph."""
        turned = np.eye(3)
        for axis, angle in ((1, self.yaw), (0, self.pitch), (2, self.roll)):
            vector = np.zeros(3)
            vector[axis] = np.radians(angle)
            turned = cv2.Rodrigues(vector)[0] @ turned
        plane = turned @ np.array([[1, 0, -self.aim[0]], [0, 1, -self.aim[1]], [0, 0, 0]])
        plane[2, 2] += self.distance
        lens = np.array([[_FOCAL_LENGTH, 0, WIDTH / 2], [0, _FOCAL_LENGTH, HEIGHT / 2], [0, 0, 1]])
        return np.asarray(lens @ plane)


CAMERAS = {
    "front": Camera(yaw=-6, pitch=3, distance=1010, aim=(20, -10)),
    "left": Camera(yaw=48, pitch=-5, roll=3, distance=1000, aim=(-30, 20)),
    "right": Camera(yaw=-50, pitch=8, roll=-5, distance=960, aim=(40, 0)),
    "below": Camera(yaw=14, pitch=34, roll=-8, distance=1500, aim=(60, -40)),
    "close": Camera(yaw=12, pitch=-8, roll=6, distance=460, aim=(-70, 10)),
    "evening": Camera(yaw=-24, pitch=-12, roll=4, distance=1050, aim=(-40, 30)),
    "visitor": Camera(yaw=22, pitch=4, distance=1080, aim=(10, 40)),
}


def render_views(folder: Path, pictures: Mapping[str, Pixels]) -> list[list[Path]]:
    """Write folder/NAME/VIEW.jpg for each picture; returns the files of each, the original first."""
    names, groups = list(pictures), []
    for number, name in enumerate(names):
        (folder / name).mkdir(parents=True, exist_ok=True)
        wall = [
            framed(pictures[names[place % len(names)]], FRAMES[place % len(names) % len(FRAMES)])
            for place in (number - 1, number, number + 1)
        ]
        views = {"original": pictures[name], **photographed(wall, np.random.default_rng(number))}
        groups.append([_saved(folder / name / f"{view}.jpg", pixels) for view, pixels in views.items()])
    return groups


def _saved(path: Path, pixels: Pixels) -> Path:
    with replacing(path) as temporary:
        Pillow.fromarray(pixels).save(temporary, format="JPEG", quality=QUALITY)
    return path


def photographed(wall: list[Pixels], rng: np.random.Generator) -> dict[str, Pixels]:
    """All views of the picture in the middle of three that hang beside each other."""
    views = {name: photograph(wall, camera, rng) for name, camera in CAMERAS.items()}
    views["evening"] = lamp_light(views["evening"])
    views["visitor"] = with_visitor(views["visitor"], rng)
    return views


def framed(picture: Pixels, kind: Frame) -> Pixels:
    """The picture with mat and frame, slightly blurred against aliasing, since it is shown at reduced size."""
    mat = _bordered(cv2.GaussianBlur(picture, (0, 0), 0.7), kind.mat, kind.paper)
    return _bordered(mat, kind.frame, kind.wood)


def _bordered(picture: Pixels, width: int, colour: tuple[int, int, int]) -> Pixels:
    return cv2.copyMakeBorder(picture, width, width, width, width, cv2.BORDER_CONSTANT, value=colour)


def photograph(wall: list[Pixels], camera: Camera, rng: np.random.Generator) -> Pixels:
    """A photograph of three framed pictures on a wall; the camera is relative to the middle one."""
    canvas = _bare_wall(rng)
    middle = wall[1].shape[1] / 2
    places = (-middle - _GAP - wall[0].shape[1] / 2, 0.0, middle + _GAP + wall[2].shape[1] / 2)
    for pixels, x in zip(wall, places, strict=True):
        canvas = _hung(canvas, pixels, camera.homography() @ np.array([[1, 0, x], [0, 1, 0], [0, 0, 1]]))
    grain = 3 * rng.standard_normal((HEIGHT, WIDTH, 1), np.float32)
    return np.clip(cv2.GaussianBlur(canvas, (0, 0), 0.6) + grain, 0, 255).astype(np.uint8)


def _bare_wall(rng: np.random.Generator) -> Float[np.ndarray, "h w 3"]:
    """A plain wall, brighter on one side."""
    tone = np.array([206, 202, 194]) + rng.uniform(-22, 22) + rng.uniform(-8, 8, 3)
    slope = np.linspace(1.08, 0.88, WIDTH)[None, :: 1 if rng.random() < 0.5 else -1, None]
    return np.ascontiguousarray(np.broadcast_to(tone * slope, (HEIGHT, WIDTH, 3)), np.float32)


def _hung(
    canvas: Float[np.ndarray, "h w 3"], pixels: Pixels, homography: Float[np.ndarray, "3 3"]
) -> Float[np.ndarray, "h w 3"]:
    """The canvas with a framed picture, whose centre is the origin of the homography, and its shadow."""
    height, width = pixels.shape[:2]
    centred = homography @ np.array([[1, 0, -width / 2], [0, 1, -height / 2], [0, 0, 1]])
    if (np.array([[0, 0, 1], [width, 0, 1], [0, height, 1], [width, height, 1]]) @ centred[2] <= 0).any():
        return canvas  # a part is behind the camera
    shown = cv2.warpPerspective(pixels, centred, (WIDTH, HEIGHT), flags=cv2.INTER_LINEAR)
    cover = cv2.warpPerspective(np.ones((height, width), np.float32), centred, (WIDTH, HEIGHT), flags=cv2.INTER_LINEAR)
    shifted = cv2.warpAffine(cover, np.array([[1, 0, 7], [0, 1, 11.0]]), (WIDTH, HEIGHT))
    shadow = cv2.GaussianBlur(shifted, (0, 0), 6)
    return np.asarray(canvas * ((1 - 0.4 * shadow) * (1 - cover))[..., None] + shown, np.float32)


def lamp_light(pixels: Pixels) -> Pixels:
    """The image in dark and warm light, with a bright spot above the centre."""
    x, y = np.meshgrid(np.linspace(-1, 1, pixels.shape[1]), np.linspace(-1, 1, pixels.shape[0]))
    spot = 0.22 + 0.75 * np.exp(-1.3 * ((x - 0.15) ** 2 + (y + 0.35) ** 2))
    return np.clip(pixels * spot[..., None] * np.array([1.08, 0.84, 0.56]), 0, 255).astype(np.uint8)


def with_visitor(pixels: Pixels, rng: np.random.Generator) -> Pixels:
    """The image with the head and shoulders of a person in front of the picture, out of focus."""
    x, head = int(WIDTH * rng.uniform(0.3, 0.7)), int(HEIGHT * 0.58)
    shape = np.zeros(pixels.shape[:2], np.uint8)
    cv2.ellipse(shape, (x, head), (52, 66), 0, 0, 360, 255, -1)
    cv2.rectangle(shape, (x - 26, head), (x + 26, HEIGHT), 255, -1)
    cv2.ellipse(shape, (x, HEIGHT + 20), (140, 140), 0, 0, 360, 255, -1)
    cover = cv2.GaussianBlur(shape, (0, 0), 4)[..., None] / 255
    return np.asarray(pixels * (1 - cover) + np.array([52, 42, 46]) * cover, np.uint8)
