/* Answers of the server that are kept while the page is open: going back shows them at once. */

const MOST = 100;
const kept = new Map();
let changes = 0;

/** What `make` answers for a key; the same as before if nothing has changed since. */
export async function remembered(key, make) {
  if (!kept.has(key)) {
    const before = changes;
    const answer = await make();
    if (changes !== before) return answer; // it may be older than the change
    kept.set(key, answer);
    if (kept.size > MOST) kept.delete(kept.keys().next().value);
  }
  return kept.get(key);
}

/** The collection has changed. */
export function forget() {
  changes++;
  kept.clear();
}
