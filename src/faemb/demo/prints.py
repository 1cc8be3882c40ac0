"""The pictures of the demo: scikit-learn's two photographs, and ten that are drawn here, with fixed seeds.

The photographs are by danielbuechele (palace) and vultilion (flower), who published them on Flickr under CC BY 2.0.
The twelve pictures are of different kinds, so that each query has wrong candidates. Nothing is downloaded, and no
package is needed that faemb itself does not need.
"""

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import cv2
import numpy as np
from jaxtyping import Float, UInt8

from faemb.errors import FaembError
from faemb.features import read_image

WIDTH, HEIGHT = 640, 427
"""Width and height of a drawn picture, the same as of the photographs."""
PHOTOGRAPHS = {"palace": "china.jpg", "flower": "flower.jpg"}

Pixels = UInt8[np.ndarray, "_ _ 3"]


def pictures() -> dict[str, Pixels]:
    """All pictures of the demo, by name; the photographs first."""
    drawn = {name: draw(np.random.default_rng(seed)) for seed, (name, draw) in enumerate(DRAWN.items())}
    return {**photographs(), **drawn}


def photographs() -> dict[str, Pixels]:
    """The photographs that are part of scikit-learn."""
    spec = find_spec("sklearn")
    roots = [Path(root, "datasets", "images") for root in (spec.submodule_search_locations or ())] if spec else []
    paths = {name: root / file for root in roots for name, file in PHOTOGRAPHS.items()}
    if not paths or not all(path.is_file() for path in paths.values()):
        raise FaembError(
            "the photographs of scikit-learn are not installed; "
            "install it again: pip install --force-reinstall scikit-learn"
        )
    return {name: read_image(path).rgb() for name, path in paths.items()}


# Drawings.


def skyline(rng: np.random.Generator) -> Pixels:
    """A city at night, reflected in water."""
    shore = HEIGHT * 3 // 4
    canvas = _gradient((18, 16, 52), (214, 96, 84), shore)
    cv2.circle(canvas, (520, 70), 28, (250, 240, 205), -1, cv2.LINE_AA)
    left = -10
    while left < WIDTH:
        width, top = int(rng.integers(44, 110)), int(rng.integers(shore // 6, shore * 2 // 3))
        _house(canvas, (left, top, left + width, shore), rng)
        left += width + int(rng.integers(-6, 4))
    water = cv2.GaussianBlur(canvas[::-1][: HEIGHT - shore], (0, 0), 1.5) * 0.55
    return np.concatenate([canvas, water.astype(np.uint8)])


def _house(canvas: Pixels, box: tuple[int, int, int, int], rng: np.random.Generator) -> None:
    x1, y1, x2, y2 = box
    shade = int(rng.integers(14, 46))
    cv2.rectangle(canvas, (x1, y1), (x2, y2), (shade, shade, shade + 18), -1)
    if rng.random() < 0.4:
        cv2.line(canvas, ((x1 + x2) // 2, y1), ((x1 + x2) // 2, y1 - 24), (shade, shade, shade + 18), 2)
    across, down = rng.integers(9, 20, 2).tolist()
    for y in range(y1 + 8, y2 - down, down + 6):
        for x in range(x1 + 7, x2 - across, across + 5):
            if rng.random() < 0.45:
                light = (255, int(rng.integers(150, 240)), int(rng.integers(60, 170)))
                cv2.rectangle(canvas, (x, y), (x + across, y + down), light, -1)


def mountains(rng: np.random.Generator) -> Pixels:
    """Ridges behind each other, the nearest with trees."""
    canvas = _gradient((250, 196, 120), (252, 236, 205), HEIGHT)
    cv2.circle(canvas, (170, 110), 46, (255, 246, 214), -1, cv2.LINE_AA)
    far, near = np.array([176, 150, 170]), np.array([26, 44, 58])
    for layer in range(6):
        share = layer / 5
        height = HEIGHT * (0.34 + 0.1 * layer) - _noise(rng, 6 + 5 * layer, 1)[0] * 95
        outline = [*zip(range(WIDTH), height.astype(int).tolist(), strict=True), (WIDTH, HEIGHT), (0, HEIGHT)]
        colour = tuple(map(int, far + share * (near - far)))
        cv2.fillPoly(canvas, [np.array(outline)], colour, cv2.LINE_AA)
        for x in rng.integers(0, WIDTH, 18 * layer if layer > 2 else 0).tolist():
            _fir(canvas, (x, int(height[x]) + 3), 5 + 6 * (layer - 2), colour)
    return canvas


def _fir(canvas: Pixels, foot: tuple[int, int], size: int, colour: tuple[int, ...]) -> None:
    x, y = foot
    for tier in range(3):
        half, top = size * (3 - tier) // 6, y - size * (tier + 2) // 2
        triangle = np.array([(x - half, y - size * tier // 2), (x + half, y - size * tier // 2), (x, top)])
        cv2.fillPoly(canvas, [triangle], colour, cv2.LINE_AA)


def terrain(rng: np.random.Generator) -> Pixels:
    """A map: tints and contour lines of hills, with a road and towns."""
    height = _noise(rng, 5, 4) + 0.5 * _noise(rng, 11, 8)
    stops = np.array(
        [[70, 130, 180], [150, 200, 215], [176, 208, 150], [226, 220, 160], [200, 160, 110], [250, 248, 244]]
    )
    level = (height - height.min()) / np.ptp(height) * 16
    tint = [np.interp(np.floor(level) / 15, np.linspace(0, 1, len(stops)), stops[:, c]) for c in range(3)]
    canvas = np.stack(tint, axis=2).astype(np.uint8)
    edges = np.abs(np.diff(np.floor(level), axis=0, append=0)) + np.abs(np.diff(np.floor(level), axis=1, append=0))
    canvas[edges > 0] = (120, 96, 70)
    towns = rng.integers((40, 40), (WIDTH - 40, HEIGHT - 40), (9, 2))
    cv2.polylines(
        canvas, [towns[np.argsort(towns[:, 0])]], isClosed=False, color=(190, 40, 40), thickness=3, lineType=cv2.LINE_AA
    )
    for number, (x, y) in enumerate(towns.tolist()):
        cv2.circle(canvas, (x, y), 6, (30, 30, 30), 2, cv2.LINE_AA)
        name = "".join("BADELUNORIMASETO"[2 * k : 2 * k + 2] for k in rng.integers(0, 8, 3)).capitalize()
        cv2.putText(
            canvas,
            name,
            (x + 9, y - 6),
            cv2.FONT_HERSHEY_DUPLEX,
            0.45 + 0.05 * (number % 3),
            (20, 20, 20),
            1,
            cv2.LINE_AA,
        )
    return canvas


def glass(rng: np.random.Generator) -> Pixels:
    """A stained-glass window: cells around random points, with dark leads between them."""
    from scipy.spatial import KDTree  # here, since importing it takes a fifth of a second

    points = rng.uniform((0, 0), (WIDTH, HEIGHT), (70, 2))
    place = np.stack(np.meshgrid(np.arange(WIDTH), np.arange(HEIGHT)), axis=2).reshape(-1, 2)
    distance, order = KDTree(points).query(place, 2)
    between = np.linalg.norm(points[order[:, 0]] - points[order[:, 1]], axis=1)
    to_edge = ((distance[:, 1] ** 2 - distance[:, 0] ** 2) / (2 * between)).reshape(HEIGHT, WIDTH)
    hue = (points[:, 0] / WIDTH * 130 + rng.uniform(0, 60, len(points))) % 180
    colours = np.stack([hue, rng.uniform(120, 255, len(points)), rng.uniform(130, 255, len(points))], axis=1)
    canvas = cv2.cvtColor(colours[order[:, 0]].reshape(HEIGHT, WIDTH, 3).astype(np.uint8), cv2.COLOR_HSV2RGB)
    canvas = (canvas * (0.7 + 0.3 * np.minimum(to_edge / 25, 1))[..., None]).astype(np.uint8)
    canvas[to_edge < 2.5] = (24, 22, 26)
    return canvas


def circles(rng: np.random.Generator) -> Pixels:
    """Squares with rings of colours."""
    canvas, side = np.zeros((HEIGHT, WIDTH, 3), np.uint8), 107
    for top in range(0, HEIGHT, side):
        for left in range(0, WIDTH, side):
            cv2.rectangle(canvas, (left, top), (left + side, top + side), _colour(rng), -1)
            for radius in sorted(rng.integers(6, 52, 5).tolist(), reverse=True):
                centre = (left + side // 2 + int(rng.integers(-4, 5)), top + side // 2 + int(rng.integers(-4, 5)))
                cv2.circle(canvas, centre, radius, _colour(rng), -1, cv2.LINE_AA)
    return _brushed(canvas, rng)


def sunflower(rng: np.random.Generator) -> Pixels:
    """Seeds along spirals, between petals."""
    canvas = _gradient((24, 60, 84), (10, 26, 44), HEIGHT)
    centre = np.array([WIDTH / 2, HEIGHT / 2])
    for petal in range(34):
        angle = 2.4 * petal
        place = centre + 165 * np.array([np.cos(angle), np.sin(angle)])
        shade = int(rng.integers(150, 215))
        cv2.ellipse(
            canvas, (tuple(place.tolist()), (100, 34), float(np.degrees(angle))), (250, shade, 30), -1, cv2.LINE_AA
        )
        cv2.ellipse(canvas, (tuple(place.tolist()), (100, 34), float(np.degrees(angle))), (170, 90, 10), 1, cv2.LINE_AA)
    cv2.circle(canvas, (WIDTH // 2, HEIGHT // 2), 138, (58, 34, 16), -1, cv2.LINE_AA)
    for seed in range(420):
        place = centre + 6.5 * np.sqrt(seed) * np.array([np.cos(2.39996 * seed), np.sin(2.39996 * seed)])
        cv2.circle(
            canvas,
            tuple(place.astype(int).tolist()),
            1 + seed // 110,
            (int(rng.integers(150, 230)), 120, 40),
            -1,
            cv2.LINE_AA,
        )
    return canvas


def julia(rng: np.random.Generator) -> Pixels:
    """A Julia set of z^2 + c."""
    x, y = np.meshgrid(np.linspace(-1.5, 1.5, WIDTH), np.linspace(-1.0, 1.0, HEIGHT))
    z, steps = x + 1j * y, np.zeros(x.shape)
    for _ in range(80):
        inside = np.abs(z) < 4
        z[inside] = z[inside] ** 2 - 0.79 + 0.15j
        steps += inside
    phase = np.sqrt(steps / 80)[..., None] * 9 + np.array([0.0, 0.9, 2.0]) + rng.uniform(0, 1)
    return np.asarray(127.5 - 127.5 * np.cos(phase), np.uint8)


def letters(rng: np.random.Generator) -> Pixels:
    """A poster of letters."""
    canvas = np.full((HEIGHT, WIDTH, 3), (240, 232, 214), np.uint8)
    fonts = [
        cv2.FONT_HERSHEY_TRIPLEX,
        cv2.FONT_HERSHEY_COMPLEX,
        cv2.FONT_HERSHEY_DUPLEX,
        cv2.FONT_HERSHEY_SCRIPT_COMPLEX,
    ]
    for letter in rng.permutation(list("ABCDEFGHIJKLMNOPQRSTUVWXYZ&abcdefghiknrstuw")).tolist():
        place = (int(rng.integers(-10, WIDTH - 40)), int(rng.integers(50, HEIGHT + 10)))
        size = float(rng.uniform(1.2, 4.5))
        cv2.putText(canvas, letter, place, fonts[int(rng.integers(4))], size, _colour(rng), int(2 * size), cv2.LINE_AA)
    return canvas


def fern(rng: np.random.Generator) -> Pixels:
    """Barnsley's fern, many times, on paper."""
    canvas = np.full((HEIGHT, WIDTH, 3), (236, 228, 206), np.uint8)
    maps = np.array(
        [
            [0, 0, 0, 0.16, 0],
            [0.85, 0.04, -0.04, 0.85, 1.6],
            [0.2, -0.26, 0.23, 0.22, 1.6],
            [-0.15, 0.28, 0.26, 0.24, 0.44],
        ]
    )
    points = np.zeros((4000, 2))
    trace = []
    for _ in range(60):
        a, b, c, d, e = maps[rng.choice(4, len(points), p=[0.01, 0.85, 0.07, 0.07])].T
        points = np.stack([a * points[:, 0] + b * points[:, 1], c * points[:, 0] + d * points[:, 1] + e], axis=1)
        trace.append(points)
    plant = np.concatenate(trace[20:])
    for x, size, lean, colour in (
        (110, 30, 0.3, (70, 110, 60)),
        (330, 40, -0.1, (36, 84, 44)),
        (520, 34, -0.4, (110, 140, 50)),
    ):
        places = np.stack(
            [x + size * (plant[:, 0] + lean * plant[:, 1] * 0.5), HEIGHT - 6 - size * plant[:, 1]], axis=1
        ).astype(int)
        inside = ((places >= 0) & (places < (WIDTH, HEIGHT))).all(axis=1)
        canvas[places[inside, 1], places[inside, 0]] = colour
    return canvas


def waves(rng: np.random.Generator) -> Pixels:
    """Rows of waves as in a woodcut."""
    canvas = _gradient((238, 222, 190), (214, 190, 150), HEIGHT)
    cv2.circle(canvas, (480, 110), 52, (200, 60, 44), -1, cv2.LINE_AA)
    for row in range(11):
        base, step = 150 + 28 * row, 46 + 5 * row
        for x in range(-step + int(rng.integers(0, step)), WIDTH + step, step):
            radius = step * 0.62 + float(rng.uniform(-4, 4))
            for ring, share in enumerate((1, 0.78, 0.58, 0.4, 0.22)):
                colour = (244, 240, 226) if ring % 2 else (24 + 6 * row, 62 + 7 * row, 110 + int(rng.integers(0, 40)))
                cv2.circle(canvas, (x, base + step // 2), int(radius * share), colour, -1, cv2.LINE_AA)
    return canvas


DRAWN: dict[str, Callable[[np.random.Generator], Pixels]] = {
    "sunflower": sunflower,
    "map": terrain,
    "window": glass,
    "circles": circles,
    "julia": julia,
    "letters": letters,
    "mountains": mountains,
    "fern": fern,
    "waves": waves,
    "skyline": skyline,
}


def _gradient(top: tuple[int, int, int], bottom: tuple[int, int, int], height: int) -> Pixels:
    column = np.linspace(top, bottom, height)[:, None]
    return np.ascontiguousarray(np.broadcast_to(column, (height, WIDTH, 3)).astype(np.uint8))


def _noise(rng: np.random.Generator, columns: int, rows: int) -> Float[np.ndarray, "height width"]:
    """Smooth values from 0 to 1; one row where `rows` is 1."""
    coarse = rng.uniform(0, 1, (rows, columns)).astype(np.float32)
    return np.asarray(cv2.resize(coarse, (WIDTH, HEIGHT if rows > 1 else 1), interpolation=cv2.INTER_CUBIC), np.float64)


def _brushed(canvas: Pixels, rng: np.random.Generator) -> Pixels:
    """Uneven paint."""
    strokes = cv2.GaussianBlur(rng.normal(0, 40, canvas.shape[:2]).astype(np.float32), (0, 0), sigmaX=5, sigmaY=1)
    return np.clip(canvas + strokes[..., None], 0, 255).astype(np.uint8)


def _colour(rng: np.random.Generator) -> tuple[int, ...]:
    palette = [
        (214, 64, 50),
        (240, 170, 50),
        (250, 222, 130),
        (52, 120, 110),
        (30, 66, 110),
        (110, 60, 110),
        (235, 225, 205),
        (40, 36, 44),
    ]
    return palette[int(rng.integers(len(palette)))]
