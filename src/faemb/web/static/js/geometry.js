/*
Plane transforms as 3 x 3 matrices, by rows. Pixel centres have whole coordinates, as everywhere in faemb: the corner
of an image is at (-0.5, -0.5), and on the screen at (0, 0).
*/

export function product(a, b) {
  return a.map((row) => b[0].map((_, column) => row.reduce((sum, value, each) => sum + value * b[each][column], 0)));
}

/** By Cramer's rule; null if there is none. */
export function inverse([[a, b, c], [d, e, f], [g, h, i]]) {
  const [p, q, r] = [e * i - f * h, f * g - d * i, d * h - e * g];
  const determinant = a * p + b * q + c * r;
  if (!Number.isFinite(1 / determinant)) return null;
  const cofactors = [
    [p, c * h - b * i, b * f - c * e], [q, a * i - c * g, c * d - a * f], [r, b * g - a * h, a * e - b * d],
  ];
  return cofactors.map((row) => row.map((value) => value / determinant));
}

/** From pixels of an image of `size` to the screen, where it is shown as large as `shown`. */
export function toScreen([width, height], [shownWidth, shownHeight]) {
  const [across, down] = [shownWidth / width, shownHeight / height];
  return [[across, 0, across / 2], [0, down, down / 2], [0, 0, 1]];
}

/**
 * The CSS transform that lays the result over the query, both as they are shown: {size, shown}.
 * `transform` leads from pixels of the query to pixels of the result. Null if it cannot be inverted.
 */
export function laidOver(transform, query, result) {
  const back = inverse(transform);
  const fromScreen = inverse(toScreen(result.size, result.shown));
  return back && product(product(toScreen(query.size, query.shown), back), fromScreen);
}

/** As CSS writes it: columns of a 4 x 4 matrix that leaves the depth alone. */
export function matrix3d(matrix) {
  const [[a, b, c], [d, e, f], [g, h, i]] = matrix.map((row) => row.map((value) => value / matrix[2][2]));
  return `matrix3d(${[a, d, 0, g, b, e, 0, h, 0, 0, 1, 0, c, f, 0, i].join(",")})`;
}
