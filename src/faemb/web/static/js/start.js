/* The first view: a place to drop a photograph, and pictures of the collection to start with. */

import * as api from "./api.js";
import { cameraButton } from "./camera.js";
import { card, skeletons } from "./cards.js";
import { chooser } from "./choosing.js";
import { element } from "./dom.js";
import { problem } from "./endless.js";
import { icon } from "./icons.js";
import { server } from "./server.js";
import { addressOf } from "./state.js";
import { words } from "./words.js";

const SHOWN = 12;

export function startArea(onFiles) {
  const { start } = words;
  const choices = element(
    "p", { class: "choices" }, chooser(onFiles, { text: start.choose, kind: "strong" }),
    chooser(onFiles, { text: start.photograph, camera: true }), cameraButton(onFiles),
  );
  const drop = element("p", { class: "for-keys" }, start.drop);
  const area = element("div", { class: "drop-area" }, icon("image"), drop, choices);
  const offered = element("section", { "aria-labelledby": "start-or" });
  fill(offered);
  return element("div", { class: "start" }, element("h1", {}, start.heading), area, offered);
}

async function fill(offered) {
  const cards = element("ol", { class: "cards start-cards", role: "list" }, skeletons(SHOWN));
  offered.replaceChildren(element("h2", { id: "start-or" }, words.start.or), cards);
  try {
    const shown = await someImages();
    cards.replaceChildren(...shown.map(offer));
    if (!shown.length) offered.replaceChildren(nothing());
  } catch (error) {
    offered.replaceChildren(isTold(error) ? "" : problem(error, () => fill(offered)));
  }
}

/** Whether the page says so already, such as of a search that could not be sent. */
const isTold = (error) => [...document.querySelectorAll(".problem")].some((each) => each.textContent === error.message);

function nothing() {
  const add = server.writable && element("a", { href: addressOf({ view: "add" }) }, words.add.heading);
  return element("p", {}, `${words.start.empty} `, add);
}

function offer(image) {
  return card(
    image,
    { address: addressOf({ view: "search", query: `image-${image.id}` }), label: words.start.searchWith(image.name) },
  );
}

/** Images at random places of the collection, each from its own part, as neighbours often show the same. */
async function someImages() {
  const first = await api.images({ limit: SHOWN });
  if (first.total <= SHOWN) return first.images;
  const part = first.total / SHOWN;
  const places = Array.from({ length: SHOWN }, (_, place) => Math.floor((place + Math.random()) * part));
  const pages = await Promise.all(places.map((offset) => api.images({ offset, limit: 1 })));
  return pages.flatMap((page) => page.images);
}
