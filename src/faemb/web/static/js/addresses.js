/* Addresses of pictures and files. One that names the content is kept by browsers, and changes with the content. */

const versioned = (address, content) => (content ? `${address}?v=${encodeURIComponent(content)}` : address);

export const thumbnailOf = (image) => versioned(`/api/images/${image.id}/thumbnail`, image.content);
/** The file itself, to be saved. */
export const fileOf = (id) => `/api/images/${id}/file`;
/** The picture of a query, by its key. */
export const pictureOf = (key, content) => versioned(`/api/pictures/${encodeURIComponent(key)}`, content);
