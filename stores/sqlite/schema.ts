/** Of the tables below; kept in the file as `user_version`. */
export const SCHEMA_VERSION = 2;

/** Marks a file as a store of runs; kept in it as `application_id`. The letters "agct". */
export const APPLICATION_ID = 0x61676374;

/**
 * Results that are too large for a journal, by digest, in parts of `PART_BYTES` that begin at `start`; runs
 * refer to them, so that one is there once for all its runs. Not in files of earlier releases of this version.
 */
export const BLOB_SCHEMA = `
CREATE TABLE IF NOT EXISTS blobs (
  digest TEXT NOT NULL,
  start INTEGER NOT NULL,
  bytes BLOB NOT NULL,
  sum TEXT NOT NULL,
  PRIMARY KEY (digest, start)
) STRICT;

CREATE TABLE IF NOT EXISTS run_blobs (
  run_id TEXT NOT NULL REFERENCES runs (run_id),
  digest TEXT NOT NULL,
  PRIMARY KEY (run_id, digest)
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS run_blobs_by_digest ON run_blobs (digest);
`;

/**
 * A commit needs one look-up and one insert an event; ids and names are held as `escapeText` makes them.
 * `sum` is the checksum of an entry or a snapshot, and in `runs` that of the journal's last entry.
 */
export const SCHEMA = `
CREATE TABLE runs (
  run_id TEXT PRIMARY KEY,
  agent TEXT NOT NULL,
  status TEXT NOT NULL,
  created_at REAL NOT NULL,
  updated_at REAL NOT NULL,
  base INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  continues TEXT,
  epoch INTEGER NOT NULL,
  sum TEXT NOT NULL,
  owner TEXT,
  lease_until REAL
) STRICT, WITHOUT ROWID;
CREATE INDEX runs_by_age ON runs (created_at, run_id);
CREATE INDEX runs_by_status ON runs (status, created_at, run_id);

CREATE TABLE events (
  run_id TEXT NOT NULL REFERENCES runs (run_id),
  seq INTEGER NOT NULL,
  type TEXT NOT NULL,
  at REAL NOT NULL,
  json TEXT NOT NULL,
  sum TEXT NOT NULL,
  PRIMARY KEY (run_id, seq)
) STRICT;

CREATE TABLE items (
  item_id TEXT PRIMARY KEY,
  run_id TEXT NOT NULL,
  seq INTEGER NOT NULL,
  FOREIGN KEY (run_id, seq) REFERENCES events (run_id, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE snapshots (
  run_id TEXT PRIMARY KEY REFERENCES runs (run_id),
  seq INTEGER NOT NULL,
  state TEXT NOT NULL,
  sum TEXT NOT NULL
) STRICT;

${BLOB_SCHEMA}
PRAGMA application_id = ${APPLICATION_ID};
PRAGMA user_version = ${SCHEMA_VERSION};
`;
