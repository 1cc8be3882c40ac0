"""Index a folder of pictures, then search it with a part of one of them."""

import tempfile
from pathlib import Path

from faemb import Collection, HessianAffine, new_model
from faemb.demo import pictures, render_views


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        # Any folder of pictures will do; this one holds three pictures and seven photographs of each.
        folder = Path(temporary) / "photos"
        groups = render_views(folder, dict(list(pictures().items())[:3]))
        query = groups[0][0]

        with Collection.create(Path(temporary) / "photos.faemb", new_model(HessianAffine(max_features=200))) as photos:
            photos.add(folder)  # extracts local features, learns a model from these very pictures, stores vectors
            (answer,) = photos.search(query, top=7, box=(40, 40, 360, 260))  # the region x1, y1, x2, y2 of the query

        for hit in answer.hits:
            print(f"{hit.similarity:.3f}  {hit.path.relative_to(folder)}")


if __name__ == "__main__":
    main()
