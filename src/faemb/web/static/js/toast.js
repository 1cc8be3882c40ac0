/* Short messages at the edge of the page, which go by themselves. */

import { button, element } from "./dom.js";
import { icon } from "./icons.js";
import { words } from "./words.js";

const STAYS = 10_000;

/** A message; with an action, a button that does it once. It stays while the pointer or the focus is on it. */
export function toast(text, { action = null, act = null, kind = "" } = {}) {
  const shown = element("div", { class: `toast ${kind}` }, element("p", {}, text));
  const close = () => { clearTimeout(waiting); shown.remove(); };
  if (action) shown.append(button(action, () => { close(); act(); }, { kind: "strong small" }));
  shown.append(element(
    "button", { type: "button", class: "button plain icon-only", "aria-label": words.compare.close, onclick: close },
    icon("close"),
  ));
  let waiting = setTimeout(close, STAYS);
  for (const event of ["pointerenter", "focusin"]) shown.addEventListener(event, () => clearTimeout(waiting));
  for (const event of ["pointerleave", "focusout"]) shown.addEventListener(
    event, () => { clearTimeout(waiting); waiting = setTimeout(close, STAYS / 2); },
  );
  document.getElementById("toasts").append(shown);
}
