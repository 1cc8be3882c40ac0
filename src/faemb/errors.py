"""Errors that a caller can correct. Messages are one sentence: what was given, what was expected, the cure."""


class FaembError(Exception):
    """Base of the package's own errors."""


class InputError(FaembError, ValueError):
    """Data or settings that cannot be used as they are."""


class NotFittedError(FaembError, RuntimeError):
    """A step was used before `fit`."""


class FormatError(FaembError):
    """A file that is not a model of this package, is damaged, or is newer than this version."""


class MissingExtraError(FaembError, ImportError):
    """An optional dependency is needed and not installed."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f'{what} needs the extra {extra!r}: pip install "faemb[{extra}]"')
        self._given = what, extra

    def __reduce__(self) -> "tuple[type[MissingExtraError], tuple[str, str]]":
        """Allows the error to be sent from a worker process."""
        return type(self), self._given
