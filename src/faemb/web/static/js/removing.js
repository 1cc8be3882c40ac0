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

async function removed(image) {
  try {
    const next = neighbourOf(image.id);
    const { undo } = await api.remove(image.id, waits());
    changed(next);
    toast(words.remove.done(image.name), { action: words.remove.undo, act: () => undone(undo) });
  } catch (error) {
    toast(error.message, { kind: "bad" });
  }
}

async function undone(token) {
  try {
    const { image } = await api.undo(token, waits());
    changed(image.id);
    toast(words.remove.undone(image.name));
  } catch (error) {
    toast(error.message, { kind: "bad" });
  }
}

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
