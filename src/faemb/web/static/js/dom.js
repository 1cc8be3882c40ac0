/* Elements from data. Text is set as text and never as markup, so a file name cannot become part of the page. */

const SVG = "http://www.w3.org/2000/svg";

/** An HTML element; `attributes` also holds handlers (onclick), a boolean sets or omits its attribute. */
export function element(kind, attributes = {}, ...children) {
  return filled(document.createElement(kind), attributes, children);
}

/** An SVG element. */
export function drawn(kind, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, kind), attributes, children);
}

function filled(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

/** Places where a line may end in a name: after _ and -, before a dot, between the words of camelCase. */
const WORDS = /(?<=[_-])(?![_-])|(?<=[^.])(?=\.)|(?<=[a-z])(?=[A-Z0-9])|(?<=[0-9])(?=[A-Z])/;

/** A name as nodes; <bdi> keeps its writing direction from changing that of its surroundings. */
export function nameOf(text) {
  const parts = text.split(WORDS).flatMap((part) => [document.createElement("wbr"), part]);
  return element("bdi", {}, parts.slice(1));
}

/** Say something to users of a screen reader. */
export function say(text) {
  document.getElementById("said").textContent = text;
}

/** A button with an icon before its words. */
export function button(words, onclick, { kind = "", icon: shape = null, label = null } = {}) {
  return element(
    "button", { type: "button", class: `button ${kind}`, onclick, "aria-label": label }, shape,
    element("span", {}, words),
  );
}
