/* Pictures in a list. */

import { thumbnailOf } from "./addresses.js";
import { element, nameOf } from "./dom.js";
import { words } from "./words.js";

/** Of a thumbnail, before it is loaded: its place does not change when it comes. */
const WIDTH = 240;
const HEIGHT = 180;

/** The thumbnail of an image; a word where it cannot be shown. */
export function thumbnail(image) {
  const shown = element("img", {
    class: "picture", src: thumbnailOf(image), alt: "", width: WIDTH, height: HEIGHT, loading: "lazy",
    decoding: "async", draggable: "false",
  });
  shown.addEventListener(
    "error", () => shown.replaceWith(element("span", { class: "picture missing" }, words.missing)), { once: true },
  );
  return shown;
}

/** A card: the thumbnail as a link to `address`, with `badge` on it; folder and name; then `details`. */
export function card(image, { address, label, badge = null, details = [], actions = [] }) {
  const link = element(
    "a", { class: "open", href: address, "aria-label": label }, thumbnail(image),
    badge && element("span", { class: "badge" }, badge),
  );
  const folder = element("small", {}, nameOf(image.folder.split("/").at(-1)), "/");
  const name = element("p", { class: "name", title: `${image.folder}/${image.name}` }, folder, nameOf(image.name));
  return element(
    "li", { class: "card", "data-id": image.id }, link, name, details, element("p", { class: "actions" }, actions),
  );
}

/** Short facts; a line ends between two of them only. */
export const facts = (texts) => element(
  "p", { class: "detail facts" },
  texts.filter(Boolean).map((text, place, all) => element("span", {}, place < all.length - 1 ? `${text}, ` : text)),
);

export const detail = (text, kind = "") => element("p", { class: `detail ${kind}` }, text);

/** A value from 0 to 1 as a bar. */
export function bar(value, kind = "") {
  const filled = element("i");
  filled.style.width = `${Math.round(100 * Math.min(1, Math.max(0, value)))}%`;
  return element("span", { class: `bar ${kind}`, "aria-hidden": "true" }, filled);
}

/** Cards in place of those that are awaited, of the same size. */
export function skeletons(count) {
  return Array.from({ length: count }, () =>
    element("li", { class: "card skeleton", "aria-hidden": "true" },
      element("span", { class: "picture" }),
      ["name", "detail", "actions"].map((line) => element("p", { class: line }, "\u00a0"))));
}
