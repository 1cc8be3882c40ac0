"""New names of images whose files have been moved, without reading the files."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from faemb.collection.catalogue import Catalogue
from faemb.collection.exclusions import rename_excluded
from faemb.collection.layout import Layout, typed
from faemb.collection.sources import is_below, is_there
from faemb.errors import InputError
from faemb.runtime.paths_and_urls import is_folder

_TABLES = ("images", "folders", "unreadable", "removed")
"""Tables of the catalogue that hold paths."""
_MOVING = "\0\0"
"""Prefix of no stored name. Names first move there, since a new name may be another image's old one."""


def relocate(layout: Layout, catalogue: Catalogue, old: Path, new: Path) -> int:
    """Replace the folder or file `old` by `new` in all stored names; returns the number of images."""
    before = {table: catalogue.names_in(table) for table in _TABLES}
    after = {table: _renamed(layout, names, old, new) for table, names in before.items()}
    if not any(after.values()):
        raise InputError(f"there is nothing of {old} in {layout.folder}; its folders: {_listed(layout, catalogue)}")
    _require_present(layout, after["images"].values(), old, new)
    _require_free(layout, set(before["images"]) - after["images"].keys(), after["images"])
    with catalogue.change():
        for table, names in after.items():
            catalogue.rename_all(table, {name: _MOVING + renamed for name, renamed in names.items()})
        for table, names in after.items():
            catalogue.rename_all(table, {_MOVING + renamed: renamed for renamed in names.values()})
        for name in after["images"].values():
            catalogue.forget_unreadable(name)
            catalogue.forget_removed(name)
        rename_excluded(catalogue, after["folders"])
    return len(after["images"])


def _renamed(layout: Layout, names: Iterable[str], old: Path, new: Path) -> dict[str, str]:
    """The new name for each name of `old` and below."""
    paths = {name: layout.path_of(name) for name in names}
    return {
        name: layout.name_of(new / path.relative_to(old)) for name, path in paths.items() if is_below(path, str(old))
    }


def _listed(layout: Layout, catalogue: Catalogue) -> str:
    return ", ".join(str(layout.path_of(name)) for name in catalogue.folders()) or "none"


def _require_present(layout: Layout, images: Iterable[str], old: Path, new: Path) -> None:
    """At least one image must be at its new path: otherwise `update` would take them all for deleted."""
    paths = [layout.path_of(name) for name in images]
    if not (is_folder(new) or is_there(new)):
        raise InputError(f"there is no file or folder {new}; move the images first, or connect their drive")
    if paths and not any(map(is_there, paths)):
        raise InputError(f"none of the {len(paths)} images of {old} is in {new}, such as {paths[0]}; check both names")


def _require_free(layout: Layout, others: set[str], images: Mapping[str, str]) -> None:
    taken = sorted(others.intersection(images.values()))
    if taken:
        path = layout.path_of(taken[0])
        raise InputError(
            f"{path} is in the collection already, as another image; "
            f"remove it first with: faemb remove {typed(layout.folder)} {typed(path)}"
        )
