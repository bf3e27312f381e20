/** The version of the tables below, stored in the file as `user_version`. */
export const SCHEMA_VERSION = 4;

/** Marks a file as a store of runs, stored in it as `application_id`: the letters "agct". */
export const APPLICATION_ID = 0x61676374;

/** The indexes for the child runs of a run and the runs that continue it. */
export const KINSHIP = `CREATE INDEX runs_by_parent ON runs (parent) WHERE parent IS NOT NULL;
CREATE INDEX runs_by_continued ON runs (continues) WHERE continues IS NOT NULL;`;

/** The table of journals. */
export const APPENDS = `CREATE TABLE appends (
  place INTEGER PRIMARY KEY,
  run INTEGER AS (place >> 32),
  seq INTEGER AS (place & 4294967295),
  commit_id TEXT,
  wakes TEXT,
  state_hash TEXT,
  sums TEXT NOT NULL,
  json TEXT NOT NULL
) STRICT;`;

/**
 * The schema. Ids, names and titles are stored as returned by `escapeText`. A run has a number, `run`, which is never
 * reused.
 *
 * - `runs`: the record of each run. `seq` and `sum` are the number and the checksum of its journal's last entry.
 * - `journals`: a second copy of each run id, to tell a run whose record was lost from one that never existed.
 * - `appends`: the journals, one row per append (several if it is long). `place` orders the rows of a run by the number
 *   of their last entry, `seq`. `json` holds the JSON of the entries, one per line; `sums` their checksums, 16
 *   characters each; `state_hash` the hash of the state after the last entry, if the run rests or has ended there.
 * - `blobs`: results that are too large for a journal, by digest, in parts that begin at `start`. `run_blobs` assigns
 *   them to runs, so that runs can share a blob.
 *
 * Not used yet: `labels`, and the columns `title`, `wake_at` (ms since the epoch), `commit_id` (identifies an append,
 * to find out whether it was made if its reply was lost) and `wakes` (the id of a run to wake).
 */
export const SCHEMA = `
CREATE TABLE runs (
  run INTEGER PRIMARY KEY AUTOINCREMENT,
  run_id TEXT NOT NULL UNIQUE,
  agent TEXT NOT NULL,
  agent_version TEXT,
  chart_version INTEGER,
  chart_hash TEXT,
  title TEXT,
  parent TEXT,
  continues TEXT,
  status TEXT NOT NULL,
  created_at REAL NOT NULL,
  updated_at REAL NOT NULL,
  wake_at REAL,
  base INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  sum TEXT NOT NULL,
  epoch INTEGER NOT NULL,
  owner TEXT,
  lease_until REAL
) STRICT;
CREATE INDEX runs_by_age ON runs (created_at, run_id);
${KINSHIP}
CREATE INDEX runs_by_status ON runs (status, created_at, run_id);

CREATE TABLE journals (
  run_id TEXT PRIMARY KEY,
  run INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

${APPENDS}

CREATE TABLE labels (
  run INTEGER NOT NULL REFERENCES runs (run),
  name TEXT NOT NULL,
  value TEXT NOT NULL,
  PRIMARY KEY (run, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX labels_by_value ON labels (name, value, run);

CREATE TABLE snapshots (
  run INTEGER PRIMARY KEY REFERENCES runs (run),
  seq INTEGER NOT NULL,
  sum TEXT NOT NULL,
  state TEXT NOT NULL
) STRICT;

CREATE TABLE IF NOT EXISTS blobs (
  digest TEXT NOT NULL,
  start INTEGER NOT NULL,
  bytes BLOB NOT NULL,
  sum TEXT NOT NULL,
  PRIMARY KEY (digest, start)
) STRICT;

CREATE TABLE run_blobs (
  run INTEGER NOT NULL REFERENCES runs (run),
  digest TEXT NOT NULL,
  PRIMARY KEY (run, digest)
) STRICT, WITHOUT ROWID;
CREATE INDEX run_blobs_by_digest ON run_blobs (digest);

PRAGMA application_id = ${APPLICATION_ID};
PRAGMA user_version = ${SCHEMA_VERSION};
`;
