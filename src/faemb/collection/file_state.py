"""Whether the files of results are still those that were indexed: a collection may have been moved without its images.

A file of the same size and time is taken for unchanged, as `update` does.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from faemb.collection.catalogue import Entry
from faemb.collection.layout import typed
from faemb.collection.sources import is_gone
from faemb.errors import FaembError
from faemb.features.job import content_hash
from faemb.runtime.paths_and_urls import Url

UNCHANGED, CHANGED, MISSING = "unchanged", "changed", "missing"


def state_at_a_glance(path: Path, entry: Entry) -> str | None:
    """unchanged, changed or missing, without opening the file; None if that does not tell, and for a URL."""
    if isinstance(path, Url):
        return None  # its server would be asked
    try:
        status = path.stat()
    except OSError:
        return MISSING if is_gone(path) else None
    if status.st_size != entry.bytes:
        return CHANGED
    return UNCHANGED if status.st_mtime_ns == entry.changed else None


def state_of(path: Path, entry: Entry) -> str | None:
    """unchanged, changed or missing; a file of another time is compared by content. None for a URL."""
    known = state_at_a_glance(path, entry)
    if known is not None or isinstance(path, Url):
        return known
    content = content_now(path)
    return None if content is None else UNCHANGED if content == entry.hash else CHANGED


def content_now(path: Path) -> str | None:
    """Hash of a file's content; None if it cannot be read, or not any more."""
    try:
        return content_hash(path)
    except FaembError:
        return None


def is_astray(state: str | None) -> bool:
    """Whether the file is certainly not the one that was indexed."""
    return state in (CHANGED, MISSING)


def in_words(state: str | None) -> str:
    """What a list of results says of a file; empty if there is nothing to say."""
    return {CHANGED: "changed since it was indexed", MISSING: "not there"}.get(state or "", "")


def note_on_files(collection: Path, folders: Sequence[Path], states: Mapping[Path, str | None]) -> str:
    """What to do about results that are not there or have changed, given the remembered folders; empty if all are."""
    astray = [path for path, state in states.items() if is_astray(state)]
    update = f"faemb update {typed(collection)}"
    if not astray:
        return ""
    if len(astray) < len(states):
        return (
            f"of these {len(states)} files, {len(astray)} cannot be found or changed after indexing; "
            f"run: {update}, or if images were moved: faemb relocate {typed(collection)} OLD NEW"
        )
    old = next((folder for folder in folders if astray[0].is_relative_to(folder)), astray[0].parent)
    return (
        "none of these files is the one that was indexed; if the images are in another folder, run: "
        f"faemb relocate {typed(collection)} {typed(old)} NEW_FOLDER, otherwise: {update}"
    )
