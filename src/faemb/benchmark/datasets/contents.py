"""Images and files of ground truth in the folder of a benchmark."""

import re
from dataclasses import dataclass
from pathlib import Path

from faemb.errors import InputError
from faemb.features.folders import files_below, is_image

_GROUND_TRUTH = re.compile(r"gt\.tsv|gnd_\w+\.pkl|.+_(query|good|ok|junk)\.txt")


@dataclass(frozen=True)
class Contents:
    folder: Path
    images: tuple[Path, ...]
    ground_truth: tuple[Path, ...]

    def has(self, name: str) -> bool:
        return any(path.name == name for path in self.ground_truth)

    def file(self, name: str) -> Path:
        """The only file of ground truth with this name, in the folder or below."""
        found = [path for path in self.ground_truth if path.name == name]
        if not found:
            raise InputError(f"there is no {name} in {self.folder} or below; put it there")
        if len(found) > 1:
            places = ", ".join(str(path.parent) for path in found[:3])
            raise InputError(f"{self.folder} holds {len(found)} files {name}, in {places}; open one of these folders")
        return found[0]


def contents_of(folder: Path) -> Contents:
    """Images and ground truth in the folder and all subfolders."""
    if not folder.is_dir():
        raise InputError(f"there is no folder {folder}; expected one with the images of a benchmark")
    files = list(files_below(folder, lambda path: is_image(path) or _is_ground_truth(path)))
    images = tuple(path for path in files if is_image(path))
    if not images:
        raise InputError(f"{folder} holds no images; expected those of a benchmark, in the folder or below")
    return Contents(folder, images, tuple(path for path in files if _is_ground_truth(path)))


def _is_ground_truth(path: Path) -> bool:
    return _GROUND_TRUTH.fullmatch(path.name) is not None
