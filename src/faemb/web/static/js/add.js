/* Images are added: sent from here, or found in folders of the server. */

import * as api from "./api.js";
import { bar } from "./cards.js";
import { chooser } from "./choosing.js";
import { button, element, nameOf, say } from "./dom.js";
import { icon } from "./icons.js";
import { JobCard, followed } from "./jobs.js";
import { changed } from "./removing.js";
import { server } from "./server.js";
import { toast } from "./toast.js";
import { words } from "./words.js";

const AT_ONCE = 3;
/** Files that are sent at the same time: the server stores those that come together in one step. */

export class AddView {
  constructor(main) {
    const { add } = words;
    const heading = element("h1", {}, add.heading);
    const readOnly = element("p", { class: "note" }, words.state.readOnly);
    if (!server.writable) return main.replaceChildren(heading, readOnly);
    Object.assign(this, { waiting: [], running: 0, done: 0, all: 0, stopping: new AbortController() });
    const choose = chooser((files) => this.take(files), { text: add.choose, several: true, kind: "strong" });
    const area = element(
      "div", { class: "drop-area" }, icon("add"), element("p", {}, add.drop),
      element("p", { class: "choices" }, choose),
    );
    this.summary = element("p", { class: "summary" });
    this.files = element("ol", { class: "files", role: "list" });
    this.folders = element("ul", { class: "paths" });
    this.work = element("div", { class: "jobs" });
    this.again = button(add.update, () => this.#start({ kind: "update" }), { icon: icon("again") });
    const folders = element(
      "section", {}, element("h2", {}, add.folders), element("p", { class: "soft" }, add.foldersWhy), this.folders,
      this.again, this.#folderForm(), this.work,
    );
    main.replaceChildren(heading, area, this.summary, this.files, folders);
    this.#showFolders();
  }

  update() {}

  /** Add these files, a few at a time. */
  take(files) {
    if (!server.writable) return;
    for (const file of files) {
      const row = fileRow(file);
      this.files.append(row.element);
      this.waiting.push(row);
    }
    this.all += files.length;
    this.#next();
  }

  close() {
    this.stopping?.abort();
  }

  #next() {
    this.summary.textContent = words.add.summary(this.done, this.all);
    while (this.running < AT_ONCE && this.waiting.length) {
      this.running++;
      this.waiting.shift().send().finally(() => this.#ended());
    }
  }

  #ended() {
    this.running--;
    this.done++;
    this.#next();
    if (this.done < this.all) return;
    say(this.summary.textContent);
    changed();
  }

  async #showFolders() {
    const { folders } = await api.info().catch(() => ({ folders: [] }));
    this.folders.replaceChildren(...folders.map((folder) => element("li", {}, element("bdi", {}, folder))));
    if (!folders.length) this.folders.replaceChildren(element("li", { class: "soft" }, words.add.noFolders));
    this.again.disabled = !folders.length;
  }

  #folderForm() {
    const { add } = words;
    const folder = element("input", { type: "text", required: true, spellcheck: "false" });
    const form = element(
      "form", { class: "folder-form" }, element("label", {}, element("span", {}, add.folder), folder),
      element("button", { class: "button" }, add.addFolder),
    );
    form.addEventListener(
      "submit", (event) => { event.preventDefault(); this.#start({ kind: "add", folder: folder.value }); },
    );
    return form;
  }

  /** Start a job, and show it until it is over. */
  async #start(fields) {
    try {
      const card = new JobCard();
      const job = await api.startJob(fields);
      this.work.prepend(card.element);
      await followed(job, card, this.stopping.signal);
      changed();
    } catch (error) {
      toast(error.message, { kind: "bad" });
    }
  }
}

/** A file that is added: its name, how far it is, and what has become of it. */
function fileRow(file) {
  const { add } = words;
  const state = element("span", { class: "state" }, add.waiting);
  const progress = bar(0);
  const row = element("li", { class: "file" }, element("span", { class: "name" }, nameOf(file.name)), state, progress);
  const sent = (part) => {
    state.textContent = add.sending(part);
    progress.firstChild.style.width = `${100 * part}%`;
  };
  const over = (text, kind) => {
    state.textContent = text;
    row.dataset.state = kind;
    progress.firstChild.style.width = "100%";
  };
  async function send() {
    if (file.size > server.mostBytes) return over(add.failed(add.tooLarge(server.mostBytes)), "failed");
    sent(0);
    try {
      const answer = await api.upload(file, sent);
      if (answer.added.length) over(add.added, "added");
      else if (answer.known.length) over(add.known, "known");
      else over(add.failed(answer.failed[0]?.reason ?? ""), "failed");
    } catch (error) {
      over(add.failed(error.message), "failed");
    }
  }
  return { element: row, send };
}
