"""Conversion between files of local features: of one image, of many images, or a folder of files."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from faemb.errors import InputError
from faemb.features.files.formats import FORMATS, MANY_IMAGES, read_features
from faemb.features.files.hloc import is_our_hloc, read_hloc, write_hloc
from faemb.features.files.npz import is_our_npz, write_npz
from faemb.features.local_features import LocalFeatures
from faemb.runtime.storage import AnyPath, require_output, require_outside_collections

Named = tuple[str, LocalFeatures]


def convert(source: AnyPath, out: AnyPath, *, overwrite: bool = False) -> int:
    """Write the features of a file, or of all files of a folder, to `out`; returns the number of images.

    The suffix of `out` gives its format: .npz for one image, .h5 (hloc) for many, none for a folder of .npz files.
    Existing files that this package did not write are replaced only with `overwrite`.
    """
    items, target = named_features(Path(source)), Path(out)
    if target.suffix.lower() in MANY_IMAGES:
        return write_hloc(require_output(target, is_our_hloc, overwrite=overwrite), items)
    if target.suffix.lower() == ".npz":
        return _write_one(items, require_output(target, is_our_npz, overwrite=overwrite), source)
    if target.suffix == "":
        return _write_folder(items, target, overwrite)
    raise InputError(f"features cannot be written as {target}; expected .npz, .h5, or the name of a folder")


def named_features(source: Path) -> Iterator[Named]:
    """The name and features of every image in a file or folder; the name is the path in the folder, without suffix."""
    if source.is_dir():
        files = sorted(path for path in source.rglob("*") if path.suffix.lower() in FORMATS and path.is_file())
        if not files:
            raise InputError(f"the folder {source} holds no features; expected files that end in {', '.join(FORMATS)}")
        return ((str(path.relative_to(source).with_suffix("").as_posix()), read_features(path)) for path in files)
    if source.suffix.lower() in MANY_IMAGES:
        return read_hloc(source)
    return iter([(source.stem, read_features(source))])


def _write_one(items: Iterator[Named], target: Path, source: AnyPath) -> int:
    images = [features for _, features in islice(items, 2)]
    if len(images) != 1:
        found = "several" if images else "no"
        raise InputError(f"{source} holds {found} images, an .npz holds one; give a folder or an .h5 file")
    write_npz(target, images[0])
    return 1


def _write_folder(items: Iterator[Named], folder: Path, overwrite: bool) -> int:
    require_outside_collections(folder)
    written: set[Path] = set()
    for name, features in items:
        place = (folder / f"{name}.npz").resolve()
        if not place.is_relative_to(folder.resolve()):
            raise InputError(f"an image is named {name!r}, which leads out of {folder}; rename it in its file")
        if place in written:
            raise InputError(f"two images are named {name!r}; give each a name of its own")
        place.parent.mkdir(parents=True, exist_ok=True)
        write_npz(require_output(place, is_our_npz, overwrite=overwrite), features)
        written.add(place)
    return len(written)
