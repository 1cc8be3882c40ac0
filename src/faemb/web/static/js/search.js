/* The search view: where it starts, then the query beside its results, and the comparison with one of them. */

import * as api from "./api.js";
import { Comparison } from "./compare.js";
import { element } from "./dom.js";
import { problem } from "./endless.js";
import { Filters } from "./filters.js";
import { QueryPanel } from "./query.js";
import { Results, fieldsOf, searchedWith } from "./results.js";
import { startArea } from "./start.js";
import { server } from "./server.js";
import { CHOSEN, current, go } from "./state.js";
import { words } from "./words.js";

export class SearchView {
  constructor(main) {
    const { filters } = words;
    this.main = main;
    this.panel = new QueryPanel({
      onBox: (box) => go({ ...current(), box: box ? box.join(",") : "", compare: "" }),
      onFile: (files) => this.ask(files),
    });
    this.results = new Results((answer) => {
      this.panel.answered(answer.query, answer.hits.some((hit) => hit.itself));
      this.comparison.steps();
    });
    this.choices = [
      new Choice("expand", filters.expand, filters.expandWhy),
      ...(server.upright ? [new Choice("turned", filters.turned, filters.turnedWhy)] : []),
    ];
    this.filters = new Filters(this.choices.map((choice) => choice.element));
    this.comparison = new Comparison(() => this.results);
    const right = element("div", { class: "answer-side" }, this.filters.element, this.results.element);
    this.found = element(
      "div", { class: "found" }, element("h1", { class: "unseen" }, words.views.search), this.panel.element, right,
    );
  }

  async update(state) {
    this.problem?.remove();
    const before = this.shown;
    this.shown = JSON.stringify(fieldsOf(state));
    if (!state.query) return this.#start();
    this.#put(this.found);
    this.filters.update(state);
    for (const choice of this.choices) choice.update(state);
    const searching = before === this.shown ? null : this.#search(state);
    this.comparison.update(state);
    await searching;
  }

  /** Search with a file that the user has given. */
  async ask(files) {
    const [file] = files;
    this.asking?.abort();
    this.asking = new AbortController();
    this.shown = null;
    this.problem?.remove();
    this.comparison.close();
    this.#put(this.found);
    this.panel.sending(file);
    this.results.awaited();
    scrollTo(0, 0);
    await this.#send(file, { ...current(), query: "", box: "", compare: "", how: "" }, this.asking.signal);
  }

  /** The collection has changed. */
  async refresh() {
    this.shown = null;
    await this.update(current());
  }

  more() {
    return this.results.list.more();
  }

  close() {
    this.asking?.abort();
    this.comparison.close();
    this.results.list.close();
  }

  async #send(file, state, signal) {
    try {
      if (file.size > server.mostBytes) throw new api.Problem(413, words.query.tooLarge(file.name, server.mostBytes));
      go(await searchedWith(file, state, signal));
    } catch (error) {
      if (!signal.aborted) this.#refused(error, file);
    }
  }

  /** The page goes back to what the address names, and says why. */
  #refused(error, file) {
    go({ ...current(), compare: "", how: "" });
    this.problem = problem(error, () => this.ask([file]));
    this.main.prepend(this.problem);
  }

  #start() {
    this.asking?.abort();
    this.results.list.close();
    this.comparison.close();
    this.results.list.list.replaceChildren();
    this.#put(startArea((files) => this.ask(files)));
  }

  async #search(state) {
    this.asking?.abort();
    this.panel.awaited(state.query, state.box);
    await this.results.show(state);
  }

  #put(content) {
    if (this.main.firstChild !== content) this.main.replaceChildren(content);
  }
}

/** A box to check, whose state is a field of the address. */
class Choice {
  constructor(field, name, why) {
    this.field = field;
    this.input = element("input", { type: "checkbox", onchange: () => this.#go() });
    this.element = element("label", { class: "check", title: why }, this.input, element("span", {}, name));
  }

  update(state) {
    this.input.checked = Boolean(state[this.field]);
  }

  #go() {
    go({ ...current(), [this.field]: this.input.checked ? CHOSEN[this.field] : "", compare: "" });
  }
}
