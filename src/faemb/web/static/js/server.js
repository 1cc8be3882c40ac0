/* What the page itself says of the server. */

const { writable, upright, mostBytes, colours, mostLines } = document.body.dataset;

export const server = {
  writable: writable === "yes",
  /** Whether a picture that lies on its side is another one to the collection. */
  upright: upright === "yes",
  /** Largest file that may be sent. */
  mostBytes: Number(mostBytes),
  /** Of lines between matches, from one side of the query to the other. */
  colours: colours.split(" "),
  mostLines: Number(mostLines),
};
