/* A sign beside the menu while the server does long work, whoever has asked for it. */

import * as api from "./api.js";
import { element } from "./dom.js";
import { isOver } from "./jobs.js";
import { addressOf } from "./state.js";
import { words } from "./words.js";

const OFTEN = 3000;
const SELDOM = 15_000;
/** Milliseconds between two questions: while work goes on, and while none does. */

class RunningSign {
  constructor() {
    this.text = element("span");
    this.element = element(
      "a", { class: "running", href: addressOf({ view: "jobs" }), hidden: true }, element("i", { class: "turning" }),
      this.text,
    );
    document.addEventListener("visibilitychange", () => this.look());
    addEventListener("jobstart", () => this.look());
  }

  /** Ask now, and again after a while; nothing is asked for a page that nobody sees. */
  async look() {
    clearTimeout(this.waiting);
    if (document.hidden) return;
    const jobs = await api.jobs().catch(() => []);
    const count = jobs.filter((job) => !isOver(job)).length;
    this.element.hidden = !count;
    this.text.textContent = words.running(count);
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => this.look(), count ? OFTEN : SELDOM);
  }
}

export const running = new RunningSign();
