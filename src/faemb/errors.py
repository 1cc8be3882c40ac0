"""Errors that a caller can correct. Messages are one sentence: what was given, what was expected, the cure."""

import errno


class FaembError(Exception):
    """Base of the package's own errors."""


class InputError(FaembError, ValueError):
    """Data or settings that cannot be used as they are."""


class LimitError(InputError):
    """An input that exceeds the limit of memory or time per item (`runtime.limits`)."""


class ReadError(InputError):
    """The operating system could not read a file: nothing is known of its content, and it may be readable later."""


class LockedError(FaembError):
    """Another process is changing the collection."""


class RemoteError(FaembError):
    """A server cannot be reached or does not answer; whether a file exists on it is unknown."""


class RefusedError(RemoteError):
    """A server denies access to a file."""


class NotFittedError(FaembError, RuntimeError):
    """A step was used before `fit`."""


class FormatError(FaembError):
    """A model, collection, feature file or run that cannot be read.

    It is damaged, of another kind, or made by a newer version.
    """


class ModelFileError(FormatError):
    """A model file that cannot be used, and the cure for a model on its own; a collection has other cures."""

    def __init__(self, fault: str, cure: str) -> None:
        super().__init__(fault, cure)
        self.fault = fault

    def __str__(self) -> str:
        return "; ".join(self.args)


class DamagedModelError(ModelFileError):
    """The file is missing or damaged, or holds something else."""


class OtherNumbersError(ModelFileError):
    """The file is undamaged, but this version computes other numbers with its settings and arrays."""

    def __init__(self, fault: str, cure: str, made_by: str) -> None:
        super().__init__(fault, cure)
        self.args = fault, cure, made_by
        self.made_by = made_by

    def __str__(self) -> str:
        return "; ".join(self.args[:2])


class MissingExtraError(FaembError, ImportError):
    """An optional dependency is needed and not installed."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f'{what} needs the extra {extra!r}: pip install "faemb[{extra}]"')
        self._given = what, extra

    def __reduce__(self) -> "tuple[type[MissingExtraError], tuple[str, str]]":
        """Allows the error to be sent from a worker process."""
        return type(self), self._given


def reason(error: BaseException) -> str:
    """The first line of an error's message, at most 200 characters; the type of an error without a message."""
    text = str(getattr(error, "strerror", None) or error).strip() or type(error).__name__
    line = text.splitlines()[0].rstrip(" .")
    return line if len(line) <= 200 else line[:197] + "..."


def is_of_the_system(error: BaseException) -> bool:
    """Whether the operating system could not read, for lack of permission for example.

    For damaged content libraries raise OSErrors without a number, or seek to where no file reaches (EINVAL).
    """
    return isinstance(error, OSError) and error.errno not in (None, errno.EINVAL)


TOO_FEW_FILES = "this process may open too few files at a time; allow more with: ulimit -n 1024, and run it again"


def is_lack_of_open_files(error: BaseException | None) -> bool:
    """Whether an error, or one that caused it, means that the limit of open files is reached."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
            return True
        error = error.__cause__ or error.__context__
    return False


class Fault(str):
    """A sentence on what is wrong with a file or folder, and the path of that file or folder."""

    path: str

    def __new__(cls, sentence: str, path: object) -> "Fault":
        fault = super().__new__(cls, sentence)
        fault.path = str(path)
        return fault

    def __reduce__(self) -> tuple[type["Fault"], tuple[str, str]]:
        """Allows faults to be copied, and to be sent from a worker process."""
        return type(self), (str(self), self.path)


def about(path: object, fault: Exception | str) -> Fault:
    """A sentence on what is wrong with a file; it begins with the path unless the message contains it."""
    text = str(fault)
    if isinstance(fault, Exception) and not isinstance(fault, FaembError):
        text = f"an unexpected fault, please report it ({reason(fault)})"
    return Fault(text if str(path) in text else f"{path}: {text}", path)
