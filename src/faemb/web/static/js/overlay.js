/* The result, laid over the query through the transform between them: faded, wiped or blinking. */

import { drawn, element } from "./dom.js";
import { laidOver, matrix3d } from "./geometry.js";
import { words } from "./words.js";

const BLINK = 700;
/** Milliseconds between the two pictures. */
const LARGEST = 1600;
/** Longer side of the pictures that the server sends. */

export class OverlayView {
  /** onSlide(value) is called when the edge of a wipe is dragged to another place. */
  constructor(onSlide) {
    this.onSlide = onSlide;
    this.query = element("img", { class: "under", alt: "" });
    this.laid = element("img", { class: "laid", alt: "" });
    this.window = element("div", { class: "window" }, this.laid);
    this.outline = drawn("path", { class: "outline" });
    this.edge = element("i", { class: "edge" });
    const drawing = drawn("svg", { class: "over-drawing", "aria-hidden": "true" }, this.outline);
    this.drawing = drawing;
    this.picture = element(
      "div", { class: "over", role: "img", "aria-label": words.compare.overlay }, this.query, this.window, drawing,
      this.edge,
    );
    this.element = element("div", { class: "stage over-stage" }, this.picture);
    this.manner = "fade";
    this.value = 50;
    this.picture.addEventListener("pointerdown", (event) => this.#drag(event));
    this.picture.addEventListener("pointermove", (event) => this.#drag(event));
    new ResizeObserver(() => this.#fit()).observe(this.element);
  }

  show(explanation) {
    const { query, result, overlap, transform } = explanation;
    this.explanation = explanation;
    this.possible = Boolean(transform && overlap && query.width && result.width && overlap[0].length > 2);
    if (!this.possible) return;
    this.query.src = query.picture;
    this.laid.src = result.picture;
    this.drawing.setAttribute("viewBox", `-0.5 -0.5 ${query.width} ${query.height}`);
    this.outline.setAttribute("d", `M${overlap[0].map((corner) => corner.join(" ")).join("L")}z`);
    this.#fit();
  }

  /** `manner`: fade, wipe or blink; `value` from 0, the query, to 100, the result. */
  choose(manner, value) {
    Object.assign(this, { manner, value });
    clearInterval(this.blinking);
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    if (manner === "blink" && !still) this.blinking = setInterval(() => this.swap(), BLINK);
    this.#fit();
  }

  /** From the query to the result, or back. */
  swap() {
    this.value = this.value > 50 ? 0 : 100;
    this.#apply();
  }

  close() {
    clearInterval(this.blinking);
  }

  /** The edge of a wipe follows the pointer. */
  #drag(event) {
    if (this.manner !== "wipe" || !event.buttons) return;
    event.preventDefault();
    this.picture.setPointerCapture(event.pointerId);
    const { left, width } = this.picture.getBoundingClientRect();
    this.onSlide(Math.round(Math.min(100, Math.max(0, (100 * (event.clientX - left)) / width))));
  }

  #apply() {
    const wipe = this.manner === "wipe";
    this.laid.style.opacity = wipe ? 1 : this.value / 100;
    this.window.style.clipPath = wipe ? `inset(0 ${100 - this.value}% 0 0)` : "none";
    this.edge.hidden = !wipe;
    this.edge.style.left = `${this.value}%`;
  }

  #fit() {
    const room = [this.element.clientWidth, this.element.clientHeight];
    if (!this.possible || !room[0]) return;
    const { query, result, transform, overlap } = this.explanation;
    const size = [query.width, query.height];
    const scale = Math.min(room[0] / size[0], room[1] / size[1]);
    const shown = size.map((side) => side * scale);
    const own = [result.width, result.height];
    const small = own.map((side) => side * Math.min(1, LARGEST / Math.max(...own)));
    Object.assign(this.picture.style, { width: `${shown[0]}px`, height: `${shown[1]}px` });
    Object.assign(
      this.laid.style, { width: `${small[0]}px`, height: `${small[1]}px`, clipPath: polygon(overlap[1], own) },
    );
    const matrix = laidOver(transform, { size, shown }, { size: own, shown: small });
    if (matrix) this.laid.style.transform = matrix3d(matrix);
    this.#apply();
  }
}

/** Only what both show is laid over: beyond the horizon of the transform a picture has no place. */
function polygon(corners, [width, height]) {
  const parts = corners.map(([x, y]) => `${(100 * (x + 0.5)) / width}% ${(100 * (y + 0.5)) / height}%`);
  return `polygon(${parts.join(",")})`;
}
