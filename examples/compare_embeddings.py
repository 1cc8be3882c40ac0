"""Compare embeddings on a small set: the mAP of each, with everything else equal.

It shows how to compare, and not which embedding is best: that takes hundreds of queries and longer descriptors, as the
tables of docs/reproduction.md have.
"""

import tempfile
from pathlib import Path

from faemb import VLAD, Encoder, FastFAemb, HessianAffine, Projection, Triangulation, Whitening
from faemb.demo import pictures, render_views
from faemb.embedding import Embedding
from faemb.evaluation import Judgement, mean_average_precision, ranked

EMBEDDINGS: dict[str, Embedding] = {
    "VLAD": VLAD(8),
    "Temb": Triangulation(8),
    "F-FAemb": FastFAemb(2, unit_residuals=True),
}


def main() -> None:
    extractor = HessianAffine(max_features=150)
    with tempfile.TemporaryDirectory() as folder:
        shown = dict(list(pictures().items())[:4])
        groups = render_views(Path(folder), shown)
        sets = [extractor.extract(path).descriptors for group in groups for path in group]

    # Each original is a query: photographs of it are relevant, and it is dropped from its own ranking.
    starts = [sum(map(len, groups[:number])) for number in range(len(groups))]
    judgements = [
        Judgement(range(start + 1, start + len(group)), [start]) for start, group in zip(starts, groups, strict=True)
    ]
    for name, embedding in EMBEDDINGS.items():
        encoder = Encoder(embedding, projection=Projection(16), whitening=Whitening())
        vectors = encoder.fit(sets).encode(sets)
        rankings = (ranked(vectors @ vectors[start]) for start in starts)
        mean = 100 * mean_average_precision(rankings, judgements)
        print(f"{name:8} {encoder.dimension:5} dimensions  mAP {mean:.1f}")


if __name__ == "__main__":
    main()
