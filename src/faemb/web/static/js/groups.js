/* Groups of copies, or of images that show the same thing, and which image of each to keep. */

import * as api from "./api.js";
import { card, detail, facts } from "./cards.js";
import { dateOf } from "./browse.js";
import { Endless } from "./endless.js";
import { button, element, say } from "./dom.js";
import { icon } from "./icons.js";
import { JobCard, followed } from "./jobs.js";
import { removeButton } from "./removing.js";
import { addressOf, current, go } from "./state.js";
import { words } from "./words.js";

const PAGE = 20;

export class GroupsView {
  constructor(main) {
    this.total = element("p", { class: "summary" }, "\u00a0");
    this.work = element("div", { class: "jobs" });
    this.note = element("p", { class: "soft" });
    const again = button(words.groups.again, () => this.#again(), { kind: "plain small", icon: icon("again") });
    this.outdated = element("p", { class: "choices", hidden: true }, element("span", {}, words.groups.outdated), again);
    this.list = new Endless({
      load: (offset, signal) => this.#load(offset, signal),
      draw: (group, place) => [section(group, place)],
      loaded: (answer) => this.#loaded(answer),
      kind: "groups",
      waiting: () => [],
    });
    const head = element("div", { class: "head" }, element("h1", {}, words.groups.heading), this.total);
    main.replaceChildren(head, this.#choices(), this.work, this.outdated, this.note, this.list.element);
  }

  async update(state) {
    this.state = state;
    this.same.checked = Boolean(state.same_thing);
    this.copies.checked = !state.same_thing;
    this.mirrored.checked = Boolean(state.mirrored);
    this.why.textContent = state.same_thing ? words.groups.sameWhy : words.groups.copiesWhy;
    this.note.textContent = "";
    this.total.textContent = "\u00a0";
    this.outdated.hidden = true;
    this.list.list.replaceChildren();
    await this.list.restart();
  }

  more() {
    return this.list.more();
  }

  close() {
    this.list.close();
  }

  /** Compare the images as they are now. */
  #again() {
    this.afresh = true;
    return this.update(this.state);
  }

  /** Groups, after the job that finds them if they are not known. Those that are known stay if a new job fails. */
  async #load(offset, signal) {
    const fields = {
      same_thing: this.state.same_thing ? "true" : "", mirrored: this.state.mirrored ? "true" : "", offset, limit: PAGE,
    };
    const { afresh } = this;
    this.afresh = false;
    let answer = await api.duplicates({ ...fields, again: afresh ? "true" : "" }, signal);
    let failed = false;
    while (answer.job && !signal.aborted) {
      const found = new JobCard();
      this.work.replaceChildren(found.element);
      const job = await followed(answer.job, found, signal);
      if (signal.aborted) break;
      failed = job.state !== "done";
      if (failed && !afresh) return { items: [], total: 0, note: "", stopped: true };
      answer = await api.duplicates(fields, signal);
    }
    if (!signal.aborted && !failed) this.work.replaceChildren();
    return { ...answer, items: answer.groups ?? [] };
  }

  #loaded(answer) {
    if (answer.stopped) return;
    this.total.textContent = answer.total ? words.groups.total(answer.total) : words.groups.none;
    this.note.textContent = answer.note ?? "";
    this.outdated.hidden = !answer.outdated;
    say(this.total.textContent);
  }

  #choices() {
    const { groups } = words;
    const change = (fields) => go({ ...current(), ...fields });
    this.copies = element("input", { type: "radio", name: "kind", onchange: () => change({ same_thing: "" }) });
    this.same = element("input", { type: "radio", name: "kind", onchange: () => change({ same_thing: "1" }) });
    this.mirrored = element(
      "input", { type: "checkbox", onchange: () => change({ mirrored: this.mirrored.checked ? "1" : "" }) },
    );
    this.why = element("p", { class: "soft" });
    const kinds = element(
      "fieldset", { class: "segments" }, element("legend", { class: "unseen" }, groups.what),
      element("label", {}, this.copies, element("span", {}, groups.copies)),
      element("label", {}, this.same, element("span", {}, groups.same)),
    );
    const mirrored = element("label", { class: "check" }, this.mirrored, element("span", {}, groups.mirrored));
    return element("div", { class: "choices" }, kinds, mirrored, this.why);
  }
}

function section(group, place) {
  const { groups } = words;
  const cards = group.images.map((image, number) => member(group, image, number));
  const drawn = element(
    "li", { class: "group" }, element("h2", {}, groups.group(place + 1)),
    element("p", { class: "soft" }, groups.about(group)), element("ul", { class: "cards", role: "list" }, cards),
  );
  drawn.style.setProperty("--members", cards.length);
  return drawn;
}

/** The first image of a group is the one to keep; the others can be compared with it. */
function member(group, image, number) {
  const { groups } = words;
  const first = `image-${group.images[0].id}`;
  const search = addressOf({ view: "search", query: `image-${image.id}` });
  const compare = addressOf({ view: "search", query: first, compare: String(image.id) });
  const known = facts([words.browse.pixels(image.width, image.height), words.bytes(image.bytes), dateOf(image)]);
  return card(image, {
    address: number ? compare : search,
    label: number ? words.results.compareName(image.name) : words.start.searchWith(image.name),
    details: [
      known, number ? null : detail(groups.keep(group.reason), "mark"),
      words.fileStates[image.state] && detail(words.fileStates[image.state], "mark"),
    ],
    actions: [
      number ? element(
        "a", { class: "action", href: compare, "aria-label": groups.compareName(image.name, group.images[0].name) },
        icon("compare"), groups.compare,
      ) : null,
      removeButton(image),
    ],
  });
}
