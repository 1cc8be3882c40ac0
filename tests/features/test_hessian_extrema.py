"""Extrema of the Hessian's determinant: blobs and saddles at their positions and scales, and nothing else."""

import math

import numpy as np
import pytest

from faemb.features.hessian_affine.extrema import (
    BORDER,
    Extrema,
    extrema,
    hessian_determinant,
    local_extrema,
    refined,
)
from faemb.features.hessian_affine.pyramid import octaves

SIGMA, THRESHOLD, EDGE_RATIO = 1.6, 16 / 3, 10.0


def found(
    image: np.ndarray, *, threshold: float = THRESHOLD, edge_ratio: float = EDGE_RATIO, most: int | None = None
) -> Extrema:
    """Over all octaves, or the first few, in pixels of the image, ordered by place."""
    pyramid = list(octaves(image.astype(np.float32), sigma=SIGMA, per_octave=3))[:most]
    parts = [
        each._replace(x=each.x * octave.pixel, y=each.y * octave.pixel, sigma=each.sigma * octave.pixel)
        for octave in pyramid
        for each in [extrema(octave, sigma=SIGMA, threshold=threshold, edge_ratio=edge_ratio)]
    ]
    joined = Extrema(*(np.concatenate(part) for part in zip(*parts, strict=True)))
    order = np.lexsort((joined.x, joined.y))
    return Extrema(*(part[order] for part in joined))


def strongest(features: Extrema) -> tuple[float, float, float, float]:
    """x, y, sigma, response."""
    best = np.argmax(np.abs(features.response))
    x, y, sigma, response = (float(part[best]) for part in features[1:])
    return x, y, sigma, response


def blob(
    shape: tuple[int, int], centre: tuple[float, float], deviations: tuple[float, float], height: float = 200
) -> np.ndarray:
    y, x = np.mgrid[: shape[0], : shape[1]]
    return height * np.exp(
        -((x - centre[0]) ** 2) / (2 * deviations[0] ** 2) - (y - centre[1]) ** 2 / (2 * deviations[1] ** 2)
    )


def texture(shape: tuple[int, int], rng: np.random.Generator, count: int = 120) -> np.ndarray:
    """Many blobs of many sizes, light and dark, on grey."""
    image = np.full(shape, 128.0)
    for _ in range(count):
        centre = (rng.uniform(0, shape[1]), rng.uniform(0, shape[0]))
        image += blob(shape, centre, (rng.uniform(1, 8), rng.uniform(1, 8)), rng.uniform(-80, 80))
    return image


# The response


def determinant_at(image: np.ndarray, row: int, column: int, sigma: float) -> float:
    def at(down: int, right: int) -> float:
        y, x = min(max(row + down, 0), image.shape[0] - 1), min(max(column + right, 0), image.shape[1] - 1)
        return float(image[y, x])

    lxx = at(0, 1) - 2 * at(0, 0) + at(0, -1)
    lyy = at(1, 0) - 2 * at(0, 0) + at(-1, 0)
    lxy = (at(1, 1) - at(1, -1) - at(-1, 1) + at(-1, -1)) / 4
    return sigma**4 * (lxx * lyy - lxy**2)


@pytest.mark.parametrize("sigma", [1.0, 1.6, 3.2])
def test_the_response_is_the_determinant_of_second_differences(rng: np.random.Generator, sigma: float) -> None:
    image = rng.uniform(0, 255, (9, 12)).astype(np.float32)
    expected = [[determinant_at(image, row, column, sigma) for column in range(12)] for row in range(9)]
    np.testing.assert_allclose(hessian_determinant(image, sigma), expected, rtol=1e-4, atol=0.5 * sigma**4)


def test_the_response_of_a_paraboloid_is_the_product_of_its_curvatures() -> None:
    y, x = np.mgrid[-8:9, -8:9].astype(np.float32)
    image = 3 * x**2 / 2 + 5 * y**2 / 2 + 2 * x * y
    np.testing.assert_allclose(hessian_determinant(image, 1.0)[1:-1, 1:-1], 3 * 5 - 2**2, rtol=1e-5)


# Extrema of a neighbourhood


def local_extrema_by_the_book(responses: list[np.ndarray], threshold: float) -> list[tuple[int, int]]:
    """One pixel at a time: no less, or no more, than all 26 neighbours in place and scale."""
    height, width = responses[1].shape
    places = []
    for row in range(BORDER, height - BORDER):
        for column in range(BORDER, width - BORDER):
            value = responses[1][row, column]
            around = [
                responses[scale][row + down, column + right]
                for scale in range(3)
                for down in (-1, 0, 1)
                for right in (-1, 0, 1)
            ]
            peak = value > threshold and all(value >= other for other in around)
            pit = value < -threshold and all(value <= other for other in around)
            # Of equal pixels the first, row by row.
            before = [responses[1][row - 1, column + right] for right in (-1, 0, 1)] + [responses[1][row, column - 1]]
            if value in before:
                continue
            if peak or pit:
                places.append((row, column))
    return places


@pytest.mark.parametrize("shape", [(13, 13), (30, 41), (13, 60), (45, 14)])
@pytest.mark.parametrize("threshold", [0.0, 0.8, 5.0])
def test_local_extrema_are_those_of_the_book(
    shape: tuple[int, int], threshold: float, rng: np.random.Generator
) -> None:
    responses = list(rng.normal(size=(3, *shape)).astype(np.float32))
    rows, columns = local_extrema(responses, threshold)
    assert list(zip(rows.tolist(), columns.tolist(), strict=True)) == local_extrema_by_the_book(responses, threshold)


def test_local_extrema_with_ties_are_those_of_the_book(rng: np.random.Generator) -> None:
    responses = list(rng.integers(-3, 4, (3, 40, 50)).astype(np.float32))
    rows, columns = local_extrema(responses, 1.0)
    expected = local_extrema_by_the_book(responses, 1.0)
    assert len(expected) > 20
    assert list(zip(rows.tolist(), columns.tolist(), strict=True)) == expected


def test_a_threshold_is_not_met_by_what_equals_it() -> None:
    responses = [np.zeros((13, 13), np.float32) for _ in range(3)]
    responses[1][6, 6] = 4.0
    assert len(local_extrema(responses, 4.0)[0]) == 0
    assert [place.tolist() for place in local_extrema(responses, 3.999)] == [[6], [6]]


@pytest.mark.parametrize("scale", [0, 2])
def test_a_higher_neighbour_in_scale_is_enough_to_lose(scale: int) -> None:
    responses = [np.zeros((13, 13), np.float32) for _ in range(3)]
    responses[1][6, 6] = 4.0
    responses[scale][7, 5] = 4.5
    assert len(local_extrema(responses, 1.0)[0]) == 0


# Refinement


def refined_by_the_book(responses: list[np.ndarray], row: int, column: int, ratio: float) -> tuple | None:
    """One point at a time: fit, step to the next pixel while the fit's top is farther than 0.6, five fits at most."""
    volume = np.array(responses, np.float64)
    height, width = volume.shape[1:]
    for fit in range(5):
        cube = volume[:, row - 1 : row + 2, column - 1 : column + 2]  # scale, y, x
        slope = np.array([cube[1, 1, 2] - cube[1, 1, 0], cube[1, 2, 1] - cube[1, 0, 1], cube[2, 1, 1] - cube[0, 1, 1]])
        slope /= 2
        xx, yy = (cube[1, 1, 2] + cube[1, 1, 0] - 2 * cube[1, 1, 1], cube[1, 2, 1] + cube[1, 0, 1] - 2 * cube[1, 1, 1])
        ss = cube[2, 1, 1] + cube[0, 1, 1] - 2 * cube[1, 1, 1]
        xy = (cube[1, 2, 2] - cube[1, 2, 0] - cube[1, 0, 2] + cube[1, 0, 0]) / 4
        xs = (cube[2, 1, 2] - cube[2, 1, 0] - cube[0, 1, 2] + cube[0, 1, 0]) / 4
        ys = (cube[2, 2, 1] - cube[2, 0, 1] - cube[0, 2, 1] + cube[0, 0, 1]) / 4
        if fit == 0:
            least, most = sorted(abs(np.linalg.eigvalsh([[xx, xy], [xy, yy]])))
            if xx * yy - xy**2 <= 0 or most >= ratio * least:
                return None
        curvature = np.array([[xx, xy, xs], [xy, yy, ys], [xs, ys, ss]])
        x, y, s = -np.linalg.inv(curvature) @ slope
        if max(abs(x), abs(y), abs(s)) <= 0.6:
            top = cube[1, 1, 1] + 0.5 * float(slope @ [x, y, s])
            return row, column, row + y, column + x, s, top
        moved = (row + round(np.sign(y)) * (abs(y) > 0.6), column + round(np.sign(x)) * (abs(x) > 0.6))
        if moved == (row, column) or not (2 < moved[0] < height - 3 and 2 < moved[1] < width - 3):
            return None
        row, column = moved
    return None


def responses_of(image: np.ndarray) -> list[np.ndarray]:
    octave = next(iter(octaves(image.astype(np.float32), sigma=SIGMA, per_octave=3)))
    return [hessian_determinant(octave.levels[k], SIGMA * 2 ** (k / 3)) for k in range(3)]


@pytest.mark.parametrize("kind", ["noise", "texture", "white noise of responses"])
@pytest.mark.parametrize("ratio", [1.5, 10.0, 1e6])
def test_refinement_is_that_of_the_book(kind: str, ratio: float, rng: np.random.Generator) -> None:
    """From every pixel of a small image, so that many fits move, meet or leave."""
    responses = {
        "noise": lambda: responses_of(rng.uniform(0, 255, (40, 32))),
        "texture": lambda: responses_of(texture((40, 32), rng)),
        "white noise of responses": lambda: list(rng.normal(size=(3, 40, 32)).astype(np.float32)),
    }[kind]()
    rows, columns = (each.ravel() for each in np.mgrid[BORDER : 40 - BORDER, BORDER : 32 - BORDER])
    expected = [refined_by_the_book(responses, *place, ratio) for place in zip(rows, columns, strict=True)]
    settled = {each[:2]: each[2:] for each in reversed(expected) if each is not None}
    by_place = np.array([settled[place] for place in sorted(settled)]).reshape(-1, 4)
    np.testing.assert_allclose(np.transpose(refined(responses, rows, columns, ratio)), by_place, rtol=1e-6, atol=1e-6)


def quadratic(top: tuple[float, float, float], curvature: np.ndarray) -> list[np.ndarray]:
    """9 - d' C d / 2 over scale, y, x, with its top at these offsets from scale 1, row 8, column 9."""
    s, y, x = np.mgrid[:3, :18, :20]
    d = np.stack([x - 9 - top[0], y - 8 - top[1], s - 1 - top[2]], axis=-1)
    return list((9 - 0.5 * np.einsum("...i,ij,...j", d, curvature, d)).astype(np.float32))


@pytest.mark.parametrize("top", [(0, 0, 0), (0.3, -0.2, 0.4), (0.5, 0.5, 0.5), (-0.59, 0.59, -0.59), (1.4, -2.3, 0.1)])
def test_the_top_of_a_quadratic_is_found_exactly(top: tuple[float, float, float]) -> None:
    """From the pixel (8, 9), also where the top is a few pixels farther on."""
    curvature = np.array([[2, 0.3, 0.2], [0.3, 1.5, -0.1], [0.2, -0.1, 1.0]])
    y, x, offset, value = refined(quadratic(top, curvature), np.array([8]), np.array([9]), EDGE_RATIO)
    np.testing.assert_allclose([x[0] - 9, y[0] - 8, offset[0]], top, atol=1e-4)
    np.testing.assert_allclose(value, [9], rtol=1e-5)


@pytest.mark.parametrize(("ratio", "kept"), [(9.9, False), (10.1, True)])
def test_the_ratio_of_curvatures_decides(ratio: float, kept: bool) -> None:
    turn = np.array([[0.8, -0.6], [0.6, 0.8]])
    curvature = np.eye(3)
    curvature[:2, :2] = turn @ np.diag([0.2, 2.0]) @ turn.T
    assert len(refined(quadratic((0, 0, 0), curvature), np.array([8]), np.array([9]), ratio)[0]) == kept


def test_a_saddle_of_the_response_is_no_extremum() -> None:
    responses = quadratic((0, 0, 0), np.diag([1.0, -1.0, 1.0]))
    assert len(refined(responses, np.array([8]), np.array([9]), EDGE_RATIO)[0]) == 0


def test_two_candidates_that_move_to_one_pixel_are_one() -> None:
    responses = quadratic((0.1, 0.1, 0), np.eye(3))
    y, x, _, _ = refined(responses, np.array([8, 8, 9]), np.array([8, 10, 9]), EDGE_RATIO)
    np.testing.assert_allclose(np.transpose([y, x]), [[8.1, 9.1]], atol=1e-4)


def test_a_top_beyond_the_neighbouring_scale_is_dropped() -> None:
    """Scale does not move: the next level looks there itself."""
    assert len(refined(quadratic((0, 0, 1.5), np.eye(3)), np.array([8]), np.array([9]), EDGE_RATIO)[0]) == 0


def test_no_candidates_give_none() -> None:
    none = np.zeros(0, np.int64)
    assert [len(part) for part in refined(quadratic((0, 0, 0), np.eye(3)), none, none, EDGE_RATIO)] == [0, 0, 0, 0]


# Blobs, edges, saddles


@pytest.mark.parametrize("centre", [(60, 60), (61.3, 58.8), (59.5, 60.25)])
@pytest.mark.parametrize("deviation", [2.0, 3.0, 4.3, 6.0, 9.0, 12.0])
def test_a_blob_is_found_at_its_centre_with_its_own_scale(centre: tuple[float, float], deviation: float) -> None:
    """sigma^4 det H of a Gaussian of deviation t is largest at sigma = t, where it is (height / 4)^2.

    The camera's blur of half a pixel is taken to be part of what is seen: t^2 = deviation^2 - 0.25.
    """
    x, y, sigma, response = strongest(found(20 + blob((121, 121), centre, (deviation, deviation), height=200)))
    assert math.hypot(x - centre[0], y - centre[1]) < max(0.1, 0.03 * deviation)  # octaves have larger pixels
    assert sigma == pytest.approx(math.sqrt(deviation**2 - 0.25), rel=0.05)
    seen = deviation**2 / (deviation**2 - 0.25)
    assert response == pytest.approx((200 / 4 * seen) ** 2, rel=0.15)


@pytest.mark.parametrize("deviation", [4.0, 7.0])
@pytest.mark.parametrize("turned", [False, True])
def test_a_saddle_is_found_with_a_negative_response(deviation: float, turned: bool) -> None:
    """x y exp(-(x^2 + y^2) / 2 t^2) has its deepest response at sigma = t / sqrt(2)."""
    y, x = np.mgrid[-60:61, -60:61] / deviation
    bent = x * y if turned else (x**2 - y**2) / 2
    each = found(128 + 120 * bent * np.exp(-(x**2 + y**2) / 2))
    distance = np.hypot(each.x - 60, each.y - 60)
    nearest = distance.argmin()
    assert distance[nearest] < 0.05
    assert each.response[nearest] < 0
    assert each.sigma[nearest] == pytest.approx(deviation / math.sqrt(2), rel=0.05)


@pytest.mark.parametrize("angle", [0, 20, 70, 90])
def test_a_straight_edge_gives_nothing(angle: float) -> None:
    """Its determinant is 0. Near 45 degrees the published differences leave a little, which adaptation drops."""
    y, x = np.mgrid[-70:71, -70:71]
    side = x * math.cos(math.radians(angle)) + y * math.sin(math.radians(angle))
    assert len(found(255 / (1 + np.exp(-side / 1.5))).x) == 0


@pytest.mark.parametrize("upright", [False, True])
@pytest.mark.parametrize(("edge_ratio", "kept"), [(3.0, False), (6.5, True)])
def test_the_curvatures_of_a_long_blob_have_the_ratio_of_its_axes(upright: bool, edge_ratio: float, kept: bool) -> None:
    """Here 5. A blob of deviations s and t is found with their geometric mean."""
    axes = (2.5, 12.5)
    each = found(blob((121, 121), (60, 60), axes[::-1] if upright else axes, 250), edge_ratio=edge_ratio)
    central = np.hypot(each.x - 60, each.y - 60) < 1
    assert central.any() == kept
    assert each.sigma[central] == pytest.approx([math.sqrt(2.5 * 12.5)] * kept, rel=0.05)


@pytest.mark.parametrize("level", [0, 77, 255])
def test_a_flat_image_gives_nothing(level: float) -> None:
    assert len(found(np.full((60, 70), level), threshold=0.05).x) == 0


# Invariance and covariance


def same(one: Extrema, other: Extrema, *, atol: float) -> None:
    assert len(one.x) > 10
    for name in ("x", "y", "sigma", "level"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), atol=atol)


def test_brightness_changes_nothing(rng: np.random.Generator) -> None:
    image = texture((90, 110), rng)
    same(found(image), found(image + 40), atol=0.01)


def test_negatives_change_nothing(rng: np.random.Generator) -> None:
    image = texture((90, 110), rng)
    same(found(image), found(255 - image), atol=0.01)


def test_contrast_scales_responses_by_its_square(rng: np.random.Generator) -> None:
    """Exactly: twice a float has the same digits."""
    image = texture((90, 110), rng)
    plain, stark = found(image), found(2 * image, threshold=2 * THRESHOLD)
    same(plain, stark, atol=0)
    np.testing.assert_array_equal(stark.response, 4 * plain.response)


@pytest.mark.parametrize("shift", [(1, 0), (0, 1), (7, -5)])
def test_extrema_move_with_the_image(shift: tuple[int, int], rng: np.random.Generator) -> None:
    """For shifts by whole pixels, in the first octave: pixels of the next one are larger."""
    inner = texture((60, 70), rng) - 128
    inner *= blob((60, 70), (35, 30), (15, 15), 1)  # fades before its edge
    image = np.full((140, 150), 128.0)
    image[40:100, 40:110] += inner
    moved = np.roll(image, shift, axis=(1, 0))
    before, after = found(image, most=1), found(moved, most=1)
    same(before._replace(x=before.x + shift[0], y=before.y + shift[1]), after, atol=1e-4)


def test_a_mirror_image_has_mirrored_extrema(rng: np.random.Generator) -> None:
    """In all octaves where sides have the form 2^k n + 1."""
    image = texture((97, 129), rng)
    before, after = found(image), found(image[:, ::-1])
    places = np.transpose([128 - after.x, after.y, after.sigma])
    order = np.lexsort((places[:, 0], places[:, 1]))
    np.testing.assert_allclose(places[order], np.transpose([before.x, before.y, before.sigma]), atol=0.01)


def test_a_higher_threshold_keeps_the_strong_ones(rng: np.random.Generator) -> None:
    image = texture((90, 110), rng)
    all_of_them, few = found(image, threshold=3.0), found(image, threshold=12.0)
    assert np.abs(all_of_them.response).min() > 9
    assert np.abs(few.response).min() > 144
    places = set(zip(all_of_them.x, all_of_them.y, all_of_them.sigma, strict=True))
    assert places >= set(zip(few.x, few.y, few.sigma, strict=True))
    assert 0 < len(few.x) < len(all_of_them.x)


@pytest.mark.parametrize("kind", ["noise", "texture"])
def test_extrema_lie_inside_and_never_twice_at_one_place(kind: str, rng: np.random.Generator) -> None:
    image = rng.uniform(0, 255, (80, 99)) if kind == "noise" else texture((80, 99), rng)
    for octave in octaves(image.astype(np.float32), sigma=SIGMA, per_octave=3):
        each = extrema(octave, sigma=SIGMA, threshold=1.0, edge_ratio=EDGE_RATIO)
        height, width = octave.levels[0].shape
        assert ((each.x > 2) & (each.x < width - 3) & (each.y > 2) & (each.y < height - 3)).all()
        assert len(set(zip(each.level, each.x, each.y, strict=True))) == len(each.x)
        assert set(each.level.tolist()) <= {1, 2, 3}
        fraction = 3 * np.log2(each.sigma / SIGMA) - each.level
        assert np.abs(fraction).max(initial=0) <= 0.6 + 1e-9


@pytest.mark.parametrize("per_octave", [1, 2, 5])
def test_the_number_of_levels_does_not_move_a_blob(per_octave: int) -> None:
    image = blob((61, 61), (30, 30), (2.4, 2.4)).astype(np.float32)
    octave = next(iter(octaves(image, sigma=1.2, per_octave=per_octave)))
    x, y, sigma, _ = strongest(extrema(octave, sigma=1.2, threshold=THRESHOLD, edge_ratio=EDGE_RATIO))
    np.testing.assert_allclose([x, y], 30, atol=1e-3)
    assert sigma == pytest.approx(math.sqrt(2.4**2 - 0.25), rel=0.08)
