/* Answers of the server that are kept for a while: going back shows them at once. */

const MOST = 100;
const STAYS = 60_000;
/** Milliseconds: others may change the collection, and the page is not told of it. */
const kept = new Map();
let changes = 0;

/** What `make` answers for a key; the same as before if that is not long ago, and nothing has changed since. */
export async function remembered(key, make) {
  const known = kept.get(key);
  if (known && performance.now() - known.since < STAYS) return known.answer;
  const [before, since] = [changes, performance.now()];
  const answer = await make();
  if (changes !== before) return answer; // it may be older than the change
  kept.delete(key); // the newest is last
  kept.set(key, { answer, since });
  if (kept.size > MOST) kept.delete(kept.keys().next().value);
  return answer;
}

/** The collection has changed. */
export function forget() {
  changes++;
  kept.clear();
}
