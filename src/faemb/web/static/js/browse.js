/* All images of the collection, by folder, name or date. */

import * as api from "./api.js";
import { card, facts } from "./cards.js";
import { Endless } from "./endless.js";
import { element, say } from "./dom.js";
import { Filters } from "./filters.js";
import { icon } from "./icons.js";
import { remembered } from "./remembered.js";
import { removeButton } from "./removing.js";
import { FILTERS, addressOf, current, go } from "./state.js";
import { words } from "./words.js";

const PAGE = 60;

export class BrowseView {
  constructor(main) {
    this.total = element("p", { class: "summary" }, "\u00a0");
    this.filters = new Filters([this.#orders()]);
    this.list = new Endless({
      load: (offset, signal) => this.#load(offset, signal),
      draw: (image) => [this.#card(image)],
      loaded: (answer) => this.#loaded(answer),
    });
    const head = element("div", { class: "head" }, element("h1", {}, words.browse.heading), this.total);
    main.replaceChildren(head, this.filters.element, this.list.element);
  }

  async update(state) {
    this.state = state;
    this.filters.update(state);
    this.order.value = state.order || "name";
    await this.list.restart();
  }

  more() {
    return this.list.more();
  }

  close() {
    this.list.close();
  }

  async #load(offset, signal) {
    const { view: _, ...fields } = this.state;
    const answer = await remembered(
      JSON.stringify(["browse", fields, offset]), () => api.images({ ...fields, offset, limit: PAGE }, signal),
    );
    return { ...answer, items: answer.images };
  }

  #loaded(answer) {
    const none = FILTERS.some((field) => this.state[field]) ? words.browse.none : words.start.empty;
    this.total.textContent = answer.total ? words.browse.total(answer.total) : none;
    say(this.total.textContent);
  }

  #card(image) {
    const address = addressOf({ view: "search", query: `image-${image.id}` });
    return card(image, {
      address,
      label: words.start.searchWith(image.name),
      details: [facts([words.browse.pixels(image.width, image.height), dateOf(image)])],
      actions: [
        element(
          "a", { class: "action", href: address, "aria-label": words.results.searchWithName(image.name) },
          icon("search"), words.browse.search,
        ),
        removeButton(image),
      ],
    });
  }

  #orders() {
    const { filters } = words;
    this.order = element("select", { onchange: () => go({
      ...current(), order: this.order.value === "name" ? "" : this.order.value,
    }) },
      element("option", { value: "name" }, filters.byName), element("option", { value: "date" }, filters.byDate));
    return element("label", {}, element("span", {}, filters.order), this.order);
  }
}

/** Without a time: when it was taken, or else when its file was last changed. */
export function dateOf(image) {
  const date = (image.date ?? image.changed ?? "").slice(0, 10);
  return date && (image.taken ? words.browse.taken(date) : words.browse.changed(date));
}

