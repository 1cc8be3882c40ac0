"""The tables of a catalogue, as SQL."""

FORMAT = "faemb-collection"
VERSION = 5

ADDED_IN_VERSION_3 = (
    "create table staged (id integer primary key, slot integer not null unique, vector_crc integer not null,"
    " offset integer not null) strict",
    "create table removed (path text primary key) strict",
)
INDEXES = (
    "create index if not exists by_size on images (bytes)",
    "create index if not exists by_content on images (hash)",
    "create index if not exists by_offset on images (offset) where offset is not null",
)
"""SQLite indexes, without which a change of one image reads all rows. Collections made before there were any get them
with their next change; no version of the format depends on them."""
SCHEMA = f"""
create table about (name text primary key, value text not null) strict;
create table folders (path text primary key) strict;
create table images (
    id integer primary key autoincrement,
    path text not null unique,
    hash text not null,
    bytes integer not null,
    changed integer not null,
    width integer not null,
    height integer not null,
    features integer not null,
    slot integer unique,
    vector_crc integer,
    offset integer,
    length integer,
    features_crc integer
) strict;
create index by_waiting on images (id) where slot is null and features > 0;
{"; ".join(INDEXES)};
create table unreadable (
    path text primary key, bytes integer not null, changed integer not null, reason text not null
) strict;
{"; ".join(ADDED_IN_VERSION_3)};
"""
# staged: vectors of the next generation, while the model is learned again. A row is valid while its image's features
# are at the same offset: those of an image that has changed are elsewhere.
# removed: images that are skipped when folders are searched.
