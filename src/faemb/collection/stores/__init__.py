"""Where the vectors of a collection lie: in its own folder, or in a Milvus server."""
