/* Files from the user: chosen, photographed, dropped anywhere on the page, or pasted. */

import { element } from "./dom.js";
import { icon } from "./icons.js";
import { toast } from "./toast.js";
import { words } from "./words.js";

const FIELDS = "input, textarea, select";

/** A label that opens the choice of a file; `camera`: the camera, on devices that have one. */
export function chooser(onFiles, { text = words.query.other, camera = false, several = false, kind = "" } = {}) {
  const input = element("input", {
    type: "file", accept: "image/*", class: "unseen", multiple: several, capture: camera ? "environment" : null,
    onchange: () => { onFiles([...input.files]); input.value = ""; },
  });
  return element(
    "label", { class: `button ${kind} ${camera ? "camera" : ""}` }, icon(camera ? "camera" : "image"),
    element("span", {}, text), input,
  );
}

/** Files that are dropped or pasted. `handler()` answers {words, take(files)} for what is shown at that time. */
export function listenForFiles(handler) {
  const over = element("div", { class: "dropping", hidden: true }, element("p", {}));
  document.body.append(over);
  let inside = 0;
  const show = (count) => {
    inside = Math.max(0, count);
    over.hidden = !inside;
    if (inside) over.firstChild.textContent = handler().words;
  };
  const holdsFiles = (event) => event.dataTransfer?.types.includes("Files");
  // Text belongs into fields, and what is dragged inside the page nowhere: both are left to the browser.
  let fromHere = false;
  const isOurs = (event) => holdsFiles(event) || !(fromHere || event.target.closest?.(FIELDS));
  addEventListener("dragstart", () => { fromHere = true; });
  addEventListener("dragend", () => { fromHere = false; });
  addEventListener("dragenter", (event) => holdsFiles(event) && show(inside + 1));
  addEventListener("dragleave", (event) => holdsFiles(event) && show(inside - 1));
  addEventListener("dragover", (event) => isOurs(event) && event.preventDefault());
  addEventListener("drop", (event) => {
    if (!isOurs(event)) return;
    event.preventDefault();
    show(0);
    taken(handler(), event.dataTransfer.files);
  });
  addEventListener("paste", (event) => {
    const files = event.clipboardData?.files ?? [];
    if (files.length || !event.target.closest?.(FIELDS)) taken(handler(), files);
  });
}

function taken(handler, files) {
  if (files.length) handler.take([...files]);
  else toast(words.noPicture, { kind: "bad" });
}
