"""Files that a catalogue knows and that are no images of its collection: removed ones, and unusable ones."""

from collections.abc import Iterable
from dataclasses import dataclass

from faemb.collection.facts import Facts
from faemb.collection.transactions import marks, portions


@dataclass(frozen=True)
class Seen:
    """Size and modification time of a file: if both are the same, the file is taken to be unchanged."""

    bytes: int
    changed: int


class OtherFiles(Facts):
    # Images that were removed, and are skipped when folders are searched.

    def removed(self) -> frozenset[str]:
        return frozenset(path for (path,) in self._verified("removed"))

    def add_removed(self, path: str) -> None:
        self.run("insert or ignore into removed (path) values (?)", path)

    def has_removed(self) -> bool:
        return bool(self._one("select exists (select 1 from removed)"))

    def removed_among(self, names: Iterable[str]) -> frozenset[str]:
        """The paths among these that were removed."""
        return frozenset(
            path
            for part in portions(list(names))
            for (path,) in self._verified("removed", f"where path in ({marks(part)})", *part)
        )

    def forget_removed(self, path: str) -> None:
        self.run("delete from removed where path = ?", path)

    # Files that could not be used.

    def add_unreadable(self, path: str, seen: Seen, reason: str) -> None:
        text = reason.encode(errors="backslashreplace").decode()
        statement = "insert or replace into unreadable (path, bytes, changed, reason) values (?, ?, ?, ?)"
        self.run(statement, path, seen.bytes, seen.changed, text)

    def forget_unreadable(self, path: str) -> None:
        self.run("delete from unreadable where path = ?", path)

    def unreadable(self) -> dict[str, str]:
        return {path: reason for path, *_, reason in self._verified("unreadable")}
