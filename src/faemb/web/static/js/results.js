/* The answer to a query: a card for each hit, the surest first, and a line above those that are not confirmed. */

import * as api from "./api.js";
import { bar, card, detail } from "./cards.js";
import { Endless } from "./endless.js";
import { element, say } from "./dom.js";
import { icon } from "./icons.js";
import { remembered } from "./remembered.js";
import { removeButton } from "./removing.js";
import { FILTERS, addressOf } from "./state.js";
import { words } from "./words.js";

const PAGE = 60;

export class Results {
  /** onAnswer(answer) is called with the first page of each answer. */
  constructor(onAnswer) {
    this.onAnswer = onAnswer;
    this.summary = element("p", { class: "summary" }, "\u00a0");
    this.note = element("p", { class: "note soft" });
    this.list = new Endless({
      load: (offset, signal) => this.#load(offset, signal),
      draw: (hit, place) => this.#drawn(hit, place),
      loaded: (answer, offset) => this.#loaded(answer, offset),
    });
    const heading = element("h2", {}, words.results.heading);
    this.element = element(
      "section", { class: "results", "aria-label": words.results.heading },
      element("div", { class: "head" }, heading, this.summary), this.list.element, this.note,
    );
  }

  /** Numbers of the hits that are shown, in their order. */
  get ids() {
    return [...this.list.list.querySelectorAll(".card[data-id]")].map((each) => Number(each.dataset.id));
  }

  /** While a photograph is sent. */
  awaited() {
    this.list.close();
    this.list.foot.replaceChildren();
    this.list.list.replaceChildren(...this.list.waiting());
    this.note.textContent = "";
    this.summary.textContent = words.results.searching;
  }

  async show(state) {
    this.state = state;
    this.note.textContent = "";
    this.summary.textContent = words.results.searching;
    await this.list.restart();
    if (this.summary.textContent === words.results.searching) this.summary.textContent = "\u00a0";
  }

  async #load(offset, signal) {
    const fields = fieldsOf(this.state);
    const answer = await remembered(keyOf(fields, offset), () => api.search({ ...fields, top: PAGE, offset }, signal));
    return { ...answer, items: answer.hits };
  }

  #drawn(hit, place) {
    if (!place) Object.assign(this, { same: 0, maybe: 0, confirmed: true });
    if (hit.itself) return [];
    const confirmed = hit.verdict === "same" || hit.verdict === "maybe";
    const nodes = [this.#card(hit)];
    if (this.confirmed && !confirmed) nodes.unshift(element("li", { class: "line" }, this.#line(hit)));
    this.confirmed &&= confirmed;
    if (confirmed) this[hit.verdict]++;
    return nodes;
  }

  /** What is said of a hit and of all after it, which are not confirmed. */
  #line(hit) {
    const { results } = words;
    if (!this.same && !this.maybe) return results.lineFirst;
    return hit.verdict ? results.line : results.lineNotCompared;
  }

  #card(hit) {
    const { results } = words;
    const compare = addressOf({ ...this.state, compare: String(hit.id) });
    const search = addressOf({ view: "search", query: `image-${hit.id}`, ...filtersOf(this.state) });
    return card(hit, {
      address: compare,
      label: results.compareName(hit.name),
      badge: [icon("compare"), results.compare],
      details: [
        claimOf(hit), hit.copy_of_query && !words.fileStates[hit.state] && detail(results.copy, "mark"),
        hit.through !== null && detail(results.through, "mark"),
        words.fileStates[hit.state] && detail(words.fileStates[hit.state], "mark"),
      ],
      actions: [
        element(
          "a", { class: "action", href: search, "aria-label": results.searchWithName(hit.name) }, icon("search"),
          results.searchWith,
        ),
        removeButton(hit),
      ],
    });
  }

  #loaded(answer, offset) {
    if (!offset) this.seconds = answer.seconds;
    this.summary.textContent = this.#summary(answer);
    if (offset) return;
    this.note.textContent = answer.note;
    say(this.summary.textContent);
    this.onAnswer(answer);
  }

  /** Confirmed hits come first: before one that is not has been seen, there may be more of them. */
  #summary({ query, hits }) {
    const { results } = words;
    const { same, maybe, seconds } = this;
    if (this.ids.length) return results.found({ same, maybe, seconds, more: this.confirmed && this.list.hasMore });
    const filtered = FILTERS.some((field) => this.state[field]);
    if (query.features) return results.none({ filtered, itself: hits.some((hit) => hit.itself) });
    return query.box ? results.noQueryFeaturesInBox : results.noQueryFeatures;
  }
}

/** The confidence in words and as a bar; the similarity of images that were not judged. */
function claimOf(hit) {
  const { results } = words;
  if (hit.confidence === null) {
    return element(
      "p", { class: "detail claims" },
      hit.similarity === null ? results.noFeatures : results.similarity(hit.similarity),
      bar(hit.similarity ?? 0, "unsure"),
    );
  }
  const text = hit.verdict === "unsure" ? results.onlyConfidence : results.claim(hit.verdict);
  const claim = element("span", { class: `claim ${hit.verdict}` }, text);
  return element(
    "p", { class: "detail claims" }, claim, element("b", {}, words.percent(hit.confidence)),
    bar(hit.confidence, hit.verdict),
  );
}

const filtersOf = (state) => Object.fromEntries(FILTERS.map((field) => [field, state[field]]));

/** The fields of a request: what is compared, and how, is none of the search. */
export function fieldsOf(state) {
  return { query: state.query, box: state.box, expand: state.expand, turned: state.turned, ...filtersOf(state) };
}

const keyOf = (fields, offset) => JSON.stringify([fields, offset]);

/** Search with a photograph that has not been sent yet; answers the state that shows its results. */
export async function searchedWith(file, state, signal) {
  const { query: _, ...fields } = fieldsOf(state);
  const answer = await api.search({ file, ...fields, top: PAGE }, signal);
  const found = { ...state, query: answer.query.key };
  await remembered(keyOf(fieldsOf(found), 0), async () => answer);
  return found;
}
