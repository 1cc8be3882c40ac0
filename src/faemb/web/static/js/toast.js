/* Short messages at the edge of the page. One with an action stays until it is done or closed; others go by themselves. */

import { button, element } from "./dom.js";
import { icon } from "./icons.js";
import { words } from "./words.js";

const STAYS = 10_000;

/**
 * A message; with an action, a button that does it once, and the `keys` that do the same. Answers what closes it.
 * It stays while the pointer or the focus is on it.
 */
export function toast(text, { action = null, act = null, keys = "", kind = "" } = {}) {
  const shown = element("div", { class: `toast ${kind}` }, element("p", {}, text));
  const close = () => { clearTimeout(waiting); shown.remove(); };
  if (action) {
    const hint = keys && element("kbd", { class: "for-keys" }, keys);
    shown.append(button(action, () => { close(); act(); }, { kind: "strong small" }), hint);
  }
  shown.append(element(
    "button", { type: "button", class: "button plain icon-only", "aria-label": words.compare.close, onclick: close },
    icon("close"),
  ));
  let waiting = 0;
  const wait = (time) => { clearTimeout(waiting); if (!action) waiting = setTimeout(close, time); };
  for (const event of ["pointerenter", "focusin"]) shown.addEventListener(event, () => clearTimeout(waiting));
  for (const event of ["pointerleave", "focusout"]) shown.addEventListener(event, () => wait(STAYS / 2));
  wait(STAYS);
  document.getElementById("toasts").append(shown);
  return close;
}
