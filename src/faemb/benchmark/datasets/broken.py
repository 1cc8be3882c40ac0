"""Images of Paris6k that cannot be decoded in the copy that was distributed: its authors list them as corrupt."""

_NUMBERS = {
    "louvre": ("000136", "000146"),
    "moulinrouge": ("000422",),
    "museedorsay": ("001059",),
    "notredame": ("000188",),
    "pantheon": ("000284", "000960", "000974"),
    "pompidou": ("000195", "000196", "000201", "000467", "000640"),
    "sacrecoeur": ("000299", "000330", "000353"),
    "triomphe": ("000662", "000833", "000863", "000867"),
}

BROKEN = frozenset(f"paris_{place}_{number}" for place, numbers in _NUMBERS.items() for number in numbers)
