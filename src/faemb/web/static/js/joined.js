/* Two pictures beside each other, with lines between regions that match and the outline of what both show. */

import { drawn, element } from "./dom.js";
import { server } from "./server.js";
import { words } from "./words.js";

const SIDE = 1000;
/** Height of both pictures in units of the drawing, or their width where one stands above the other. */
const MUCH = 1.35;
const GAP = 24;
const APART = 60;
/** Lines that begin and end nearer to others than this are drawn only if there is room. */

export class JoinedView {
  constructor() {
    this.element = element("div", { class: "stage joined-stage" });
    this.shown = { lines: true, others: false, outline: true };
    new ResizeObserver(() => this.#draw()).observe(this.element);
  }

  show(explanation) {
    this.explanation = explanation;
    this.laid = null;
    this.#draw();
  }

  /** Which of lines, others and outline are drawn. */
  choose(what, on) {
    this.shown[what] = on;
    this.element.classList.toggle(`without-${what}`, !on);
  }

  #draw() {
    const room = [this.element.clientWidth, this.element.clientHeight];
    if (!this.explanation || !room[0]) return;
    const places = arranged(this.explanation, room);
    const arrangement = JSON.stringify(places);
    if (arrangement === this.laid) return;
    this.laid = arrangement;
    for (const what of Object.keys(this.shown)) this.choose(what, this.shown[what]);
    this.element.replaceChildren(drawing(this.explanation, places));
  }
}

/** Both pictures side by side, or one above the other where they are much larger so. */
function arranged({ query, result }, [width, height]) {
  const shapes = [query, result].map((side) => shapeOf(side));
  const beside = placed(shapes.map((shape) => [SIDE * shape, SIDE]), 0);
  const above = placed(shapes.map((shape) => [SIDE, SIDE / shape]), 1);
  const area = ({ size, pictures }) => Math.min(width / size[0], height / size[1]) ** 2 * pictures.reduce(
    (sum, each) => sum + each.width * each.height, 0,
  );
  return MUCH * area(beside) >= area(above) ? beside : above;
}

/** Width by height; a file of features can state any size, or none. */
const shapeOf = ({ width, height }) => Math.min(20, Math.max(1 / 20, width / height || 4 / 3));

function placed(sizes, axis) {
  const pictures = [];
  let at = 0;
  for (const [width, height] of sizes) {
    pictures.push({ x: axis ? 0 : at, y: axis ? at : 0, width, height });
    at += (axis ? height : width) + GAP;
  }
  return { axis, pictures, size: axis ? [SIDE, at - GAP] : [at - GAP, SIDE] };
}

function drawing(explanation, { axis, pictures, size }) {
  const sides = [explanation.query, explanation.result];
  const at = (side, [x, y]) => {
    const place = pictures[side];
    const { width, height } = sides[side];
    return [place.x + ((x + 0.5) * place.width) / width, place.y + ((y + 0.5) * place.height) / height];
  };
  const pairs = (explanation.pairs ?? []).map((pair) => ({
    ends: [...at(0, pair.query), ...at(1, pair.result)], agrees: pair.agrees,
  }));
  const agreeing = pairs.filter((pair) => pair.agrees).map((pair) => pair.ends);
  const others = pairs.filter((pair) => !pair.agrees).map((pair) => pair.ends).slice(0, server.mostLines);
  const outlines = (explanation.overlap ?? [])
    .map((corners, side) => corners.map((corner) => at(side, corner)))
    .filter((corners) => corners.length > 2);
  const viewBox = `0 0 ${size.map((each) => each.toFixed(1)).join(" ")}`;
  return drawn(
    "svg", { class: "joined", viewBox, role: "img", "aria-label": words.compare.pictures(agreeing.length) },
    sides.map((side, number) => drawn(
      "image", { ...pictures[number], preserveAspectRatio: "none", href: side.picture },
    )),
    outlines.length === 2 && shade(pictures, outlines),
    drawn("path", { class: "other", d: others.map(line).join("") }),
    boxOf(explanation.box, at),
    lines(spread(agreeing), axis ? 0 : 1),
  );
}

function shade(pictures, outlines) {
  const frames = pictures.map(({ x, y, width, height }) => `M${x} ${y}h${width}v${height}h${-width}z`).join("");
  const inside = outlines.map(closed).join("");
  return drawn(
    "g", { class: "shared" }, drawn("path", { class: "shade", "fill-rule": "evenodd", d: frames + inside }),
    drawn("path", { class: "outline", d: inside }),
  );
}

/** Lines in colours that change along the query, each with a dot at its ends. */
function lines(chosen, axis) {
  const ordered = chosen.toSorted((one, other) => one[axis] - other[axis]);
  return drawn("g", { class: "lines" }, ordered.map((ends, place) => {
    const stroke = server.colours[Math.floor((place * server.colours.length) / ordered.length)];
    const [x1, y1, x2, y2] = ends.map((value) => value.toFixed(1));
    return drawn(
      "g", { stroke, class: "match" }, drawn("path", { d: line(ends) }),
      drawn("path", { class: "dots", d: `M${x1} ${y1}h0M${x2} ${y2}h0` }),
    );
  }));
}

function boxOf(box, at) {
  if (!box) return null;
  const [x1, y1, x2, y2] = box;
  return drawn(
    "path", { class: "box", d: closed([[x1, y1], [x2, y1], [x2, y2], [x1, y2]].map((corner) => at(0, corner))) },
  );
}

/** Some of the lines: those that are apart from each other first. */
function spread(all) {
  const apart = [];
  const near = [];
  for (const ends of all) (apart.every((other) => distance(ends, other) >= APART) ? apart : near).push(ends);
  return [...apart, ...near].slice(0, server.mostLines);
}

const distance = (one, other) => Math.max(...one.map((value, place) => Math.abs(value - other[place])));
const line = ([x1, y1, x2, y2]) => `M${x1.toFixed(1)} ${y1.toFixed(1)}L${x2.toFixed(1)} ${y2.toFixed(1)}`;
const closed = (corners) => `M${corners.map((corner) => corner.map((value) => value.toFixed(1)).join(" ")).join("L")}z`;
