/* Shows the view that the address names, and passes files to it. */

import { AddView } from "./add.js";
import { BrowseView } from "./browse.js";
import { listenForFiles } from "./choosing.js";
import { CollectionView } from "./collection.js";
import { element } from "./dom.js";
import { GroupsView } from "./groups.js";
import { JobsView } from "./jobs.js";
import { running } from "./running.js";
import { SearchView } from "./search.js";
import { server } from "./server.js";
import { addressOf, current, go, onChange, startHistory } from "./state.js";
import { words } from "./words.js";

const VIEWS = {
  search: SearchView, browse: BrowseView, groups: GroupsView, add: AddView, state: CollectionView, jobs: JobsView,
};
const IN_MENU = ["search", "browse", "groups", "state", ...(server.writable ? ["add"] : [])];
const MOST_PAGES = 20;
/** Pages that are loaded to come back to where a list was left. */

const main = document.getElementById("view");
let shown = { kind: null, view: null, subject: null };

async function show(state, { back, scroll = 0 }) {
  const { kind: before, subject: seen } = shown;
  if (before !== state.view) {
    shown.view?.close();
    shown = { kind: state.view, view: new VIEWS[state.view](main) };
  }
  shown.subject = `${state.view} ${state.query ?? ""}`;
  document.title = words.title(words.views[state.view], words.collection);
  showMenu(state.view);
  running.look();
  const { view, subject } = shown;
  const updated = view.update(state);
  if (!back && seen !== subject) scrollTo(0, 0);
  if (before && before !== state.view && !back) main.focus({ preventScroll: true });
  await updated;
  if (back && view === shown.view) await scrollBack(view, scroll);
}

/** The same view, when the collection has changed: scrolled to where it was. */
async function showAgain(focused) {
  const { view } = shown;
  const scroll = scrollY;
  await (view.refresh ?? view.update).call(view, current());
  if (view !== shown.view) return;
  await scrollBack(view, scroll);
  if (focused === undefined || document.activeElement !== document.body) return;
  (main.querySelector(`.card[data-id="${focused}"] .open`) ?? main).focus({ preventScroll: true });
}

/** Lists are loaded as far as they were before, then scrolled to where they were left. */
async function scrollBack(view, scroll) {
  for (let page = 0; page < MOST_PAGES && scroll && document.body.scrollHeight < scroll + innerHeight; page++) {
    if (!(await view.more?.())) break;
  }
  scrollTo(0, scroll);
}

function showMenu(view) {
  const links = IN_MENU.map((each) => element(
    "a", { href: addressOf({ view: each }), "aria-current": each === view ? "page" : null }, words.views[each],
  ));
  document.getElementById("views").replaceChildren(...links);
}

function search(files) {
  if (current().view !== "search") go({ view: "search" });
  shown.view.ask(files);
}

document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // the address names the state, and nothing else
  main.focus();
});
listenForFiles(() => {
  const adding = current().view === "add";
  return {
    words: adding ? words.dropToAdd : words.dropToSearch, take: adding ? (files) => shown.view.take(files) : search,
  };
});
document.getElementById("views").before(running.element);
addEventListener("collectionchange", ({ detail }) => showAgain(detail.focused));
onChange(show);
startHistory();
