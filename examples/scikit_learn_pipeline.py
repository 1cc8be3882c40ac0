"""Use an encoder as a step of a scikit-learn pipeline: from sets of descriptors to binary codes in one object."""

import numpy as np
from sklearn.pipeline import Pipeline

from faemb import ITQ, Encoder, FastFAemb, HessianAffine, Projection, Whitening, hamming
from faemb.demo import installed_photographs, light


def main() -> None:
    extractor = HessianAffine(max_features=200)
    photographs = list(installed_photographs().values())[:20]
    sets = [extractor.extract(pixels).descriptors for pixels in photographs]

    pipeline = Pipeline(
        [
            ("encode", Encoder(FastFAemb(4, unit_residuals=True), projection=Projection(16), whitening=Whitening())),
            ("code", ITQ(bits=16)),
        ]
    )
    codes = pipeline.fit(sets).transform(sets)

    query = extractor.extract(light(photographs[3])).descriptors  # the fourth photograph in evening light
    distances = hamming(pipeline.transform([query]), codes)[0]
    print(f"{codes.shape[1] * 8} bits an image; nearest to the query: photograph {int(np.argmin(distances)) + 1}")


if __name__ == "__main__":
    main()
