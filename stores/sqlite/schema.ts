/** Marks a file as a store of runs, stored in it as `application_id`: the letters "agct". */
export const APPLICATION_ID = 0x61676374;

/** The first step takes tables of version 1 to version 2. The file has its version as `user_version`. */
export type Schema = {
  create: string;
  /** SQL. Each renames what the statements of the release before write to, so that its processes can no longer write. */
  steps: readonly string[];
};

export function versionOf({ steps }: Schema): number {
  return steps.length + 1;
}

/**
 * The tables. Ids and names of agents are stored as returned by `escapeText`; titles and labels are printable text. A
 * run has a number, `run`, which is never reused.
 *
 * - `runs`: the record of each run. `seq` and `end_sum` are the number and the checksum of its journal's last entry,
 *   `wake_at` is when a run that rests has to be driven again, `reserved_until` until when `takeWork` passes it over.
 *   `thread_key` is `threadKeyOf` the run, and `place` its place in the thread. `redactions` counts the redactions. `search` is the title as `foldText` returns it, and `progress` the JSON of a
 *   `Progress`; the columns before it are parts of it (`figuresOf`), and `session` is the label of that name.
 * - `labels`: the labels of the runs, with the columns by which lists are sorted.
 * - `texts`: what searches find runs by, folded: for each run its names (`searchedNamesOf`), and the words of each commit that had
 *   any. `id` is the number of the run and that of the commit's last entry, which is 0 for the names. `texts_index` finds
 *   them by groups of three characters. It is written for many texts at once: `texts_to_index` has those that are not yet in
 *   it, `texts_to_drop` those that it has no longer to have. Of what it drops it keeps the groups until they are merged:
 *   `purge` does that if it rebuilds the file.
 * - `journals`: a second copy of each run id, to distinguish a lost record from an unknown run.
 * - `appends`: the journals, one row per append (several if it is long). `place` orders the rows of a run by the number
 *   of their last entry, `seq`. `json` holds the JSON of the entries, one per line; `sums` their checksums, 16
 *   characters each; `state_hash` the hash of the state after the last entry, if the run rests or has ended there.
 *   `position` numbers the appends of all runs in the order of their commits, from 1, and is never used again.
 * - `feed`: one row. `lowest` is the highest position when runs were last deleted.
 * - `listeners`: the cursors of those who read the feed, by name, and who holds them until when (ms since the epoch).
 * - `snapshots`: `state` is deflated JSON, because it repeats what the journal has. `sum` is of the JSON.
 * - `blobs`: results that are too large for a journal, by digest, in parts that begin at `start`. `run_blobs` assigns
 *   them to runs, so that runs can share a blob.
 * - `deltas`: the texts of turns in progress, which may be lost. `followed_until` is in ms since the epoch; `seq` and
 *   `json` are null while there is no text.
 * - The indexes for work, `runs_at_work` and `runs_to_wake`: appends change none of their columns.
 */
export const SCHEMA: Schema = {
  steps: [],
  create: `
CREATE TABLE runs (
  run INTEGER PRIMARY KEY AUTOINCREMENT,
  run_id TEXT NOT NULL UNIQUE,
  agent TEXT NOT NULL,
  agent_version TEXT,
  chart_version INTEGER,
  chart_hash TEXT,
  title TEXT,
  search TEXT,
  parent TEXT,
  parent_call TEXT,
  fork_of TEXT,
  fork_at INTEGER,
  continues TEXT,
  thread TEXT,
  thread_key TEXT,
  place INTEGER,
  session TEXT,
  status TEXT NOT NULL,
  turns INTEGER NOT NULL,
  tokens REAL NOT NULL,
  cached REAL NOT NULL,
  cached_of REAL NOT NULL,
  cost REAL NOT NULL,
  active_ms REAL NOT NULL,
  doubted INTEGER NOT NULL,
  model TEXT,
  error_code TEXT,
  progress TEXT,
  created_at REAL NOT NULL,
  updated_at REAL NOT NULL,
  wake_at REAL,
  reserved_until REAL,
  base INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  end_sum TEXT NOT NULL,
  epoch INTEGER NOT NULL,
  owner TEXT,
  lease_until REAL,
  redactions INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX runs_by_age ON runs (created_at, run_id);
CREATE INDEX runs_on_top ON runs (created_at, run_id) WHERE parent IS NULL;
CREATE INDEX runs_by_session ON runs (session, created_at, run_id) WHERE session IS NOT NULL AND parent IS NULL;
CREATE INDEX runs_by_status ON runs (status, created_at, run_id);
CREATE INDEX runs_by_agent ON runs (agent, created_at, run_id);
CREATE INDEX runs_by_parent ON runs (parent) WHERE parent IS NOT NULL;
CREATE INDEX runs_by_continued ON runs (continues) WHERE continues IS NOT NULL;
CREATE INDEX runs_by_thread ON runs (thread, created_at, run_id) WHERE thread IS NOT NULL;
CREATE UNIQUE INDEX runs_by_place ON runs (thread_key, place) WHERE thread_key IS NOT NULL;
CREATE INDEX runs_at_work ON runs (agent) WHERE status = 'running' OR owner IS NOT NULL;
CREATE INDEX runs_to_wake ON runs (wake_at) WHERE wake_at IS NOT NULL;

CREATE TABLE labels (
  run INTEGER NOT NULL REFERENCES runs (run),
  name TEXT NOT NULL,
  value TEXT NOT NULL,
  created_at REAL NOT NULL,
  run_id TEXT NOT NULL,
  PRIMARY KEY (run, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX labels_by_value ON labels (name, value, created_at, run_id);

CREATE TABLE texts (
  id INTEGER PRIMARY KEY,
  chars INTEGER NOT NULL,
  text TEXT NOT NULL
) STRICT;
CREATE VIRTUAL TABLE texts_index USING fts5 (
  text, content = 'texts', content_rowid = 'id', detail = none, columnsize = 0, tokenize = 'trigram case_sensitive 1'
);
CREATE TABLE texts_to_index (
  id INTEGER PRIMARY KEY,
  chars INTEGER NOT NULL
) STRICT;
CREATE TABLE texts_to_drop (
  id INTEGER PRIMARY KEY,
  text TEXT NOT NULL
) STRICT;
CREATE TRIGGER texts_added AFTER INSERT ON texts BEGIN
  INSERT INTO texts_to_index VALUES (new.id, new.chars);
END;
CREATE TRIGGER texts_removed AFTER DELETE ON texts BEGIN
  INSERT INTO texts_to_drop SELECT old.id, old.text WHERE NOT EXISTS (SELECT 1 FROM texts_to_index WHERE id = old.id);
  DELETE FROM texts_to_index WHERE id = old.id;
END;

CREATE TABLE journals (
  run_id TEXT PRIMARY KEY,
  run INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE appends (
  place INTEGER PRIMARY KEY,
  position INTEGER NOT NULL,
  run INTEGER AS (place >> 32),
  seq INTEGER AS (place & 4294967295),
  state_hash TEXT,
  sums TEXT NOT NULL,
  json TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX appends_by_position ON appends (position);

CREATE TABLE feed (
  lowest INTEGER NOT NULL
) STRICT;
INSERT INTO feed VALUES (0);

CREATE TABLE listeners (
  name TEXT PRIMARY KEY,
  cursor TEXT NOT NULL,
  owner TEXT,
  until REAL
) STRICT, WITHOUT ROWID;

CREATE TABLE snapshots (
  run INTEGER PRIMARY KEY REFERENCES runs (run),
  seq INTEGER NOT NULL,
  sum TEXT NOT NULL,
  state BLOB NOT NULL
) STRICT;

CREATE TABLE blobs (
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

CREATE TABLE deltas (
  run INTEGER PRIMARY KEY,
  followed_until REAL NOT NULL,
  seq INTEGER,
  json TEXT
) STRICT;

PRAGMA application_id = ${APPLICATION_ID};
`,
};
