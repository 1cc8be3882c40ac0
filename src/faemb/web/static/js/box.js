/*
The box on the query: drawn, moved and resized by mouse, touch or keyboard.
A box is [x1, y1, x2, y2] in pixels of the image, and includes both corners.
*/

import { element, say } from "./dom.js";
import { words } from "./words.js";

const HANDLES = ["nw", "n", "ne", "e", "se", "s", "sw", "w"];
const STEP = 0.02;
/** Part of a side that a press of an arrow key moves the box by. */
const LEAST = 8;
/** Smallest side of a box on the screen: a smaller one is a click. */
const BY_FINGER = ["touch", "pen"];
/** Pointers that scroll the page, unless they are on the box or a box is to be drawn. */

export class BoxEditor {
  /** `surface` shows exactly the image. onDone(box) is called when a box is let go, or removed (null). */
  constructor(surface, onDone) {
    Object.assign(this, { surface, onDone, size: null, box: null, drag: null });
    this.frame = element(
      "div", { class: "box-frame", hidden: true },
      HANDLES.map((handle) => element("i", { class: `handle ${handle}`, "data-handle": handle })),
    );
    surface.append(this.frame);
    surface.addEventListener("pointerdown", (event) => this.#grab(event));
    surface.addEventListener("pointermove", (event) => this.drag && this.#pull(event));
    surface.addEventListener("pointerup", () => this.drag && this.#release());
    surface.addEventListener("pointercancel", () => this.drag && this.#giveUp());
    surface.addEventListener("keydown", (event) => this.#key(event));
  }

  /** Show a box, or none, on an image of this size. */
  show(size, box) {
    if (this.drag) return;
    Object.assign(this, { size, box });
    this.#draw();
  }

  /** The next finger draws a box, or again scrolls the page. */
  draw(on) {
    this.drawing = on;
    this.surface.classList.toggle("drawing", on);
  }

  remove() {
    this.box = null;
    this.#draw();
    say(words.box.removed);
    this.onDone(null);
  }

  // Mouse and touch

  #grab(event) {
    if (!this.size || event.button !== 0) return;
    const outside = event.target === this.surface;
    if (outside && !this.drawing && BY_FINGER.includes(event.pointerType)) return;
    event.preventDefault();
    this.surface.focus({ preventScroll: true });
    this.surface.setPointerCapture(event.pointerId);
    const handle = event.target.dataset.handle ?? (outside ? "new" : "move");
    this.drag = { handle, from: this.#point(event), edges: edgesOf(this.box ?? [0, 0, -1, -1]), before: this.box };
  }

  #pull(event) {
    const at = this.#point(event);
    const { handle, from, edges } = this.drag;
    const by = [at[0] - from[0], at[1] - from[1]];
    const pulled = { new: () => [...from, ...at], move: () => moved(edges, by, this.size) }[handle];
    const ordered = inOrder(pulled ? pulled() : resized(edges, handle, by), this.size);
    const scale = this.surface.clientWidth / this.size[0];
    const large = Math.min(ordered[2] - ordered[0], ordered[3] - ordered[1]) * scale >= LEAST;
    this.box = large ? boxOf(ordered, this.size) : this.drag.before;
    this.#draw();
  }

  #release() {
    const { before } = this.drag;
    this.drag = null;
    if (String(before) === String(this.box)) return;
    this.#say();
    this.onDone(this.box);
  }

  #giveUp() {
    this.box = this.drag.before;
    this.drag = null;
    this.#draw();
  }

  /** Where a pointer is, in pixels of the image counted from its corner. */
  #point(event) {
    const { left, top, width, height } = this.surface.getBoundingClientRect();
    const parts = [(event.clientX - left) / width, (event.clientY - top) / height];
    return parts.map((part, axis) => Math.min(1, Math.max(0, part)) * this.size[axis]);
  }

  // Keyboard

  #key(event) {
    if (!this.size || event.ctrlKey || event.metaKey || event.altKey) return;
    const arrow = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (arrow && this.box) this.#nudge(arrow, event.shiftKey);
    else if ((event.key === "Enter" || event.key === " ") && !this.box) this.#begin();
    else if (event.key === "Enter") this.onDone(this.box);
    else if (event.key === "Escape" && this.box) this.remove();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  #begin() {
    const [width, height] = this.size;
    this.#set([width / 4, height / 4, (width * 3) / 4, (height * 3) / 4]);
  }

  #nudge(arrow, resize) {
    const by = arrow.map((direction, axis) => direction * Math.max(1, Math.round(STEP * this.size[axis])));
    const edges = edgesOf(this.box);
    const [left, top, right, bottom] = resize ? resized(edges, "se", by) : moved(edges, by, this.size);
    this.#set([left, top, Math.max(right, left + 2), Math.max(bottom, top + 2)]);
  }

  #set(edges) {
    this.box = boxOf(inOrder(edges, this.size), this.size);
    this.#draw();
    this.#say();
  }

  #say() {
    const [left, top, right, bottom] = edgesOf(this.box);
    say(words.box.at(this.box, ((right - left) * (bottom - top)) / (this.size[0] * this.size[1])));
  }

  #draw() {
    this.frame.hidden = !this.box;
    this.surface.classList.toggle("boxed", Boolean(this.box));
    if (!this.box) return;
    const [left, top, right, bottom] = edgesOf(this.box);
    const [width, height] = this.size;
    Object.assign(this.frame.style, {
      left: `${(100 * left) / width}%`, top: `${(100 * top) / height}%`,
      width: `${(100 * (right - left)) / width}%`, height: `${(100 * (bottom - top)) / height}%`,
    });
  }
}

/** Left, top, right and bottom edge of a box, in pixels counted from the image's corner. */
const edgesOf = ([x1, y1, x2, y2]) => [x1, y1, x2 + 1, y2 + 1];

/** The pixels between four edges; at least two each way, as an empty box cannot be searched. */
function boxOf([left, top, right, bottom], [width, height]) {
  const [x1, y1] = [Math.min(Math.round(left), width - 2), Math.min(Math.round(top), height - 2)];
  return [x1, y1, Math.max(x1 + 1, Math.round(right) - 1), Math.max(y1 + 1, Math.round(bottom) - 1)];
}

function moved([left, top, right, bottom], [across, down], [width, height]) {
  const x = Math.min(width - right, Math.max(-left, across));
  const y = Math.min(height - bottom, Math.max(-top, down));
  return [left + x, top + y, right + x, bottom + y];
}

function resized([left, top, right, bottom], handle, [across, down]) {
  return [
    handle.includes("w") ? left + across : left, handle.includes("n") ? top + down : top,
    handle.includes("e") ? right + across : right, handle.includes("s") ? bottom + down : bottom,
  ];
}

/** Edges from left to right and from top to bottom, inside the image. */
function inOrder([left, top, right, bottom], [width, height]) {
  const within = (value, most) => Math.min(most, Math.max(0, value));
  return [
    within(Math.min(left, right), width), within(Math.min(top, bottom), height),
    within(Math.max(left, right), width), within(Math.max(top, bottom), height),
  ];
}

/** "x1,y1,x2,y2" as a box; null if it is none. */
export function parsedBox(text) {
  const corners = text.split(",").map(Number);
  return text && corners.length === 4 && corners.every(Number.isFinite) ? corners : null;
}
