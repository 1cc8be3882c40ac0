/* What the page itself says of the server. */

const { writable, mostBytes, colours, mostLines } = document.body.dataset;

export const server = {
  writable: writable === "yes",
  /** Largest file that may be sent. */
  mostBytes: Number(mostBytes),
  /** Of lines between matches, from one side of the query to the other. */
  colours: colours.split(" "),
  mostLines: Number(mostLines),
};
