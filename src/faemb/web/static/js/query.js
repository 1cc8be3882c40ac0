/* The query beside its results: the picture, on which a box can be drawn, and what it is. */

import { pictureOf } from "./addresses.js";
import { BoxEditor, parsedBox } from "./box.js";
import { chooser } from "./choosing.js";
import { button, element, nameOf } from "./dom.js";
import { icon } from "./icons.js";
import { words } from "./words.js";

export class QueryPanel {
  constructor({ onBox, onFile }) {
    this.picture = element("img", { class: "query-picture", alt: "", draggable: "false", hidden: true });
    this.surface = element("div", {
      class: "surface", tabindex: "0", role: "application", "aria-roledescription": words.box.role,
      "aria-label": words.box.label,
    }, this.picture);
    this.frame = element("div", { class: "frame" }, this.surface);
    this.editor = new BoxEditor(this.surface, (box) => { this.#draw(false); this.#hint(box); onBox(box); });
    this.name = element("p", { class: "name" });
    this.facts = element("p", { class: "detail" });
    this.hint = element("p", { class: "detail hint" });
    this.clear = button(words.box.remove, () => this.editor.remove(), { kind: "plain small", icon: icon("close") });
    this.draw = button(
      words.box.draw, () => this.#draw(!this.editor.drawing), { kind: "plain small for-fingers", icon: icon("box") },
    );
    const actions = element("p", { class: "actions" }, chooser(onFile, { kind: "small" }), this.draw, this.clear);
    this.element = element(
      "section", { class: "query card", "aria-label": words.query.heading }, this.frame, this.name, this.facts,
      this.hint, actions,
    );
    this.#draw(false);
    this.#hint(null);
    new ResizeObserver(() => this.#fit()).observe(this.frame);
    this.picture.addEventListener("load", () => this.#fitUnknown());
    this.picture.addEventListener("error", () => this.#missing());
  }

  /** A photograph that is being sent. */
  sending(file) {
    this.#picture(null, { address: URL.createObjectURL(file) });
    this.name.replaceChildren(nameOf(file.name));
    this.facts.textContent = words.query.sending;
    this.editor.show(null, null);
    this.#hint(null);
  }

  /** A query whose answer is awaited. */
  awaited(key, box) {
    if (key !== this.key) for (const line of [this.name, this.facts]) line.textContent = "\u00a0";
    this.#picture(key);
    this.editor.show(this.size, this.size && parsedBox(box));
    this.#hint(parsedBox(box));
  }

  /** The query as the server has answered it. */
  answered(query, itself) {
    this.size = [query.width, query.height];
    this.#picture(query.key, query);
    this.element.classList.remove("without-picture"); // a box can be drawn where no picture is shown
    this.#fit();
    this.picture.alt = words.query.picture(query.name);
    this.name.replaceChildren(nameOf(query.name));
    this.facts.replaceChildren(
      words.query.features(query.features, Boolean(query.box)), itself ? ` · ${words.query.inCollection}` : "",
      this.picture.hidden ? ` · ${words.query.noPicture}` : "",
    );
    this.editor.show(this.size, query.box && query.box.map(Math.round));
    this.#hint(query.box);
  }

  /** Show another picture: that of a query, or at an address. */
  #picture(key, { content, address = pictureOf(key, content) } = {}) {
    const same = key && key === this.key && (!content || !this.content || content === this.content);
    this.content = same ? content ?? this.content : content;
    if (same) return;
    if (this.key !== key) this.size = this.key === null ? this.size : null;
    this.key = key;
    if (this.picture.src.startsWith("blob:")) URL.revokeObjectURL(this.picture.src);
    this.picture.alt = "";
    this.picture.src = address;
    this.picture.hidden = false;
    this.element.classList.remove("without-picture");
  }

  /** Whether the next finger on the picture draws a box. */
  #draw(on) {
    this.editor.draw(on);
    this.draw.setAttribute("aria-pressed", on);
  }

  #hint(box) {
    const keys = element("span", { class: "for-keys" }, box ? words.box.editing : words.box.keys);
    this.hint.replaceChildren(box ? "" : `${words.box.hint} `, keys);
    this.clear.hidden = !box;
    this.draw.hidden = Boolean(box);
  }

  #missing() {
    this.picture.hidden = true;
    this.element.classList.toggle("without-picture", !this.size);
    if (this.key) this.facts.textContent = words.query.noPicture;
    if (this.size) return; // a box can be drawn nevertheless
    this.hint.replaceChildren();
    this.draw.hidden = true;
  }

  /** Before the server has told its size, a picture is shown with its own. */
  #fitUnknown() {
    if (this.size) return;
    this.size = [this.picture.naturalWidth, this.picture.naturalHeight];
    this.#fit();
    this.size = null;
  }

  /** The surface is as large as the picture can be inside the frame. */
  #fit() {
    if (!this.size) return;
    const [width, height] = this.size;
    const scale = Math.min(this.frame.clientWidth / width, this.frame.clientHeight / height);
    Object.assign(this.surface.style, { width: `${width * scale}px`, height: `${height * scale}px` });
  }
}
