"""Limits for one input, as environment variables, and the sentences of those who exceed them."""

import os

import pytest

from faemb.errors import InputError
from faemb.runtime.limits import in_words, item_memory, item_seconds, require_memory, require_plain_file


@pytest.mark.parametrize(
    ("given", "expected"), [("", 10**9), ("4GB", 4 * 10**9), ("500 mb", 5 * 10**8), ("12", 12), ("12B", 12)]
)
def test_memory_for_one_item_is_read_from_the_environment(monkeypatch, given, expected):
    monkeypatch.setenv("FAEMB_ITEM_MEMORY", given)
    assert item_memory() == expected


@pytest.mark.parametrize("given", ["much", "-1", "0", "1.5GB", "9" * 400, "4XB"])
def test_a_memory_limit_that_is_no_size_is_explained(monkeypatch, given):
    monkeypatch.setenv("FAEMB_ITEM_MEMORY", given)
    with pytest.raises(InputError, match=r"FAEMB_ITEM_MEMORY is .*; expected a number of bytes, such as 4GB"):
        item_memory()


@pytest.mark.parametrize(("given", "expected"), [("", 120.0), ("0", None), ("2.5", 2.5)])
def test_time_for_one_item_is_read_from_the_environment(monkeypatch, given, expected):
    monkeypatch.setenv("FAEMB_ITEM_SECONDS", given)
    assert item_seconds() == expected


@pytest.mark.parametrize("given", ["long", "-1", "nan", "inf", "1e999"])
def test_a_time_limit_that_is_no_time_is_explained(monkeypatch, given):
    monkeypatch.setenv("FAEMB_ITEM_SECONDS", given)
    with pytest.raises(InputError, match=r"FAEMB_ITEM_SECONDS is .*; expected a number of seconds"):
        item_seconds()


def test_what_needs_too_much_memory_is_refused_with_the_setting_that_allows_it(monkeypatch):
    monkeypatch.delenv("FAEMB_ITEM_MEMORY", raising=False)
    require_memory(10**9, "a.png")
    with pytest.raises(InputError, match=r"a\.png needs 2\.4 GB of memory; .* 1 GB: .* FAEMB_ITEM_MEMORY=3GB"):
        require_memory(2_400_000_000, "a.png")
    monkeypatch.setenv("FAEMB_ITEM_MEMORY", "3GB")
    require_memory(2_400_000_000, "a.png")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_only_plain_files_are_opened(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_bytes(b"x")
    assert require_plain_file(tmp_path / "file", "an image file").st_size == 1
    for name, words in (("pipe", "is a pipe"), (".", "is a folder"), ("none", "there is no file"), ("a\0b", "cannot")):
        with pytest.raises(InputError, match=f"{words}.*expected an image file"):
            require_plain_file(tmp_path / name, "an image file")


def test_sizes_in_words():
    assert [in_words(size) for size in (0, 999, 2400, 5 * 10**8, 2_400_000_000, 10**19)] == [
        "0 bytes", "999 bytes", "2.4 KB", "500 MB", "2.4 GB", "10,000,000,000 GB"
    ]  # fmt: skip
