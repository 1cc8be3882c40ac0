/* Pictures that are being sent to the collection. They go on while other views are shown. */

import * as api from "./api.js";
import { bar } from "./cards.js";
import { element, nameOf, say } from "./dom.js";
import { changed } from "./removing.js";
import { server } from "./server.js";
import { toast } from "./toast.js";
import { words } from "./words.js";

const AT_ONCE = 3;
/** Files that are sent at the same time: the server stores those that come together in one step. */

class Uploads {
  constructor() {
    Object.assign(this, { waiting: [], running: 0, done: 0, all: 0 });
    this.summary = element("p", { class: "summary" });
    this.files = element("ol", { class: "files", role: "list" });
    this.element = element("div", { class: "uploads" }, this.summary, this.files);
    addEventListener("beforeunload", (event) => this.running && event.preventDefault());
  }

  /** Add these files, a few at a time. */
  take(files) {
    for (const file of files) {
      const row = fileRow(file);
      this.files.append(row.element);
      this.waiting.push(row);
    }
    this.all += files.length;
    this.#next();
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
    if (this.element.isConnected) say(this.summary.textContent);
    else toast(words.add.sent(this.all, this.files.querySelectorAll("[data-state=failed]").length));
    changed();
  }
}

export const uploads = new Uploads();

/** A file that is added: its name, how far it is, and what has become of it. */
function fileRow(file) {
  const { add } = words;
  const state = element("span", { class: "state" }, add.waiting);
  const progress = bar(0);
  const name = element("span", { class: "name", title: file.name }, nameOf(file.name));
  const row = element("li", { class: "file" }, name, state, progress);
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
      const answer = await api.upload(file, sent, () => { state.textContent = add.later; });
      if (answer.added.length) over(add.added, "added");
      else over(add.known, "known");
    } catch (error) {
      over(add.failed(error.message), "failed");
    }
  }
  return { element: row, send };
}
