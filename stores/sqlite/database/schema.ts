/** The version of the tables below, stored in the file as `user_version`. */
export const SCHEMA_VERSION = 8;

/** Marks a file as a store of runs, stored in it as `application_id`: the letters "agct". */
export const APPLICATION_ID = 0x61676374;

/** The indexes for the child runs of a run and the runs that continue it. */
export const KINSHIP = `CREATE INDEX runs_by_parent ON runs (parent) WHERE parent IS NOT NULL;
CREATE INDEX runs_by_continued ON runs (continues) WHERE continues IS NOT NULL;`;

/** The columns that only lists read. */
export const LISTED = ['search TEXT', 'progress TEXT', 'parent_call TEXT', 'fork_of TEXT', 'fork_at INTEGER'];

/** The column that only `takeWork` reads. */
export const RESERVED = 'reserved_until REAL';

/** The column that counts the redactions of a run. */
export const REDACTED = 'redactions INTEGER NOT NULL DEFAULT 0';

/** The index for the runs of an agent, and the table of labels, which its index finds in the order of lists. */
export const LISTING = `CREATE INDEX runs_by_agent ON runs (agent, created_at, run_id);
CREATE TABLE labels (
  run INTEGER NOT NULL REFERENCES runs (run),
  name TEXT NOT NULL,
  value TEXT NOT NULL,
  created_at REAL NOT NULL,
  run_id TEXT NOT NULL,
  PRIMARY KEY (run, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX labels_by_value ON labels (name, value, created_at, run_id);`;

/**
 * The texts of turns in progress, which may be lost. Some files of schema 5 have the table. `followed_until` is in ms
 * since the epoch.
 */
export const DELTAS = `CREATE TABLE IF NOT EXISTS deltas (
  run INTEGER PRIMARY KEY,
  followed_until REAL NOT NULL,
  seq INTEGER,
  json TEXT
) STRICT;`;

/** The indexes for work. Appends change none of their columns. */
export const WORK = `CREATE INDEX runs_at_work ON runs (agent) WHERE status = 'running' OR owner IS NOT NULL;
CREATE INDEX runs_to_wake ON runs (wake_at) WHERE wake_at IS NOT NULL;`;

/** The table of journals. */
export const APPENDS = `CREATE TABLE appends (
  place INTEGER PRIMARY KEY,
  position INTEGER NOT NULL,
  run INTEGER AS (place >> 32),
  seq INTEGER AS (place & 4294967295),
  commit_id TEXT,
  wakes TEXT,
  state_hash TEXT,
  sums TEXT NOT NULL,
  json TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX appends_by_position ON appends (position);`;

/** The tables of the feed. */
export const FEED = `CREATE TABLE feed (
  lowest INTEGER NOT NULL
) STRICT;
INSERT INTO feed VALUES (0);
CREATE TABLE listeners (
  name TEXT PRIMARY KEY,
  cursor TEXT NOT NULL,
  owner TEXT,
  until REAL
) STRICT, WITHOUT ROWID;`;

/**
 * The schema. Ids and names of agents are stored as returned by `escapeText`; titles and labels are printable text. A
 * run has a number, `run`, which is never reused.
 *
 * - `runs`: the record of each run. `seq` and `end_sum` are the number and the checksum of its journal's last entry,
 *   `wake_at` is when a run that rests has to be driven again, `reserved_until` until when `takeWork` passes it over.
 *   `redactions` counts the redactions. `search` is the title as `foldText` returns it, and `progress` the JSON of a `Progress`.
 * - `labels`: the labels of the runs, with the columns by which lists are sorted.
 * - `journals`: a second copy of each run id, to distinguish a lost record from an unknown run.
 * - `appends`: the journals, one row per append (several if it is long). `place` orders the rows of a run by the number
 *   of their last entry, `seq`. `json` holds the JSON of the entries, one per line; `sums` their checksums, 16
 *   characters each; `state_hash` the hash of the state after the last entry, if the run rests or has ended there.
 *   `position` numbers the appends of all runs in the order of their commits, from 1, and is never used again.
 * - `feed`: one row. `lowest` is the highest position when runs were last deleted.
 * - `listeners`: the cursors of those who read the feed, by name, and who holds them until when (ms since the epoch).
 * - `blobs`: results that are too large for a journal, by digest, in parts that begin at `start`. `run_blobs` assigns
 *   them to runs, so that runs can share a blob.
 * - `deltas`: see `DELTAS`. `seq` and `json` are null while there is no text.
 *
 * Not used: the columns `commit_id` and `wakes` of `appends`.
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
  end_sum TEXT NOT NULL,
  epoch INTEGER NOT NULL,
  owner TEXT,
  lease_until REAL
, ${LISTED.join(', ')}, ${RESERVED}, ${REDACTED}) STRICT;
CREATE INDEX runs_by_age ON runs (created_at, run_id);
${KINSHIP}
${WORK}
CREATE INDEX runs_by_status ON runs (status, created_at, run_id);

CREATE TABLE journals (
  run_id TEXT PRIMARY KEY,
  run INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

${APPENDS}

${FEED}

${LISTING}

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

${DELTAS}

PRAGMA application_id = ${APPLICATION_ID};
PRAGMA user_version = ${SCHEMA_VERSION};
`;
