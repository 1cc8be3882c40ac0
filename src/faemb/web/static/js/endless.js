/* A list that is loaded page by page: when its end comes near, or at the press of a button. */

import { button, element } from "./dom.js";
import { skeletons } from "./cards.js";
import { words } from "./words.js";

const NEAR = "800px";
const FEW = 12;

export class Endless {
  /**
   * load(offset, signal): answers {items, total}; draw(item, place, items): nodes of the list;
   * loaded(answer, offset): called after each page.
   */
  constructor({ load, draw, loaded = () => {}, kind = "cards", waiting = () => skeletons(FEW) }) {
    Object.assign(this, { load, draw, loaded, waiting });
    this.list = element("ol", { class: kind, role: "list" });
    this.foot = element("div", { class: "foot" });
    this.element = element("div", { class: "endless" }, this.list, this.foot);
    this.watch = new IntersectionObserver((seen) => seen.at(-1).isIntersecting && this.more(), { rootMargin: NEAR });
  }

  /** Show the list from its beginning. */
  async restart() {
    this.close();
    Object.assign(this, { offset: 0, total: Infinity, stopping: new AbortController(), coming: null });
    this.element.setAttribute("aria-busy", "true");
    this.list.classList.add("old");
    this.foot.replaceChildren();
    if (!this.list.children.length) this.list.replaceChildren(...this.waiting());
    await this.more();
  }

  /** Whether there are items that are not shown yet. */
  get hasMore() {
    return this.offset < this.total;
  }

  /** Load one more page; false if there is none. Calls at the same time load the same page. */
  more() {
    if (!this.hasMore) return Promise.resolve(false);
    this.coming ??= this.#next(this.stopping.signal);
    return this.coming;
  }

  async #next(signal) {
    const answer = await this.load(this.offset, signal).catch((error) => ({ error }));
    if (signal.aborted) return false; // the list shows something else by now
    this.coming = null;
    if (answer.error) this.#fail(answer.error);
    else this.#append(answer);
    return !answer.error;
  }

  #append(answer) {
    const offset = this.offset;
    if (!offset) this.list.replaceChildren();
    this.list.classList.remove("old");
    this.element.removeAttribute("aria-busy");
    this.list.append(...answer.items.flatMap((item, place) => this.draw(item, offset + place, answer.items)));
    this.total = answer.items.length ? answer.total : offset;
    this.offset = offset + answer.items.length;
    this.loaded(answer, offset);
    this.#showFoot();
  }

  #showFoot() {
    this.watch.disconnect();
    if (!this.hasMore) return this.foot.replaceChildren();
    const shown = element("span", { class: "soft" }, words.shown(this.offset, this.total));
    this.foot.replaceChildren(button(words.more, () => this.more(), { kind: "plain" }), shown);
    this.watch.observe(this.foot);
  }

  #fail(error) {
    this.watch.disconnect();
    if (!this.offset) this.list.replaceChildren();
    this.element.removeAttribute("aria-busy");
    this.foot.replaceChildren(problem(error, () => (this.offset ? this.more() : this.restart())));
  }

  close() {
    this.watch.disconnect();
    this.stopping?.abort();
  }
}

/** An error where the user looks; `again` is offered if that may help. */
export function problem(error, again) {
  const told = element("p", { class: "problem", role: "alert" }, error.message);
  return element("div", { class: "trouble" }, told, error.passes && button(words.again, again, { kind: "plain" }));
}
