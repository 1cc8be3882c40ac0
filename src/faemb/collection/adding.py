"""Images are added: read, then the model learns, from the first ones or again if outgrown, and encodes them."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from faemb.collection.current_model import CurrentModel
from faemb.collection.encoding import encode_elsewhere
from faemb.collection.gathering import gather
from faemb.collection.relearning import Notice, has_outgrown, is_due, no_notice, obstacle, relearn
from faemb.collection.writing import LearningError, Report, Writer
from faemb.errors import FormatError, InputError
from faemb.features.folders import Found, by_suffix
from faemb.runtime.parallel import Jobs, Machines


class Growth(NamedTuple):
    """Whether to learn an outgrown model again, and the function that is called before."""

    wanted: bool
    notice: Notice | None


@contextmanager
def adding(writer: Writer, current: CurrentModel, found: Found, jobs: Jobs, growth: Growth) -> Iterator[Report]:
    """Store images; after the block, which may remove others, learn if necessary and encode."""
    start, report = time.monotonic(), report_on(found)
    outgrown = has_outgrown(writer.catalogue)
    gather(writer, _not_removed(writer, found.images, report), current.get(), jobs, report)
    yield report
    if not current.get().is_fitted:
        learn(writer, current, report, jobs)
    elif growth.wanted and is_due(writer.catalogue):
        _grow(writer, current, report, growth.notice or no_notice, jobs, said=outgrown)
    if isinstance(jobs, Machines):
        encode_elsewhere(writer, current.get(), jobs)
    writer.encode_waiting(current.get())
    report.seconds = time.monotonic() - start


def learn(writer: Writer, current: CurrentModel, report: Report, jobs: Jobs) -> None:
    """Fit the model on the images that are stored."""
    model = current.get()
    current.forget()  # read again if learning fails, since it may be partly fitted
    try:
        current.keep(model, writer.learn(model, jobs))
    except InputError as error:
        raise LearningError(str(error), report) from error


def learn_again(
    writer: Writer, current: CurrentModel, report: Report, notice: Notice | None, jobs: Jobs = None
) -> None:
    """Replace the model by one that has learned from all images, and encode them with it."""
    done = relearn(writer, current.to_learn(), notice or no_notice, jobs)
    current.keep(done.model, done.fingerprint)
    report.relearned_from = done.learned_from


def report_on(found: Found) -> Report:
    """A new report, with unreadable files and files of other kinds."""
    return Report(failed=list(found.unreadable), passed_over=by_suffix(found.others))


def _not_removed(writer: Writer, images: Sequence[Path], report: Report) -> list[Path]:
    """The images that were not removed by the user."""
    if not writer.catalogue.has_removed():  # avoids building a name for every image
        return list(images)
    names = [writer.layout.name_of(image) for image in images]
    removed = writer.catalogue.removed_among(names)
    kept = [image for image, name in zip(images, names, strict=True) if name not in removed]
    report.kept_out = len(images) - len(kept)
    return kept


def _grow(writer: Writer, current: CurrentModel, report: Report, notice: Notice, jobs: Jobs, *, said: bool) -> None:
    """Learn the model again if possible; if not, say so, unless that was `said` by an earlier change."""
    hindrance = obstacle(writer.layout, writer.catalogue)
    if hindrance is not None:
        if not said:
            notice(f"the collection has outgrown its model; {hindrance}")
        return
    try:
        learn_again(writer, current, report, notice, jobs)
    except (InputError, FormatError) as error:  # the images are added with the old model
        notice(f"the model was not learned again: {error}")
