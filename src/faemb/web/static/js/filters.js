/* Filters of a search or of a list: folder, name and dates; each change is a new address. */

import * as api from "./api.js";
import { button, element } from "./dom.js";
import { FILTERS, addressOf, current, go } from "./state.js";
import { words } from "./words.js";

const TYPING = 400;
/** Milliseconds after the last key, when a name or a date is looked up. */
const wide = matchMedia("(min-width: 761px)");
/** There, the style hides what opens and closes the fields. */
wide.addEventListener("change", () => {
  for (const shown of document.querySelectorAll(".filters")) shown.open ||= wide.matches;
});

export class Filters {
  /** `further`: fields beside the filters, which have elements of their own. */
  constructor(further = []) {
    const { filters } = words;
    this.folder = element(
      "select", { onchange: () => this.#changed() },
      element("option", { value: "" }, filters.allFolders),
    );
    this.name = element(
      "input", { type: "search", spellcheck: "false", autocomplete: "off", oninput: () => this.#typed() },
    );
    this.since = element("input", { type: "date", onchange: () => this.#typed() });
    this.until = element("input", { type: "date", onchange: () => this.#typed() });
    this.reset = button(filters.reset, () => this.#cleared(), { kind: "plain small" });
    const fields = ["folder", "name", "since", "until"].map((field) => element(
      "label", {}, element("span", {}, filters[field]), this[field],
    ));
    const row = element("div", { class: "fields" }, fields, further, this.reset);
    this.element = element(
      "details", { class: "filters", open: wide.matches }, element("summary", {}, filters.heading), row,
    );
    this.#fillFolders();
  }

  update(state) {
    this.#offer(state.folder);
    const given = JSON.stringify(FILTERS.map((field) => state[field]));
    if (given !== this.given) this.#show(state); // else what is being typed stays
    this.given = given;
    this.reset.hidden = !FILTERS.some((field) => state[field]);
    this.element.open ||= wide.matches || !this.reset.hidden;
  }

  /** A field that says the same already is left alone: a space at its end, or a part of a date. */
  #show(state) {
    clearTimeout(this.waiting);
    for (const field of FILTERS) if (this[field].value.trim() !== state[field]) this[field].value = state[field];
  }

  #typed() {
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => this.element.isConnected && this.#looked(), TYPING);
  }

  /** The first key is a step of the history, those after it are none. A date is given anew with each digit, too. */
  #looked() {
    this.#changed({ replace: this.typed === addressOf(current()) });
    this.typed = addressOf(current());
  }

  #changed(how) {
    clearTimeout(this.waiting);
    go({ ...current(), ...Object.fromEntries(FILTERS.map((field) => [field, this[field].value.trim()])) }, how);
  }

  #cleared() {
    for (const field of FILTERS) this[field].value = "";
    this.#changed();
  }

  async #fillFolders() {
    const found = await api.folders().catch(() => []);
    const above = commonFolder(found.map((each) => each.folder));
    for (const { folder, images } of found) {
      const option = element(
        "option", { value: folder }, words.filters.inFolder(folder.slice(above.length) || folder, images),
      );
      this.folder.append(option);
    }
    this.folder.value = current().folder ?? "";
  }

  /** A folder from the address is shown before the list has come, or if it holds no images any more. */
  #offer(folder) {
    const offered = [...this.folder.options].some((option) => option.value === folder);
    if (folder && !offered) this.folder.append(element("option", { value: folder }, folder));
  }
}

/** What all folders begin with, up to a slash. */
function commonFolder(folders) {
  if (folders.length < 2) return "";
  let common = folders[0];
  for (const folder of folders) while (!folder.startsWith(common)) common = common.slice(0, -1);
  return common.slice(0, common.lastIndexOf("/") + 1);
}
