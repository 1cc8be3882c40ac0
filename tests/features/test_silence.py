"""Warnings of decoders are suppressed, all others are not, and the list of filters is restored."""

import logging
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import PIL.Image
import pytest

from faemb.features.image import read_image
from faemb.features.image.silence import silence


@pytest.fixture
def talkative(tmp_path) -> Path:
    """A JPEG for which Pillow warns that its EXIF data is truncated."""
    path = tmp_path / "talkative.jpg"
    PIL.Image.new("L", (50, 40), 9).save(path, exif=b"Exif\0\0MM\0*\0\0\0\x08\0\x05\x01")
    with pytest.warns(UserWarning, match="EXIF"), PIL.Image.open(path) as image:
        image.getexif()
    return path


def warn() -> None:
    warnings.warn("said", UserWarning, stacklevel=1)


def test_warnings_and_logs_are_silenced_and_heard_again(caplog):
    logger = logging.getLogger("PIL.TiffImagePlugin")
    with silence():
        warn()
        logger.error("unheard")
    with pytest.warns(UserWarning, match="said"):
        warn()
    logger.error("heard")
    assert [record.message for record in caplog.records] == ["heard"]
    assert not logger.filters


def test_filters_are_left_as_they_were(talkative):
    before = list(warnings.filters)
    read_image(talkative)
    assert warnings.filters == before
    with pytest.raises(ZeroDivisionError), silence():
        _ = 1 / 0
    assert warnings.filters == before


def test_many_threads_read_in_silence(talkative):
    before = list(warnings.filters)
    with ThreadPoolExecutor(8) as pool:
        images = list(pool.map(read_image, [talkative] * 200))
    assert {image.size for image in images} == {(50, 40)}
    assert warnings.filters == before


def test_other_threads_are_still_heard():
    inside, done = threading.Event(), threading.Event()

    def read_for_a_while():
        with silence():
            inside.set()
            done.wait(10)

    thread = threading.Thread(target=read_for_a_while)
    thread.start()
    try:
        assert inside.wait(10)
        with pytest.raises(UserWarning, match="said"):
            warn()
    finally:
        done.set()
        thread.join()


def test_filters_that_are_swapped_meanwhile_keep_nothing_that_silences():
    """As when another thread leaves `catch_warnings` while this one reads."""
    with warnings.catch_warnings():
        reading = silence()
        reading.__enter__()
        assert isinstance(warnings.filters, list)
        swapped = list(warnings.filters)
        warnings.filters[:] = []
        reading.__exit__(None, None, None)
        warnings.filters[:] = swapped
        with pytest.raises(UserWarning, match="said"):
            warn()
        with silence():
            warn()
        assert len(warnings.filters) == len(swapped) - 1
