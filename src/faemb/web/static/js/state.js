/* What is shown is in the address, so that back, forward, reload and sharing work. */

import { server } from "./server.js";

const FIELDS = {
  search: ["query", "box", "expand", "turned", "folder", "name", "since", "until", "compare", "how"],
  browse: ["folder", "name", "since", "until", "order"],
  groups: ["same_thing", "mirrored"],
  add: [],
  state: [],
  jobs: [],
};
export const FILTERS = ["folder", "name", "since", "until"];
/** Fields with one value besides none; what else an address gives there is left out. */
export const CHOSEN = { expand: "results", turned: "true", how: "over", order: "date" };

const listeners = [];

/** The state that a query string names: the view, and its fields as text, empty where they are not given. */
export function stateFrom(queryString) {
  const given = new URLSearchParams(queryString);
  const view = Object.hasOwn(FIELDS, given.get("view") ?? "") ? given.get("view") : "search";
  const state = { view };
  for (const field of FIELDS[view]) state[field] = allowed(field, given.get(field) ?? "");
  return state;
}

function allowed(field, value) {
  if (field === "turned" && !server.upright) return ""; // the server refuses it
  return Object.hasOwn(CHOSEN, field) && value !== CHOSEN[field] ? "" : value;
}

/** The address of a state. */
export function addressOf(state) {
  const fields = new URLSearchParams();
  if (state.view && state.view !== "search") fields.set("view", state.view);
  for (const field of FIELDS[state.view ?? "search"]) if (state[field]) fields.set(field, state[field]);
  const text = fields.toString().replaceAll("%2C", ",");
  return text ? `/?${text}` : "/";
}

export function current() {
  return stateFrom(location.search);
}

/** Show another state. `replace`: without a new entry in the history, as for small changes. */
export function go(state, { replace = false } = {}) {
  const address = addressOf(state);
  if (replace) history.replaceState({ scroll: scrollY }, "", address);
  else if (address !== location.pathname + location.search) history.pushState({ scroll: 0 }, "", address);
  notify({ back: false });
}

export function onChange(listener) {
  listeners.push(listener);
}

function notify(how) {
  for (const listener of listeners) listener(current(), how);
}

/** Links inside the page change the state, unless they are opened in another tab. */
function follow(event) {
  const link = event.target.closest?.("a[href]");
  const plain = event.button === 0 && !(event.ctrlKey || event.metaKey || event.shiftKey || event.altKey);
  if (!link || !plain || link.origin !== location.origin || link.pathname !== "/" || link.hash) return;
  event.preventDefault();
  go(stateFrom(link.search));
}

/** Where the page was scrolled to is kept with its entry in the history. */
function keepScroll() {
  let waiting = 0;
  addEventListener("scroll", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => history.replaceState({ scroll: scrollY }, ""), 150);
  }, { passive: true });
}

export function startHistory() {
  history.scrollRestoration = "manual";
  keepScroll();
  addEventListener("popstate", (event) => notify({ back: true, scroll: event.state?.scroll ?? 0 }));
  document.addEventListener("click", follow);
  history.replaceState(history.state, "", addressOf(current())); // without what it has beside the state
  notify({ back: true, scroll: history.state?.scroll ?? 0 });
}
