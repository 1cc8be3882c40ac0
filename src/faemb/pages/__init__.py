"""Pages, reports and plots: HTML pages that need no other file, and the results of benchmark runs."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from faemb.collection import GroupedImage, Report


def counted(count: int, one: str = "image", many: str = "") -> str:
    """The number with its noun, whose plural ends in s unless it is given."""
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"


def changes_in_words(report: "Report") -> str:
    """Summary of a change of a collection, such as: 12 images added, 3 removed."""
    left_out = f"left out because {'it was' if report.kept_out == 1 else 'they were'} removed"
    counts = ((report.changed, "changed"), (report.removed, "removed"), (report.unchanged, "unchanged"),
              (report.kept_out, left_out), (len(report.failed), "could not be read"))  # fmt: skip
    moved = [f"{counted(report.moved)} moved"] if report.moved else []
    added = f"{counted(report.added) if report.added else 'no images'} added"
    parts = [added, *moved, *(f"{count:,} {what}" for count, what in counts if count)]
    if report.relearned_from:
        parts.append(f"model learned again from {report.relearned_from:,}")
    return ", ".join(parts)


def percent(probability: float) -> str:
    """A probability rounded down to whole percent, at most 99 %: an estimate is never certain."""
    return f"{min(int(100 * probability), 99)} %"


def file_facts(image: "GroupedImage") -> list[str]:
    """Dimensions, size and date of an image file, as far as they are known."""
    size = f"{image.bytes / 1e6:.1f} MB" if image.bytes >= 1e6 else f"{image.bytes / 1e3:.0f} KB"
    date = f"{'taken' if image.taken else 'changed'} {image.date:%Y-%m-%d}"
    pixels = [f"{image.width:,} x {image.height:,} pixels"] if image.width else []  # unknown in some feature files
    return [*pixels, size, date]
