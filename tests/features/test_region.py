"""Boxes: read from text, clipped to the image, refused if empty or outside."""

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faemb.errors import InputError
from faemb.features.region import Box, checked_box, parse_box

SIZE = (640, 480)


# From text


@pytest.mark.parametrize(
    ("text", "box"),
    [
        ("10,20,300,240", (10, 20, 300, 240)),
        ("0,0,1,1", (0, 0, 1, 1)),
        (" 1.5, 2 ,3e1,4.25 ", (1.5, 2, 30, 4.25)),
        ("-5,-6,7,8", (-5, -6, 7, 8)),
    ],
)
def test_four_numbers_are_a_box(text: str, box: tuple) -> None:
    assert parse_box(text) == Box(*box)


@pytest.mark.parametrize(
    "text", ["", "1,2,3", "1,2,3,4,5", "1,2,3,", "a,b,c,d", "1 2 3 4", "1;2;3;4", "0x1,2,3,4", ","]
)
def test_other_texts_are_explained(text: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_box(text)
    assert str(caught.value) == (
        f"the box {text!r} cannot be read; expected x1,y1,x2,y2 in pixels, such as 10,20,300,240"
    )


@given(st.tuples(*[st.floats(-1e6, 1e6)] * 4))
def test_a_box_written_out_is_read_again(corners: tuple) -> None:
    assert parse_box(",".join(map(repr, corners))) == corners


# On an image


@pytest.mark.parametrize(
    ("box", "kept"),
    [
        ((10, 20, 300, 240), (10, 20, 300, 240)),
        ((0, 0, 639, 479), (0, 0, 639, 479)),
        ((-10, -20, 10_000, 10_000), (0, 0, 639, 479)),
        ((600, 400, 700, 500), (600, 400, 639, 479)),
        ((10.25, 20.5, 30.75, 40.125), (10.25, 20.5, 30.75, 40.125)),
        ((-5, 5, 0, 9), (0, 5, 0, 9)),
        ((639, 479, 700, 700), (639, 479, 639, 479)),
    ],
)
@pytest.mark.parametrize("kind", [tuple, list, Box._make], ids=["tuple", "list", "Box"])
def test_a_box_is_cut_to_the_image(box: tuple, kept: tuple, kind: Callable) -> None:
    cut = checked_box(kind(box), SIZE)
    assert isinstance(cut, Box)
    assert cut == kept
    assert all(type(corner) is float for corner in cut)


@pytest.mark.parametrize(
    "corner", [10**400, -(10**400), 10**5000, math.inf], ids=["huge", "negative", "long", "infinite"]
)
def test_corners_that_are_no_pixels_are_refused(corner: float) -> None:
    with pytest.raises(InputError, match=r"a box is .*; expected four finite numbers x1, y1, x2, y2") as caught:
        checked_box((0, 0, corner, 9), SIZE)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("text", [f"0,0,{'9' * 5000},9", "0,0,1e400,9", "nan,0,9,9"], ids=["long", "large", "nan"])
def test_texts_of_corners_that_are_no_pixels_are_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"the box .* cannot be read; expected x1,y1,x2,y2 in pixels") as caught:
        parse_box(text)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("box", [(5, 5, 5, 9), (5, 5, 9, 5), (9, 5, 5, 9), (5, 9, 9, 5), (5, 5, 5, 5)])
def test_an_empty_box_is_refused(box: tuple) -> None:
    with pytest.raises(InputError, match=r"the box \d,\d,\d,\d is empty; expected x1 < x2 and y1 < y2"):
        checked_box(box, SIZE)


@pytest.mark.parametrize(
    "box", [(640, 0, 700, 100), (0, 480, 100, 500), (-50, 0, -1, 100), (0, -50, 100, -0.5), (639.5, 0, 641, 10)]
)
def test_a_box_beside_the_image_is_refused(box: tuple) -> None:
    with pytest.raises(InputError, match="lies outside the image, which is 640 x 480 pixels"):
        checked_box(box, SIZE)


@pytest.mark.parametrize(
    "box", [(), (1, 2, 3), (1, 2, 3, 4, 5), (1, 2, 3, math.nan), (1, 2, math.inf, 4), (-math.inf, 2, 3, 4)], ids=str
)
def test_four_finite_numbers_are_expected(box: tuple) -> None:
    with pytest.raises(InputError, match="expected four finite numbers x1, y1, x2, y2"):
        checked_box(box, SIZE)


def test_a_message_shows_the_numbers_as_they_were_written() -> None:
    with pytest.raises(InputError, match=r"^the box 10\.5,20,3,1e\+06 is empty"):
        checked_box((10.5, 20, 3, 1e6), SIZE)


@given(st.tuples(*[st.floats(-2000, 2000)] * 4), st.tuples(st.integers(1, 1000), st.integers(1, 1000)))
def test_a_box_is_refused_or_lies_on_the_image_and_in_the_box(box: tuple, size: tuple) -> None:
    x1, y1, x2, y2 = box
    overlaps = x1 < x2 and y1 < y2 and x2 >= 0 and y2 >= 0 and x1 <= size[0] - 1 and y1 <= size[1] - 1
    if not overlaps:
        with pytest.raises(InputError):
            checked_box(box, size)
        return
    cut = checked_box(box, size)
    assert max(x1, 0) == cut.x1 <= cut.x2 == min(x2, size[0] - 1)
    assert max(y1, 0) == cut.y1 <= cut.y2 == min(y2, size[1] - 1)


def test_a_single_pixel_has_a_box_around_it() -> None:
    assert checked_box((-1, -1, 1, 1), (1, 1)) == (0, 0, 0, 0)
