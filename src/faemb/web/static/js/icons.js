/* Icons as lines in a square of 24 units. */

import { drawn } from "./dom.js";

const SHAPES = {
  search: "M10.5 4a6.5 6.5 0 1 0 0 13a6.5 6.5 0 0 0 0-13zM15.5 15.5L20 20",
  compare: "M3 6h8v12H3zM13 6h8v12h-8zM7 10l10 1M7 14l10 0",
  remove: "M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13M10.5 11v5M13.5 11v5",
  close: "M6 6l12 12M18 6L6 18",
  left: "M15 5l-7 7l7 7",
  right: "M9 5l7 7l-7 7",
  camera: "M3 8h4l2-3h6l2 3h4v11H3zM12 10a3.5 3.5 0 1 0 0 7a3.5 3.5 0 0 0 0-7z",
  image: "M3 5h18v14H3zM3 16l5-5l4 4l3-3l6 5M15.5 8.2a1.3 1.3 0 1 0 0 2.6a1.3 1.3 0 0 0 0-2.6z",
  box: "M4 8V4h4M16 4h4v4M20 16v4h-4M8 20H4v-4",
  add: "M12 5v14M5 12h14",
  save: "M12 4v11M7 11l5 5l5-5M5 20h14",
  again: "M19 12a7 7 0 1 1-2-5M19 4v4h-4",
};

export function icon(name) {
  return drawn(
    "svg", { class: "icon", viewBox: "0 0 24 24", "aria-hidden": "true" }, drawn("path", { d: SHAPES[name] }),
  );
}
