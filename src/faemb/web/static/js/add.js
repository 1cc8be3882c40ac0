/* Images are added: sent from here, or found in folders of the server. */

import * as api from "./api.js";
import { chooser } from "./choosing.js";
import { button, element } from "./dom.js";
import { icon } from "./icons.js";
import { JobCard, followed, isOver } from "./jobs.js";
import { changed } from "./removing.js";
import { server } from "./server.js";
import { toast } from "./toast.js";
import { uploads } from "./uploads.js";
import { words } from "./words.js";

export class AddView {
  constructor(main) {
    const { add } = words;
    const heading = element("h1", {}, add.heading);
    const readOnly = element("p", { class: "note" }, words.state.readOnly);
    if (!server.writable) return main.replaceChildren(heading, readOnly);
    this.stopping = new AbortController();
    const choose = chooser((files) => this.take(files), { text: add.choose, several: true, kind: "strong" });
    const area = element(
      "div", { class: "drop-area" }, icon("add"), element("p", { class: "for-keys" }, add.drop),
      element("p", { class: "choices" }, choose),
    );
    this.folders = element("ul", { class: "paths" });
    this.work = element("div", { class: "jobs" });
    this.again = button(add.update, () => this.#start({ kind: "update" }), { icon: icon("again") });
    this.section = element(
      "section", { hidden: true }, element("h2", {}, add.folders), element("p", { class: "soft" }, add.foldersWhy), this.folders,
      this.again, this.#folderForm(), this.work,
    );
    main.replaceChildren(heading, area, uploads.element, this.section);
    this.#showFolders();
  }

  update() {}

  take(files) {
    if (server.writable) uploads.take(files);
  }

  close() {
    this.stopping?.abort();
  }

  async #showFolders() {
    const { folders, folders_to_add: others } = await api.info().catch(() => ({ folders: [], folders_to_add: [] }));
    const shown = [...new Set([...folders, ...others])];
    this.folders.replaceChildren(...shown.map((folder) => element("li", {}, element("bdi", {}, folder))));
    if (!shown.length) this.folders.replaceChildren(element("li", { class: "soft" }, words.add.noFolders));
    this.again.disabled = !folders.length;
    this.section.hidden = false;
  }

  #folderForm() {
    const { add } = words;
    const known = element("datalist", { id: "known-folders" });
    const folder = element("input", { type: "text", required: true, spellcheck: "false", list: known.id });
    const form = element(
      "form", { class: "folder-form" }, element("label", {}, element("span", {}, add.folder), folder), known,
      element("button", { class: "button" }, add.addFolder),
    );
    offerFolders(known);
    form.addEventListener(
      "submit", (event) => { event.preventDefault(); this.#start({ kind: "add", folder: folder.value }); },
    );
    return form;
  }

  /** Start a job, and show it until it is over. */
  async #start(fields) {
    try {
      const card = new JobCard({ level: 3 });
      const job = await api.startJob(fields);
      this.work.prepend(card.element);
      const now = await followed(job, card, this.stopping.signal);
      if (isOver(now)) changed();
    } catch (error) {
      toast(error.message, { kind: "bad" });
    }
  }
}

/** Folders that hold images of the collection, and those of which visitors may add more; others below can be typed. */
async function offerFolders(list) {
  const [found, { folders_to_add: others }] = await Promise.all([
    api.folders().catch(() => []), api.info().catch(() => ({ folders_to_add: [] })),
  ]);
  const offered = new Set([...found.map(({ folder }) => folder), ...others]);
  list.replaceChildren(...[...offered].map((folder) => element("option", { value: folder })));
}
