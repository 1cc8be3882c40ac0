"""Paths in messages can be typed as they are, wherever the user is."""

import shutil

import pytest

from faemb.collection.layout import repair_command, typed
from faemb.errors import InputError


def test_below_the_current_folder_and_elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert typed(tmp_path / "alone" / "p60.faemb") == "alone/p60.faemb"
    assert typed("alone/../p60.faemb") == "p60.faemb"
    assert typed(tmp_path) == "."
    assert typed(tmp_path.parent / "other") == str(tmp_path.parent / "other")
    assert typed("my photos.faemb") == "'my photos.faemb'"
    assert repair_command(tmp_path / "c.faemb" / "vectors-1.f32") == "faemb check c.faemb --repair"


def test_the_hint_of_an_update(collection, photos, monkeypatch):
    shutil.rmtree(photos)
    monkeypatch.chdir(photos.parent.parent)
    here = photos.parent.name
    words = f"faemb relocate {here}/photos.faemb {here}/photos NEW_FOLDER, .* faemb remove {here}/photos.faemb"
    with pytest.raises(InputError, match=words):
        collection.update()
