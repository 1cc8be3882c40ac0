/* Images leave the collection after a question, and come back by "Undo". */

import { thumbnailOf } from "./addresses.js";
import * as api from "./api.js";
import { button, element, nameOf } from "./dom.js";
import { icon } from "./icons.js";
import { forget } from "./remembered.js";
import { server } from "./server.js";
import { toast } from "./toast.js";
import { words } from "./words.js";

/** A button that removes an image; null where the collection cannot be changed. */
export function removeButton(image) {
  if (!server.writable) return null;
  const remove = button(
    words.remove.action, () => ask(image),
    { kind: "plain small removing", icon: icon("remove"), label: words.remove.name(image.name) },
  );
  remove.title = words.remove.action;
  return remove;
}

function ask(image) {
  const { remove } = words;
  const close = () => dialog.close(); // which gives the focus back
  const no = button(remove.no, close, { kind: "plain" });
  const yes = button(remove.yes, () => { close(); removed(image); }, { kind: "strong" });
  const dialog = element("dialog", { class: "question", "aria-labelledby": "question" },
    element("h2", { id: "question" }, remove.question),
    element("img", { src: thumbnailOf(image), alt: "", width: 240, height: 180 }),
    element("p", { class: "name" }, nameOf(image.name)), element("p", { class: "soft" }, remove.stays),
    element("p", { class: "choices" }, no, yes));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

/** Removals of this page that can be undone, the latest last. */
const removals = [];
let closeOffer = () => {};

async function removed(image) {
  try {
    const next = neighbourOf(image.id);
    const { undo } = await api.remove(image.id, waits());
    removals.push({ undo, image });
    changed(next);
    offer();
  } catch (error) {
    toast(error.message, { kind: "bad" });
  }
}

/** Offer to undo the latest removal; the one before it is offered afterwards. */
function offer() {
  closeOffer();
  const { remove } = words;
  const latest = removals.at(-1);
  if (latest) {
    closeOffer = toast(remove.done(latest.image.name), { action: remove.undo, keys: remove.keys, act: undone });
  }
}

async function undone() {
  closeOffer();
  const removal = removals.pop();
  try {
    const { image } = await api.undo(removal.undo, waits());
    changed(image.id);
    toast(words.remove.undone(image.name));
  } catch (error) {
    if (error.status !== 404) removals.push(removal);
    toast(error.message, { kind: "bad" });
  }
  offer();
}

/** Ctrl+Z: wherever the focus is, but in a field for text, which has an undoing of its own. */
addEventListener("keydown", (event) => {
  const held = (event.ctrlKey || event.metaKey) && !event.shiftKey && !event.altKey && !event.repeat;
  const elsewhere = event.target.closest("dialog, input:not([type=checkbox]), textarea");
  if (!held || event.key.toLowerCase() !== "z" || elsewhere || !removals.length) return;
  event.preventDefault();
  undone();
});

/** Says once that a change waits for another one. */
function waits() {
  let told = false;
  return () => {
    if (!told) toast(words.remove.later);
    told = true;
  };
}

/** The image after another one in the list that is shown, or else the one before. */
function neighbourOf(id) {
  const ids = [...document.querySelectorAll("#view .card[data-id]")].map((card) => Number(card.dataset.id));
  const place = ids.indexOf(id);
  return ids[place + 1] ?? ids[place - 1];
}

/** Views that show the collection show it again; then the focus goes to an image, where it would be lost. */
export function changed(focused) {
  forget();
  dispatchEvent(new CustomEvent("collectionchange", { detail: { focused } }));
}
