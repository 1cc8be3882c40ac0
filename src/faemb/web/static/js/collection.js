/* The state of the collection: images, files that cannot be used, model, index, disk. */

import * as api from "./api.js";
import { button, element } from "./dom.js";
import { problem } from "./endless.js";
import { server } from "./server.js";
import { go } from "./state.js";
import { toast } from "./toast.js";
import { words } from "./words.js";

export class CollectionView {
  constructor(main) {
    this.content = element("div", { "aria-busy": "true" });
    main.replaceChildren(element("h1", {}, words.state.heading), this.content);
  }

  async update() {
    try {
      this.#show(await api.info());
    } catch (error) {
      this.content.replaceChildren(problem(error, () => this.update()));
    }
    this.content.removeAttribute("aria-busy");
  }

  close() {}

  #show(info) {
    const { state } = words;
    const jobs = element(
      "p", {}, element("a", { href: "/?view=jobs" }, words.jobs.heading), " · ",
      element("a", { href: "/api" }, state.api),
    );
    const due = server.writable && info.relearning_is_due;
    const learn = due ? [element("p", { class: "note" }, state.relearnDue), button(state.relearn, relearn)] : [];
    const fault = info.model_fault === null ? "" : element("p", { class: "problem" }, state.fault(info.model_fault));
    this.content.replaceChildren(
      fault, facts(info), ...learn, server.writable ? "" : element("p", { class: "soft" }, state.readOnly), jobs,
      unusable(info.unreadable), folders(info.folders),
    );
  }
}

function facts(info) {
  const { state, counted } = words;
  const pictures = [
    counted(info.images, "picture"), state.searchable(info.searchable),
    info.without_features && state.withoutFeatures(info.without_features), info.waiting && state.waiting(info.waiting),
  ].filter(Boolean);
  const rows = [
    [state.images, pictures.join(", ")],
    [state.extractor, info.extractor],
    [
      state.encoder,
      [
        info.encoder, state.dimension(info.dimension), info.learned_from && state.learned(info.learned_from),
      ].filter(Boolean).join(", "),
    ],
    [state.index, state.indexOf(info.index_in_use, info.index)],
    [state.features, info.keeps_features ? state.yes : state.no],
    [state.disk, words.bytes(info.bytes)],
    [state.version, info.version],
  ];
  return element(
    "dl", { class: "facts-list" },
    rows.filter(([, text]) => text).map(([name, text]) => element(
      "div", {}, element("dt", {}, name), element("dd", {}, String(text)),
    )),
  );
}

function unusable(files) {
  const { state } = words;
  const heading = element("h2", {}, state.unusable);
  if (!files.length) return element("section", {}, heading, element("p", { class: "soft" }, state.noneUnusable));
  const rows = files.map(({ name, reason }) => element(
    "tr", {}, element("td", {}, element("bdi", {}, name)), element("td", {}, reason),
  ));
  const names = [state.file, state.reason].map((name) => element("th", { scope: "col" }, name));
  const head = element("thead", {}, element("tr", {}, names));
  return element("section", {}, heading, element("table", {}, head, element("tbody", {}, rows)));
}

function folders(paths) {
  if (!paths.length) return "";
  return element(
    "section", {}, element("h2", {}, words.state.folders),
    element("ul", { class: "paths" }, paths.map((path) => element("li", {}, element("bdi", {}, path)))),
  );
}

async function relearn() {
  try {
    await api.startJob({ kind: "relearn" });
    go({ view: "jobs" });
  } catch (error) {
    toast(error.message, { kind: "bad" });
  }
}
