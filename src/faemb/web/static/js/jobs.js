/* Long work of the server: its progress, the time that is left, and how to cancel it. */

import * as api from "./api.js";
import { button, element } from "./dom.js";
import { forget } from "./remembered.js";
import { words } from "./words.js";

const OFTEN = 500;
const SELDOM = 3000;
/** Milliseconds between two questions: while a job runs, and while none does. */

export const isOver = (job) => ["done", "failed", "cancelled"].includes(job.state);

/** One job; `level`: of its heading, below those of the place where it is shown. */
export class JobCard {
  constructor({ level = 2 } = {}) {
    const { jobs } = words;
    this.kind = element(`h${level}`, { class: "kind" });
    this.progress = element("progress", {});
    this.facts = element("p", { class: "detail" });
    this.result = element("p", { class: "detail" });
    this.failures = element("div", {});
    this.cancel = button(jobs.cancel, () => this.#cancelled(), { kind: "plain small" });
    this.element = element(
      "article", { class: "job card" }, this.kind, this.progress, this.facts, this.result, this.failures, this.cancel,
    );
  }

  show(job) {
    const { jobs } = words;
    const over = isOver(job);
    if (over && this.runs) forget();
    Object.assign(this, { id: job.id, runs: !over });
    this.kind.textContent = jobs.kinds[job.kind] ?? job.kind;
    this.element.dataset.state = job.state;
    this.progress.setAttribute("aria-label", jobs.label(this.kind.textContent));
    this.progress.hidden = over;
    if (job.total) Object.assign(this.progress, { max: job.total, value: job.done });
    else this.progress.removeAttribute("value");
    this.facts.textContent = this.#factsOf(job, over);
    this.result.textContent = job.result ?? "";
    this.result.hidden = !job.result;
    this.failures.replaceChildren(...failuresOf(job.failed ?? []));
    this.cancel.hidden = over;
  }

  #factsOf(job, over) {
    const { jobs } = words;
    if (over) return [jobs.states[job.state], jobs.after(job.seconds)].join(", ");
    if (this.cancelling) return jobs.cancelling;
    if (job.state === "waiting") return jobs.states.waiting;
    return [jobs.progress(job), job.seconds_left !== null && jobs.left(job.seconds_left)].filter(Boolean).join(" · ");
  }

  /** The job ends at its next step, which can take a while. */
  async #cancelled() {
    this.#cancelling(true);
    this.facts.textContent = words.jobs.cancelling;
    try {
      this.show(await api.cancelJob(this.id));
    } catch (error) {
      this.#cancelling(false);
      this.failed(error);
    }
  }

  #cancelling(on) {
    this.cancelling = on;
    this.cancel.disabled = on;
  }

  /** The server has not answered how far it is. */
  failed(error) {
    this.facts.textContent = error.message;
  }
}

/** Files that could not be used, with the reason of each. */
export function failuresOf(failed) {
  if (!failed.length) return [];
  const items = failed.map(({ name, reason }) => element("li", {}, element("bdi", {}, name), `: ${reason}`));
  return [
    element(
      "details", { class: "failures" }, element("summary", {}, words.jobs.failures(failed.length)),
      element("ul", {}, items),
    ),
  ];
}

/** Whether the next question may be answered. */
const passes = ({ status }) => status === 0 || status === 429 || status >= 500;

/** Ask for a job until it is over, and show it; answers it as it is then. `signal` ends the asking. */
export async function followed(job, card, signal) {
  let now = job;
  card.show(now);
  dispatchEvent(new Event("jobstart"));
  while (!isOver(now) && !signal.aborted) {
    await new Promise((done) => setTimeout(done, OFTEN));
    if (signal.aborted) break;
    try {
      now = await api.job(now.id);
      card.show(now);
    } catch (error) {
      if (!passes(error)) throw error;
      card.failed(error);
    }
  }
  return now;
}

/** All jobs of the server. */
export class JobsView {
  constructor(main) {
    this.cards = new Map();
    this.list = element("div", { class: "jobs" });
    this.none = element("p", { class: "soft" }, words.jobs.none);
    this.problem = element("p", { class: "problem", role: "alert", hidden: true });
    main.replaceChildren(element("h1", {}, words.jobs.heading), this.problem, this.none, this.list);
  }

  async update() {
    clearTimeout(this.waiting);
    const jobs = await api.jobs().catch((error) => this.#failed(error));
    if (this.closed) return;
    if (jobs) this.#show(jobs);
    const idle = !jobs || jobs.every(isOver);
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => this.update(), idle ? SELDOM : OFTEN);
  }

  close() {
    this.closed = true;
    clearTimeout(this.waiting);
  }

  #failed(error) {
    Object.assign(this.problem, { hidden: false, textContent: error.message });
  }

  #show(jobs) {
    this.problem.hidden = true;
    this.none.hidden = jobs.length > 0;
    const cards = jobs.map((job) => {
      if (!this.cards.has(job.id)) this.cards.set(job.id, new JobCard());
      const card = this.cards.get(job.id);
      card.show(job);
      return card.element;
    });
    const shown = [...this.list.children];
    const same = cards.length === shown.length && cards.every((card, place) => card === shown[place]);
    if (!same) this.list.replaceChildren(...cards); // else the focus would be lost
  }
}
