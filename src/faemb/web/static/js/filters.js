/* Filters of a search or of a list: folder, name and dates; each change is a new address. */

import * as api from "./api.js";
import { button, element } from "./dom.js";
import { FILTERS, current, go } from "./state.js";
import { words } from "./words.js";

const TYPING = 400;
/** Milliseconds after the last key, when a name is looked up. */

export class Filters {
  /** `further`: fields beside the filters, which have elements of their own. */
  constructor(further = []) {
    const { filters } = words;
    this.folder = element(
      "select", { onchange: () => this.#changed("folder", this.folder.value) },
      element("option", { value: "" }, filters.allFolders),
    );
    this.name = element(
      "input", { type: "search", spellcheck: "false", autocomplete: "off", oninput: () => this.#typed() },
    );
    this.since = element("input", { type: "date", onchange: () => this.#changed("since", this.since.value) });
    this.until = element("input", { type: "date", onchange: () => this.#changed("until", this.until.value) });
    this.reset = button(
      filters.reset, () => go({ ...current(), folder: "", name: "", since: "", until: "" }), { kind: "plain small" },
    );
    const fields = ["folder", "name", "since", "until"].map((field) => element(
      "label", {}, element("span", {}, filters[field]), this[field],
    ));
    const row = element("div", { class: "fields" }, fields, further, this.reset);
    this.element = element(
      "details", { class: "filters", open: innerWidth > 760 }, element("summary", {}, filters.heading), row,
    );
    this.#fillFolders();
  }

  update(state) {
    this.#offer(state.folder);
    const typing = document.activeElement === this.name;
    for (const field of FILTERS) if (field !== "name" || !typing) this[field].value = state[field];
    this.reset.hidden = !FILTERS.some((field) => state[field]);
    if (!this.reset.hidden) this.element.open = true;
  }

  #typed() {
    clearTimeout(this.typing);
    this.typing = setTimeout(() => this.#changed("name", this.name.value.trim(), true), TYPING);
  }

  #changed(field, value, replace = false) {
    go({ ...current(), [field]: value }, { replace });
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
    this.update(current());
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
