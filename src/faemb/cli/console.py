"""What the commands print: results on the standard output, progress and warnings on the standard error."""

import sys
from types import TracebackType
from typing import Any

import typer

WIDE = 160


def result(text: str) -> None:
    """What the output cannot show, such as a file name that is no text, is written as an escape."""
    encoding = sys.stdout.encoding or "utf-8"
    print(text.encode(encoding, "backslashreplace").decode(encoding))


def print_table(table: Any) -> None:
    """One of rich, as wide as the terminal; wide enough for long cells where there is none."""
    from rich.console import Console

    console = Console(width=None if sys.stdout.isatty() else WIDE, highlight=False, soft_wrap=False)
    with console.capture() as captured:
        console.print(table)
    result(captured.get().rstrip("\n"))


def print_json(value: Any) -> None:
    import json

    try:
        text = json.dumps(value, ensure_ascii=False, indent=2)
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(value, indent=2)
    print(text)


def warning(text: str) -> None:
    print(f"faemb: {text}", file=sys.stderr)


def counted(images: int) -> str:
    return f"{images} {'image' if images == 1 else 'images'}"


def failed_if_nothing_was_read(report: Any) -> None:
    """A command that could use none of the images that it was given ends with code 1."""
    if report.failed and not report.added + report.changed + report.unchanged:
        raise typer.Exit(1)


class Live:
    """A line per stage with a bar, the rate, and the time left; only where someone looks, never into a file.

    Used as the `progress` of a long call: live(stage, done, total).
    """

    def __init__(self, quiet: bool) -> None:
        self._hidden = quiet or not sys.stderr.isatty()
        self._stages: dict[str, Any] = {}

    def __enter__(self) -> "Live":
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            disable=self._hidden,
        )
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()

    def __call__(self, stage: str, done: int, total: int) -> None:
        if stage not in self._stages:
            self._stages[stage] = self._bars.add_task(stage, total=total, rate="")
        task = self._bars.tasks[self._stages[stage]]
        speed = task.speed
        self._bars.update(
            self._stages[stage], completed=done, total=total, rate=f"{speed:.1f} per second" if speed else ""
        )
