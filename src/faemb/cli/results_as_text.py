"""Answers, groups of copies and facts about a collection: as lines of text, and as JSON."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from faemb.pages import counted, file_facts, percent

if TYPE_CHECKING:
    from faemb.collection import Answer, Group, Hit, Info


def answer_lines(answers: Sequence["Answer"], box: str | None, html: Path | None) -> Iterator[str]:
    region = "" if box is None else f" in the box {box}"
    cure = "give a larger or more detailed picture" + ("" if box is None else " or another box")
    for answer in answers:
        if answer.features:
            yield f"{answer.query}: {answer.features} local features"
            if answer.nothing:
                yield f"  {answer.nothing}"
        else:
            yield f"{answer.query} has no local features{region}, so nothing is similar to it; {cure}"
        yield from _hit_lines(answer.hits)
        if answer.note:
            yield f"  ({answer.note})"
    if html is not None:
        yield f"written to {html}"


def _hit_lines(hits: Sequence["Hit"]) -> Iterator[str]:
    """One line per hit, and one before the first whose verdict is "unsure"."""
    rank, confirmed = 0, True
    others = [hit for hit in hits if not hit.itself]
    if others and others[0].verdict == "unsure":
        yield "  no confirmed match; most similar images:"
        confirmed = False
    for hit in hits:
        rank += not hit.itself
        if confirmed and not hit.itself and hit.verdict == "unsure":
            confirmed = False
            yield "  not confirmed (confidence below 50 %):"
        place = "     " if hit.itself else f"{rank:4d}."
        yield f"{place} {_judged(hit)}{_similarity(hit)}  {hit.path}{_relation(hit)}"


def _similarity(hit: "Hit") -> str:
    return "  none" if hit.similarity is None else f"{hit.similarity:6.3f}"


def _judged(hit: "Hit") -> str:
    """Confidence as text, in a column."""
    if hit.confidence is None:
        return ""
    word = "" if hit.verdict == "unsure" else hit.verdict
    return f"{word:5} {percent(hit.confidence):>4} "


def _relation(hit: "Hit") -> str:
    """What it is to the query, and whether its file is still the one that was indexed."""
    from faemb.collection.file_state import in_words, is_astray

    if hit.itself:
        return "  (the query itself)"
    through = f"found through {hit.through.name}" if hit.through is not None and hit.verdict != "unsure" else ""
    copy = "copy of the query" if hit.copy_of_query and not is_astray(hit.state) else ""
    marks = [through or copy, in_words(hit.state)]
    return "".join(f"  ({mark})" for mark in marks if mark)


def answer_as_json(answer: "Answer") -> dict[str, object]:
    return {
        "query": answer.query,
        "features": answer.features,
        "hits": [hit_as_json(answer, hit) for hit in answer.hits],
        "note": answer.note,
    }


def hit_as_json(answer: "Answer", hit: "Hit") -> dict[str, object]:
    found, regions = hit.verification, answer.overlap(hit)
    return {
        "path": str(hit.path),
        "similarity": hit.similarity,
        "itself": hit.itself,
        "copy_of_query": hit.copy_of_query,
        "state": hit.state,
        "confidence": hit.confidence,
        "verdict": hit.verdict or None,
        "through": None if hit.through is None else str(hit.through),
        "verified": found is not None,
        "evidence": None if found is None else found.evidence,
        "matches": None if found is None else len(found.matches),
        "agreeing": None if found is None else int(found.agreeing.sum()),
        "transform": None if found is None or found.transform is None else found.transform.tolist(),
        "overlap": None if regions is None else {"query": regions[0].tolist(), "result": regions[1].tolist()},
    }


def group_as_json(group: "Group") -> dict[str, object]:
    images = [{**asdict(image), "path": str(image.path), "date": image.date.isoformat()} for image in group.images]
    similarity = {"smallest": group.smallest, "largest": group.largest, "all_pairs": group.all_pairs}
    return {
        "kind": group.kind,
        "similarity": similarity,
        "keep": images[0]["path"],
        "reason": group.reason,
        "images": images,
    }


def group_lines(groups: Sequence["Group"], html: Path | None) -> Iterator[str]:
    from faemb.collection.file_state import in_words

    for number, group in enumerate(groups, 1):
        yield f"{number}. {group.kind}: {counted(len(group.images))}, {group.similarity}"
        for place, image in enumerate(group.images):
            keep, reason = ("   ", "") if place else ("keep", f"  ({group.reason})")
            state = f"  ({in_words(image.state)})" if in_words(image.state) else ""
            yield f"   {keep:4}  {image.path}  {', '.join(file_facts(image))}{reason}{state}"
    yield counted(len(groups), "group") + (f"; written to {html}" if html else "")


def info_lines(collection: Path, known: "Info") -> Iterator[str]:
    yield f"{collection}: {counted(known.images)}, {known.searchable:,} searchable, {known.bytes / 1e6:.1f} MB"
    if known.without_features:
        yield f"  {known.without_features} without local features: ranked last"
    if known.waiting:
        cure = f"a command was interrupted; run: faemb update {quote(str(collection))}"
        state = "another process is working on it" if known.is_being_changed else cure
        yield f"  {known.waiting} not encoded yet: {state}"
    for path, reason in known.unreadable.items():
        yield f"  not readable: {path} ({reason})"
    if known.removed:
        yield f"  {known.removed} removed: skipped when folders are searched; {way_back(collection)}"
    for folder in known.folders:
        without = ", ".join(known.excluded.get(folder, ()))
        yield f"  folder {folder}" + (f", without {without}" if without else "")
    yield f"  features {known.extractor}"
    parts = f", also of {known.parts} x {known.parts} parts of each image" if known.parts else ""
    yield f"  encoder  {known.encoder}, {known.dimension} dimensions{parts}"
    if known.model_fault is not None:
        yield f"  cannot search: {known.model_fault}"
    yield f"  index    {known.index}" + (f", now {known.index_in_use}" if known.index == "auto" else "")
    if known.store is not None:
        yield f"  vectors  {known.store}"
    for address in known.left_stores:
        yield f"  not in use any more: {address}; it is deleted with a later change, when its server answers"
        yield f"    if that is gone for good: faemb copy {quote(str(collection))} {address} --forget"
    if known.dimension:
        cure = f"; learn again with: faemb relearn {quote(str(collection))}" if known.relearning_is_due else ""
        yield f"  {_history(known)}{cure}"


def way_back(collection: Path) -> str:
    return f"to bring one back: faemb add {quote(str(collection))} FILE"


def _history(known: "Info") -> str:
    from faemb.collection.relearning import history

    return history(known.learned_from, known.images - known.without_features)


def check_summary(collection: Path, faults: int, remaining: int, repair: bool) -> str:
    if not faults:
        return f"{collection} is undamaged"
    found = f"{counted(faults, 'fault')} in {collection}"
    if not repair:
        return f"{found}; repair with: faemb check {quote(str(collection))} --repair"
    return f"{faults - remaining} of {found} repaired"
