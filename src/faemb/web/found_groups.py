"""Groups that a job has found, as far as their images are still the same."""

from dataclasses import replace
from typing import NamedTuple

from faemb.collection import Collection, Group, GroupedImage, Groups
from faemb.collection.catalogue import Entry
from faemb.collection.originals import by_worth


class Together(NamedTuple):
    """A group, and the entries of its images in the same order."""

    group: Group
    entries: list[Entry]


class _Member(NamedTuple):
    image: GroupedImage
    id: int
    hash: str
    """Of the content that was compared: a file that has changed since is another picture."""


class FoundGroups:
    def __init__(self, photos: Collection, groups: Groups) -> None:
        self.note = groups.note
        self._groups = [(group, _members(photos, group)) for group in groups]
        self._state: tuple[int, int] | None = None
        self._remaining: list[Together] = []

    def __len__(self) -> int:
        return len(self._groups)

    def remaining(self, photos: Collection) -> list[Together]:
        """Without images that were removed or changed, and without groups of fewer than two. Used by one thread."""
        state = photos.state()
        if state != self._state:
            now = (_narrowed(photos, group, members) for group, members in self._groups)
            self._remaining, self._state = [each for each in now if each is not None], state
        return self._remaining


def _members(photos: Collection, group: Group) -> list[_Member]:
    entries = ((image, photos.entry(image.path)) for image in group.images)
    return [_Member(image, entry.id, entry.hash) for image, entry in entries if entry is not None]


def _narrowed(photos: Collection, group: Group, members: list[_Member]) -> Together | None:
    entries = {
        member.image.path: entry
        for member in members
        if (entry := photos.entry(member.id)) is not None and entry.hash == member.hash
    }
    if len(entries) < 2:
        return None
    if len(entries) < len(group.images):
        images, reason = by_worth([image for image in group.images if image.path in entries])
        group = replace(group, images=images, reason=reason)
    return Together(group, [entries[image.path] for image in group.images])
