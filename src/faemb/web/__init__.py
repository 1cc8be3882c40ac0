"""A collection in the browser: the page, and the HTTP API that it uses. Needs the extra 'web'."""
