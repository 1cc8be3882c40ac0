/* Query and result compared: side by side, or one over the other, and why the result is one. */

import { fileOf } from "./addresses.js";
import * as api from "./api.js";
import { bar } from "./cards.js";
import { element, say } from "./dom.js";
import { problem } from "./endless.js";
import { icon } from "./icons.js";
import { JoinedView } from "./joined.js";
import { OverlayView } from "./overlay.js";
import { remembered } from "./remembered.js";
import { addressOf, current, go } from "./state.js";
import { server } from "./server.js";
import { words } from "./words.js";

export class Comparison {
  /** `results()`: the results between which one can step. */
  constructor(results) {
    this.results = results;
    this.joined = new JoinedView();
    this.overlay = new OverlayView((value) => { this.slider.value = value; this.#lay(); });
    this.overlay.picture.addEventListener("click", () => this.manner === "blink" && this.overlay.swap());
  }

  update(state) {
    this.leaving = false;
    if (!state.compare) {
      this.before = state;
      return this.close();
    }
    if (!this.dialog) this.#open();
    this.state = state;
    const over = state.how === "over";
    this.hows[over ? "over" : "side"].checked = true;
    this.options.hidden = over;
    this.manners.hidden ||= !over; // and when it is known that one cannot be laid over the other
    this.#load(state);
  }

  /** Close without a change of the address. */
  close() {
    this.overlay.close();
    this.stopping?.abort();
    if (!this.dialog) return;
    const { dialog } = this;
    Object.assign(this, { dialog: null, loaded: null, explanation: null });
    dialog.remove();
    document.querySelector(`.card[data-id="${CSS.escape(this.state.compare)}"] .open`)?.focus({ preventScroll: true });
  }

  /** Back to the results, from which it was opened or not; once, as going back takes a while. */
  #leave() {
    if (this.leaving) return;
    this.leaving = true;
    if (this.before && addressOf(this.before) === addressOf({ ...this.state, compare: "", how: "" })) history.back();
    else go({ ...current(), compare: "", how: "" }, { replace: true });
  }

  #open() {
    const { compare } = words;
    this.title = element("h2", { id: "compare-title", tabindex: "-1" });
    this.claim = element("p", { class: "verdict" });
    this.reasons = element("ul", { class: "reasons" });
    this.body = element("div", { class: "compare-body" });
    const tools = [
      iconButton("left", compare.previous, () => this.#step(-1)),
      iconButton("right", compare.next, () => this.#step(1)),
      iconButton("close", compare.close, () => this.#leave()),
    ];
    [this.previous, this.next] = tools;
    const why = element("section", { class: "why" }, element("h3", {}, compare.why), this.claim, this.reasons);
    this.files = element("p", { class: "choices" });
    this.side = element(
      "div", { class: "compare-side" }, this.#how(), this.#options(), this.#manners(),
      element("p", { class: "soft keys" }, compare.keys), why, this.files,
    );
    this.dialog = element("dialog", { class: "compare", "aria-labelledby": "compare-title" },
      element("div", { class: "compare-head" }, this.title, element("div", { class: "tools" }, tools)), this.body,
      this.side);
    this.dialog.addEventListener("cancel", (event) => { event.preventDefault(); this.#leave(); });
    this.dialog.addEventListener("keydown", (event) => this.#key(event));
    document.body.append(this.dialog);
    this.dialog.showModal();
    this.title.focus();
  }

  #key(event) {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (event.key === "Escape") { event.preventDefault(); this.#leave(); }
    if (!by || event.target.matches("input") || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    this.#step(by);
  }

  async #step(by) {
    const results = this.results();
    const from = this.state.compare;
    const place = results.ids.indexOf(Number(from));
    if (place < 0 || place + by < 0) return;
    if (place + by >= results.ids.length) await results.list.more();
    if (!this.dialog || this.state.compare !== from) return;
    const id = results.ids[place + by];
    if (id === undefined) this.steps();
    else go({ ...current(), compare: String(id) }, { replace: true });
  }

  async #load(state) {
    const { query, compare, box, turned } = state;
    const key = JSON.stringify(["explain", query, compare, box, turned]);
    if (this.loaded === key) return this.#show();
    this.loaded = key;
    this.stopping?.abort();
    this.stopping = new AbortController();
    const { signal } = this.stopping;
    this.body.setAttribute("aria-busy", "true");
    const waiting = element("p", { class: "stage soft waiting" }, words.compare.loading);
    this.explanation = null; // the pair before stays in sight, but nothing is changed in it
    if (!this.body.firstChild) this.body.replaceChildren(waiting);
    try {
      const explanation = await remembered(key, () => api.explain(query, compare, { box, turned }, signal));
      if (!signal.aborted) this.#explained(explanation);
    } catch (error) {
      if (!signal.aborted) this.#failed(error);
    }
  }

  #explained(explanation) {
    this.explanation = explanation;
    const { query, result, verdict, confidence, reasons } = explanation;
    this.title.replaceChildren(named(words.compare.query, query.name), " ", named(words.compare.result, result.name));
    this.claim.replaceChildren(
      element("b", { class: `claim ${verdict}` }, words.results.claim(verdict)),
      `: ${words.results.confidence(confidence)}`,
      bar(confidence, verdict),
    );
    this.reasons.replaceChildren(...reasons.slice(1).map((reason) => element("li", {}, reason)));
    this.files.replaceChildren(...this.#originals(query, result));
    this.joined.show(explanation);
    this.overlay.show(explanation);
    this.#show();
    say(`${result.name}: ${reasons.join(" ")}`);
  }

  /** Links to the files; a photograph that was sent is where it came from. */
  #originals(query, result) {
    const { compare } = words;
    const stored = this.state.query.match(/^image-(\d+)$/)?.[1];
    const sides = [[this.state.compare, result, compare.originalResult], [stored, query, compare.originalQuery]];
    return sides.filter(([id]) => id).map(([id, { name }, text]) => element(
      "a", { class: "button plain small", href: fileOf(id), download: name }, icon("save"), text,
    ));
  }

  #failed(error) {
    this.title.textContent = words.compare.heading;
    this.claim.replaceChildren();
    this.reasons.replaceChildren();
    this.files.replaceChildren();
    this.manners.hidden = true;
    this.body.removeAttribute("aria-busy");
    this.body.replaceChildren(problem(error, () => { this.loaded = null; this.#load(this.state); }));
    this.steps();
  }

  #show() {
    if (!this.explanation) return;
    const over = this.state.how === "over";
    const possible = !over || this.overlay.possible;
    this.body.removeAttribute("aria-busy");
    const impossible = element("p", { class: "stage soft waiting" }, words.compare.noTransform);
    this.body.replaceChildren(possible ? (over ? this.overlay : this.joined).element : impossible);
    this.manners.hidden = !(over && possible);
    const agreeing = (this.explanation.pairs ?? []).filter((pair) => pair.agrees).length;
    this.counted.textContent = words.compare.drawing(Math.min(agreeing, server.mostLines), agreeing);
    if (over && possible) this.#lay();
    else this.overlay.close();
    this.steps();
  }

  /** Whether there are results before and after this one; to be called when more of them have come. */
  steps() {
    if (!this.dialog) return;
    const { ids, list } = this.results();
    const place = ids.indexOf(Number(this.state.compare));
    // A button that is disabled while it has the focus would swallow the arrow keys.
    this.previous.setAttribute("aria-disabled", place <= 0);
    this.next.setAttribute("aria-disabled", place < 0 || (place >= ids.length - 1 && !list.hasMore));
  }

  // Choices

  #how() {
    const choose = (how) => go({ ...current(), how }, { replace: true });
    const [group, inputs] = radios(
      "how", words.compare.how, { side: words.compare.side, over: words.compare.over },
      (how) => choose(how === "over" ? "over" : ""),
    );
    this.hows = inputs;
    return group;
  }

  #options() {
    const { compare } = words;
    const box = (what, text) => {
      const input = element(
        "input",
        { type: "checkbox", checked: this.joined.shown[what], onchange: () => this.joined.choose(what, input.checked) },
      );
      return element("label", { class: "check" }, input, element("span", {}, text));
    };
    this.counted = element("p", { class: "soft" });
    this.options = element(
      "div", { class: "options" }, box("lines", compare.matches), box("others", compare.others),
      box("outline", compare.outline), this.counted,
    );
    return this.options;
  }

  #manners() {
    const { compare } = words;
    const [group, inputs] = radios(
      "manner", compare.manner, { fade: compare.fade, wipe: compare.wipe, blink: compare.blink },
      (manner) => { this.manner = manner; this.#lay(); },
    );
    this.manner ??= "fade";
    inputs[this.manner].checked = true;
    this.slider = element(
      "input",
      {
        type: "range", min: "0", max: "100", value: "50",
        oninput: () => this.overlay.choose(this.manner, Number(this.slider.value)),
      },
    );
    this.sliderName = element("span", {}, compare.opacity);
    this.sliding = element("label", { class: "slider" }, this.sliderName, this.slider);
    this.hint = element("p", { class: "soft" });
    this.manners = element("div", { class: "options" }, group, this.sliding, this.hint);
    this.#lay();
    return this.manners;
  }

  #lay() {
    this.sliding.hidden = this.manner === "blink";
    this.hint.textContent = this.manner === "wipe" ? words.compare.drag : words.compare.blinkHint;
    this.sliderName.textContent = this.manner === "wipe" ? words.compare.edge : words.compare.opacity;
    this.overlay.choose(this.manner, this.manner === "blink" ? 100 : Number(this.slider.value));
  }
}

/** A name and whose it is; one that is too long is cut, so that the other one is seen too. */
function named(whose, name) {
  return element(
    "span", { class: "named", title: name }, element("span", { class: "with" }, `${whose} `), element("bdi", {}, name),
  );
}

function iconButton(shape, label, onclick) {
  return element(
    "button", { type: "button", class: "button plain icon-only", "aria-label": label, title: label, onclick },
    icon(shape),
  );
}

/** One of several choices, as buttons beside each other; answers the group, and the inputs by value. */
function radios(name, legend, choices, onChoice) {
  const inputs = {};
  const labels = Object.entries(choices).map(([value, text]) => {
    inputs[value] = element("input", { type: "radio", name, value, onchange: () => onChoice(value) });
    return element("label", {}, inputs[value], element("span", {}, text));
  });
  return [element("fieldset", { class: "segments" }, element("legend", { class: "unseen" }, legend), labels), inputs];
}
