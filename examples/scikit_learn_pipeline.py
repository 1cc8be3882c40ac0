"""Use an encoder as a step of a scikit-learn pipeline: from sets of descriptors to binary codes in one object."""

import numpy as np
from sklearn.pipeline import Pipeline

from faemb import ITQ, Encoder, FastFAemb, HessianAffine, Projection, Whitening, hamming
from faemb.demo import lamp_light, pictures


def main() -> None:
    extractor = HessianAffine(max_features=200)
    shown = list(pictures().values())
    sets = [extractor.extract(pixels).descriptors for pixels in shown]
    mirrored = [extractor.extract(pixels[:, ::-1]).descriptors for pixels in shown]  # more to learn from

    pipeline = Pipeline(
        [
            ("encode", Encoder(FastFAemb(4, unit_residuals=True), projection=Projection(16), whitening=Whitening())),
            ("code", ITQ(bits=16)),
        ]
    )
    codes = pipeline.fit(sets + mirrored).transform(sets)

    query = extractor.extract(lamp_light(shown[3])).descriptors  # the fourth picture in evening light
    distances = hamming(pipeline.transform([query]), codes)[0]
    print(f"{codes.shape[1] * 8} bits an image; nearest to the query: picture {int(np.argmin(distances)) + 1}")


if __name__ == "__main__":
    main()
