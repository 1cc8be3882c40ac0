/* All words of the page, in one place so that they can be translated. */

const claims = JSON.parse(document.body.dataset.claims);
const number = new Intl.NumberFormat("en");
const counted = (count, one, many = `${one}s`) => `${number.format(count)} ${count === 1 ? one : many}`;
const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);
const shortTime = (seconds) => (seconds < 90 ? counted(
  Math.max(1, Math.round(seconds)), "second",
) : counted(Math.round(seconds / 60), "minute"));

/** Rounded down, and never 100 %: a probability that was estimated is not certain. */
const percent = (probability) => `${Math.min(Math.floor(100 * probability), 99)} %`;

function bytes(count) {
  if (count >= 1e9) return `${(count / 1e9).toFixed(1)} GB`;
  return count >= 1e6 ? `${(count / 1e6).toFixed(1)} MB` : `${Math.round(count / 1e3)} KB`;
}

export const words = {
  collection: document.body.dataset.collection,
  counted,
  percent,
  bytes,

  unreachable: "The server cannot be reached. Is it still running?",
  failed: (status) => `The server could not answer (${status}). Try again.`,

  views: { search: "Search", browse: "Browse", groups: "Groups", state: "Collection", add: "Add", jobs: "Jobs" },
  title: (view, collection) => `${view}: ${collection}`,
  running: (count) => `${counted(count, "job")} running`,

  start: {
    heading: "Find the pictures that show the same thing",
    drop: "Drop a photograph here, paste it, or",
    choose: "Choose a photograph",
    photograph: "Take a photograph",
    or: "Or start with a picture of the collection",
    empty: "The collection has no pictures yet.",
    searchWith: (name) => `Search with ${name}`,
  },
  camera: {
    take: "Take it",
    cancel: "Cancel",
    name: "photograph.jpg",
    refused: "The browser does not let this page use the camera: allow it beside the address of the page, then try again.",
    failed: "The camera cannot be used: another program may be using it, so close that, then try again.",
  },
  dropToSearch: "Drop to search with this photograph",
  dropToAdd: "Drop to add these pictures",
  noPicture: "That holds no picture file. Save the picture first, then drop or paste it here.",

  query: {
    heading: "Query",
    other: "Another photograph",
    features: (count, boxed) => `${counted(count, "local feature")}${boxed ? " in the box" : ""}`,
    inCollection: "It is in the collection itself.",
    sending: "Sending the photograph…",
    tooLarge: (name, most) => `${name} is larger than ${bytes(most)}, which is the most that may be sent.`,
    picture: (name) => `Query: ${name}`,
    noPicture: "The picture cannot be shown.",
  },
  box: {
    role: "picture on which a box can be drawn",
    label:
      "Query picture. Press Enter to start a box, arrow keys move it, Shift with arrow keys resizes it, " +
      "Enter searches, Escape removes it.",
    hint: "Draw a box around what you look for.",
    keys: "Enter starts one.",
    editing: "Arrows move, Shift + arrows resize, Enter searches, Escape removes it.",
    draw: "Draw a box",
    remove: "Remove the box",
    removed: "Box removed.",
    at: ([x1, y1, x2, y2], share) =>
      `Box from ${x1}, ${y1} to ${x2}, ${y2}: ${Math.max(1, Math.round(100 * share))} % of the picture.`,
  },

  filters: {
    heading: "Filter",
    folder: "Folder",
    allFolders: "All folders",
    name: "Name contains",
    since: "Date from",
    until: "to",
    order: "Order",
    byName: "by folder and name",
    byDate: "by date, newest first",
    expand: "Search again with each sure result",
    turned: "The picture may lie on its side",
    turnedWhy: "Also searches with it turned by 90, 180 and 270 degrees",
    expandWhy: "Finds pictures that share nothing with the query, but show the same thing as a result",
    reset: "Clear filters",
    inFolder: (folder, images) => `${folder} (${number.format(images)})`,
  },

  results: {
    heading: "Results",
    searching: "Searching…",
    same: claims.same,
    maybe: claims.maybe,
    unsure: claims.unsure,
    notCompared: "not compared",
    claim: (verdict) => capital(claims[verdict] ?? "not compared"),
    confidence: (probability) => `confidence ${percent(probability)}`,
    onlyConfidence: "Confidence",
    similarity: (value) => `similarity ${value.toFixed(3)}`,
    noFeatures: "no local features",
    copy: "copy of the query",
    through: "found through a result",
    line: "Not confirmed (confidence below 50 %):",
    lineNotCompared: "Not compared with the query, only similar to it:",
    lineFirst: "No result is confirmed; the most similar pictures:",
    /** Why no picture is shown; `itself`: the query is all that could have been. */
    none: ({ filtered, itself }) => {
      if (filtered) return itself ? "No other picture fits the filter." : "No picture fits the filter.";
      return itself ? "There is no other picture to compare it with." : "There are no pictures to search in yet.";
    },
    noQueryFeatures: "The query has no local features, so nothing can be compared with it.",
    noQueryFeaturesInBox: "The box holds no local features, so nothing can be compared with it. Draw a larger one.",
    searchWith: "Search with this",
    searchWithName: (name) => `Search with this: ${name}`,
    compare: "Compare",
    compareName: (name) => `Compare: ${name}`,
    /** `more`: there may be others among those that have not come yet. */
    found: ({ same, maybe, seconds, more }) => {
      const surely = same && `${counted(same, "picture shows", "pictures show")} the same thing`;
      const pictures = same ? number.format(maybe) : counted(maybe, "picture");
      const perhaps = maybe && `${pictures} maybe${same ? "" : " of the same thing"}`;
      const text = [surely, perhaps].filter(Boolean).join(", ") || "No picture surely shows the same thing";
      return `${more ? "At least " : ""}${text}. ${seconds < 0.01 ? "Under 0.01" : seconds.toFixed(2)}\u00a0s.`;
    },
  },
  more: "Show more",
  again: "Try again",
  shown: (count, total) => `${number.format(count)} of ${number.format(total)}`,
  missing: "no picture",
  /** What is wrong with the file of a result. */
  fileStates: { missing: "not there", changed: "changed since it was indexed" },

  compare: {
    heading: "Compare",
    query: "Query",
    result: "Result",
    previous: "Previous result",
    next: "Next result",
    close: "Close",
    loading: "Comparing…",
    how: "How to compare",
    side: "Side by side",
    over: "One over the other",
    matches: "Matches that agree",
    others: "Other matches",
    outline: "What both show",
    drawing: (lines, agreeing) => {
      if (agreeing > lines) return `${lines} of ${agreeing} agreeing matches are drawn.`;
      return `${counted(agreeing, "agreeing match", "agreeing matches")}.`;
    },
    pictures: (agreeing) => `Query and result, with lines between ${counted(agreeing, "region")} that match`,
    fade: "Fade",
    wipe: "Wipe",
    blink: "Blink",
    manner: "How the result is laid over the query",
    opacity: "From query to result",
    edge: "Edge between result and query",
    blinkHint: "What stays in its place is the same in both.",
    overlay: "The result, laid over the query",
    drag: "Drag the edge, or use the slider.",
    noTransform: "No transform was found between the two, so one cannot be laid over the other.",
    why: "Why",
    originalResult: "Original file of the result",
    originalQuery: "Original file of the query",
    keys: "Left and right arrow keys: previous and next result.",
  },

  browse: {
    heading: "All pictures",
    total: (count) => counted(count, "picture"),
    none: "No picture fits the filter.",
    search: "Search with this",
    pixels: (width, height) => (width ? `${number.format(width)} × ${number.format(height)}` : ""),
    taken: (date) => `taken ${date}`,
    changed: (date) => `changed ${date}`,
  },

  groups: {
    heading: "Groups",
    what: "What belongs together",
    copies: "Copies",
    copiesWhy: "Made from one picture: resized, cropped, with a caption, in other colours. A collage joins its pictures.",
    same: "The same thing",
    sameWhy: "Different photographs too, in chains: two of a group may share nothing. Look before you remove one.",
    mirrored: "Mirrored copies too",
    total: (count) => counted(count, "group"),
    none: "No groups were found.",
    outdated: "The collection has changed since its pictures were compared.",
    again: "Look again",
    group: (place) => `Group ${place}`,
    about: (group) => `${group.kind}: ${counted(group.images.length, "picture")}, ${group.similarity}`,
    keep: (reason) => `keep: ${reason}`,
    compare: "Compare",
    compareName: (name, first) => `Compare: ${name} with ${first}`,
  },

  add: {
    heading: "Add pictures",
    drop: "Drop pictures here, or",
    choose: "Choose pictures",
    waiting: "waiting",
    sending: (part) => (part < 1 ? `sending, ${Math.floor(100 * part)} %` : "being read"),
    added: "added",
    known: "is in the collection already",
    later: "waiting: the collection is being changed",
    failed: (reason) => `not added: ${reason}`,
    tooLarge: (most) => `larger than ${bytes(most)}, which is the most that may be sent`,
    summary: (done, total) => `${number.format(done)} of ${number.format(total)} done`,
    sent: (total, failed) => {
      const text = `${counted(total, "picture was", "pictures were")} sent.`;
      return failed ? `${text} ${number.format(failed)} could not be added.` : text;
    },
    folders: "From folders of the server",
    foldersWhy: "Pictures that have come, changed or gone since are added, read again, or removed.",
    update: "Look through the folders again",
    folder: "A folder inside one of these",
    addFolder: "Add its pictures",
    noFolders: "The collection holds files that were given one by one, and no folders.",
  },

  remove: {
    action: "Remove",
    name: (name) => `Remove: ${name}`,
    question: "Remove this picture from the collection?",
    stays: "The file itself stays where it is.",
    yes: "Remove",
    no: "Keep it",
    done: (name) => `${name} was removed from the collection.`,
    undo: "Undo",
    keys: navigator.platform.startsWith("Mac") ? "⌘ Z" : "Ctrl + Z",
    later: "The collection is being changed; this is done when that has ended.",
    undone: (name) => `${name} is back.`,
  },

  jobs: {
    heading: "Jobs",
    none: "Nothing is being done.",
    kinds: {
      update: "Look through the folders", add: "Add a folder", relearn: "Learn the model again",
      duplicates: "Look for groups",
    },
    states: { waiting: "waiting", running: "running", done: "done", failed: "failed", cancelled: "cancelled" },
    progress: ({ stage, done, total }) => {
      const count = total ? `${number.format(done)} of ${number.format(total)}` : "";
      return [stage, count].filter(Boolean).join(": ") || "starting";
    },
    left: (seconds) => `about ${shortTime(seconds)} left`,
    after: (seconds) => `after ${shortTime(seconds)}`,
    cancel: "Cancel",
    cancelling: "being cancelled…",
    label: (kind) => `Progress: ${kind}`,
    failures: (count) => `${counted(count, "file")} could not be used`,
  },

  state: {
    heading: "Collection",
    images: "Pictures",
    searchable: (count) => `${number.format(count)} can be found`,
    withoutFeatures: (count) => `${number.format(count)} without local features, which come last in results`,
    waiting: (count) => `${number.format(count)} not encoded yet`,
    unusable: "Files that cannot be used",
    noneUnusable: "None: every file that was given could be read.",
    folders: "Folders",
    model: "Model",
    extractor: "Local features",
    encoder: "Encoder",
    dimension: (count) => `${counted(count, "number")} per picture`,
    learned: (count) => `learned from ${counted(count, "picture")}`,
    fault: (reason) => `Nothing can be searched or added now. ${reason}`,
    relearnDue: "The collection has grown much since the model was learned. Learning it again finds more.",
    relearn: "Learn the model again",
    index: "Search",
    /** `asked`: the kind of index that was asked for, which can be to choose one. */
    indexOf: (kind, asked) => {
      const text = kind === "exact" ? "each query is compared with every picture" : `with the index ${kind}`;
      return asked === "auto" && kind !== "exact" ? `${text}, chosen for so many pictures` : text;
    },
    features: "Features are kept",
    yes: "yes, so results are verified",
    no: "no, so results cannot be verified",
    disk: "On disk",
    version: "Version",
    readOnly: "This server only searches. To change the collection, start it with --writable.",
    file: "File",
    reason: "Reason",
    api: "The HTTP API",
  },
};
