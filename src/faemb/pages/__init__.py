"""Pages, reports and plots: HTML pages that need no other file, and the results of benchmark runs."""


def counted(count: int, one: str = "image", many: str = "") -> str:
    """The number with its noun, whose plural ends in s unless it is given."""
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"
