"""Answers to queries. The last ones are kept, so that further pages of an answer, or its address, cost nothing."""

from collections import OrderedDict
from dataclasses import dataclass

from faemb.collection import Answer, Collection
from faemb.web.queries import Question

_KEPT = 64
MOST_HITS = 1000


@dataclass(frozen=True)
class AnswerOptions:
    """How to search."""

    verify: int
    least_confidence: float | None
    expand: str
    among: frozenset[int] | None
    """Numbers of the images that may be results; None: all."""


class Answers:
    """Cache of the last answers; not thread-safe."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[object, ...], Answer] = OrderedDict()

    def get(self, photos: Collection, question: Question, wanted: AnswerOptions) -> Answer:
        key = photos.state(), *_asked(question), wanted
        if key not in self._kept:
            self._kept[key] = _found(photos, question, wanted)
        self._kept.move_to_end(key)
        if len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return self._kept[key]


def _asked(question: Question) -> tuple[object, ...]:
    """All that an answer depends on. A small query is described at twice its size only while its file can be read."""
    is_enlarged = bool(question.features.others)
    return question.key, question.source.content, question.box, question.turned, is_enlarged


def _found(photos: Collection, question: Question, wanted: AnswerOptions) -> Answer:
    (answer,) = photos.search_features(
        [question.features],
        names=[question.source.name],
        files=[question.source.file],
        contents=[question.source.content],
        top=MOST_HITS,
        verify=wanted.verify,
        least_confidence=wanted.least_confidence,
        expand=wanted.expand,
        among=wanted.among,
    )
    return answer
