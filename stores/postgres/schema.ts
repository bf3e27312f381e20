import { EngineError } from '../../protocol/error.ts';
import type { Transaction } from '../sql/rows.ts';

/** Each step renames what the release before writes to, so that its processes can no longer write. */
export type SchemaSteps = readonly ((schema: string) => string)[];

const STEPS: SchemaSteps = [];

/** The version of the tables after the steps; the tables below are of that version. It is stored in the table `meta`. */
export function schemaVersion(steps: SchemaSteps = STEPS): number {
  return steps.length + 1;
}

/** More transactions than a server has in one era. A position stays below 2^50. */
const ERA = 2 ** 40;

/** PostgreSQL cuts longer names; the channel of notifications is eight bytes longer. */
const MOST_BYTES = 55;

/** The advisory lock under which the tables are created and migrated: the letters "agct". */
const MIGRATION_LOCK = 0x61676374;

/**
 * The tables. Ids and names of agents are stored as returned by `escapeText`; JSON is stored as text, because `jsonb`
 * changes the order of members and refuses NUL. Times are in ms since the epoch.
 *
 * - `now_ms()`: the clock that decides leases.
 * - `runs`: the record of each run. `seq` and `last_sum` are the number and the checksum of its journal's last entry.
 *   `wake_at` is when a run that rests has to be driven again, `reserved_until` until when `takeWork` passes it over,
 *   `thread_key` is `threadKeyOf` the run, and `place` its place in the thread. `redactions` counts the redactions.
 *   `progress` is the JSON of a `Progress`; the columns before it are parts of it (`figuresOf`), which no index has. `session`
 *   is the label of that name.
 *   The indexes for work, `runs_at_work` and `runs_to_wake`, have no column that an append changes.
 * - `texts`: what searches find runs by, folded: for each run its names (`searchedNamesOf`), with the `seq` 0, and the words of each
 *   commit that had any, with that of its last entry. `grams` are the hashes of their groups of three characters.
 * - `position_of()`: the place of a transaction in the feed. `era` counts the servers that the tables were restored to:
 *   another server numbers its transactions from the start.
 * - `appends`: the journals, one row per append. `seq` is the number of its last entry, `count` how many it has, `json`
 *   their JSON, one per line, `chars` its length. `sum` is the checksum of the row, `prior` that of the row before.
 *   `position` is that of its transaction, which writes no other row. `commit_id` identifies the append, to find out whether it was committed if its reply was lost.
 * - `deltas`: the texts of turns in progress of followed runs; not in the server's log, and lost if it crashes.
 * - `listeners`: the cursors of the feed that the store keeps.
 * - `blobs`: results that are too large for a journal, by digest, in parts that begin at `start`.
 */
function tablesOf(schema: string): string {
  return `
CREATE FUNCTION ${schema}.now_ms() RETURNS float8 LANGUAGE sql VOLATILE
  AS 'SELECT (extract(epoch FROM clock_timestamp()) * 1000)::float8';

CREATE TABLE ${schema}.meta (version int4 NOT NULL, era int4 NOT NULL);
INSERT INTO ${schema}.meta VALUES (${schemaVersion()}, 0);

CREATE FUNCTION ${schema}.position_of(transaction xid8) RETURNS int8 LANGUAGE sql STABLE
  AS 'SELECT era * ${ERA}::int8 + transaction::text::int8 FROM ${schema}.meta';

CREATE TABLE ${schema}.runs (
  run int8 GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  run_id text COLLATE "C" NOT NULL UNIQUE,
  agent text COLLATE "C" NOT NULL,
  agent_version text,
  chart_version int4,
  chart_hash text,
  title text NOT NULL,
  search text COLLATE "C" NOT NULL,
  labels jsonb NOT NULL,
  parent text COLLATE "C",
  parent_call text,
  fork_of text,
  fork_at int8,
  continues text COLLATE "C",
  thread text COLLATE "C",
  thread_key text COLLATE "C",
  place int8,
  session text COLLATE "C",
  status text NOT NULL,
  turns float8 NOT NULL,
  tokens float8 NOT NULL,
  cached float8 NOT NULL,
  cached_of float8 NOT NULL,
  cost float8 NOT NULL,
  active_ms float8 NOT NULL,
  doubted int4 NOT NULL,
  model text,
  error_code text,
  progress text,
  created_at float8 NOT NULL,
  updated_at float8 NOT NULL,
  wake_at float8,
  reserved_until float8,
  base int8 NOT NULL,
  seq int8 NOT NULL,
  last_sum text NOT NULL,
  epoch int8 NOT NULL,
  owner text,
  lease_until float8,
  redactions int8 NOT NULL DEFAULT 0
) WITH (fillfactor = 70);
CREATE INDEX runs_by_age ON ${schema}.runs (created_at, run_id);
CREATE INDEX runs_on_top ON ${schema}.runs (created_at, run_id) WHERE parent IS NULL;
CREATE INDEX runs_by_session ON ${schema}.runs (session, created_at, run_id) WHERE session IS NOT NULL AND parent IS NULL;
CREATE INDEX runs_by_status ON ${schema}.runs (status, created_at, run_id);
CREATE INDEX runs_by_agent ON ${schema}.runs (agent, created_at, run_id);
CREATE INDEX runs_by_parent ON ${schema}.runs (parent) WHERE parent IS NOT NULL;
CREATE INDEX runs_by_continued ON ${schema}.runs (continues) WHERE continues IS NOT NULL;
CREATE INDEX runs_by_thread ON ${schema}.runs (thread, created_at, run_id) WHERE thread IS NOT NULL;
CREATE UNIQUE INDEX runs_by_place ON ${schema}.runs (thread_key, place) WHERE thread_key IS NOT NULL;
CREATE INDEX runs_at_work ON ${schema}.runs (agent) WHERE status = 'running' OR owner IS NOT NULL;
CREATE INDEX runs_to_wake ON ${schema}.runs (wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX runs_by_label ON ${schema}.runs USING gin (labels jsonb_path_ops);

CREATE TABLE ${schema}.texts (
  run int8 NOT NULL REFERENCES ${schema}.runs (run) ON DELETE CASCADE,
  seq int8 NOT NULL,
  chars int4 NOT NULL,
  text text NOT NULL,
  grams int4[] NOT NULL,
  PRIMARY KEY (run, seq)
);
CREATE INDEX texts_by_grams ON ${schema}.texts USING gin (grams);

CREATE TABLE ${schema}.appends (
  run int8 NOT NULL REFERENCES ${schema}.runs (run) ON DELETE CASCADE,
  seq int8 NOT NULL,
  count int4 NOT NULL,
  chars int8 NOT NULL,
  position int8 NOT NULL UNIQUE,
  prior text NOT NULL,
  sum text NOT NULL,
  state_hash text,
  commit_id uuid NOT NULL,
  json text NOT NULL,
  PRIMARY KEY (run, seq)
);

CREATE TABLE ${schema}.snapshots (
  run int8 PRIMARY KEY REFERENCES ${schema}.runs (run) ON DELETE CASCADE,
  seq int8 NOT NULL,
  sum text NOT NULL,
  state text NOT NULL
);

CREATE TABLE ${schema}.blobs (
  run int8 NOT NULL REFERENCES ${schema}.runs (run) ON DELETE CASCADE,
  digest text NOT NULL,
  start int8 NOT NULL,
  sum text NOT NULL,
  bytes bytea NOT NULL,
  PRIMARY KEY (run, digest, start)
);

CREATE UNLOGGED TABLE ${schema}.deltas (
  run int8 PRIMARY KEY REFERENCES ${schema}.runs (run) ON DELETE CASCADE,
  followed_until float8 NOT NULL,
  seq int8,
  json text
);

CREATE TABLE ${schema}.listeners (
  name text COLLATE "C" PRIMARY KEY,
  cursor text NOT NULL,
  owner text NOT NULL,
  until float8 NOT NULL
);
`;
}

/** Returns the name of a schema as SQL has it, in quotes. Throws `input-invalid`. */
export function quoteSchema(name: string): string {
  const isName = /^[\p{L}\p{N}_ .-]{1,40}$/u.test(name) && !/^pg_/i.test(name);
  if (!isName || Buffer.byteLength(name) > MOST_BYTES)
    throw new EngineError(
      'input-invalid',
      `Expected a schema of at most 40 letters, digits, spaces, and ".", "_" or "-", that does not begin with pg_, got "${name}".`,
    );
  return `"${name}"`;
}

export function nameOfSchema(schema: string): string {
  return schema.replaceAll('"', '');
}

/** Creates or migrates the tables. Several processes may do so at once. Throws `store-unavailable` for newer tables. */
export async function migrate(query: Transaction, schema: string, steps: SchemaSteps = STEPS): Promise<void> {
  if (!(await hasTables(query, schema))) {
    await query(`SELECT pg_advisory_xact_lock(${MIGRATION_LOCK})`);
    await query(`CREATE SCHEMA IF NOT EXISTS ${schema}`);
    if (!(await hasTables(query, schema))) await query(tablesOf(schema));
  }
  const known = schemaVersion(steps);
  let version = await readVersion(query, schema);
  if (version < known) {
    await query(`SELECT pg_advisory_xact_lock(${MIGRATION_LOCK})`);
    version = await readVersion(query, schema);
    for (const step of steps.slice(version - 1)) await query(step(schema));
    if (version < known) await query(`UPDATE ${schema}.meta SET version = ${known}`);
  }
  assertKnown(version, known);
  await query(
    `UPDATE ${schema}.meta SET era = era + 1
     WHERE (SELECT max(position) FROM ${schema}.appends) >= ${schema}.position_of(pg_current_xact_id())`,
  );
}

/** Returns the version of the tables, `null` without tables. Changes nothing. Throws `store-unavailable` for newer tables. */
export async function findVersion(query: Transaction, schema: string): Promise<number | null> {
  if (!(await hasTables(query, schema))) return null;
  const version = await readVersion(query, schema);
  assertKnown(version, schemaVersion());
  return version;
}

function assertKnown(version: number, known: number): void {
  if (version <= known) return;
  throw new EngineError(
    'store-unavailable',
    `The tables in PostgreSQL have version ${version}, this release knows ${known}. Use the release that wrote them, or a later one.`,
    { version },
  );
}

async function hasTables(query: Transaction, schema: string): Promise<boolean> {
  const find = `SELECT 1 FROM pg_catalog.pg_tables WHERE schemaname = '${nameOfSchema(schema)}' AND tablename = 'meta'`;
  return (await query(find)).length > 0;
}

async function readVersion(query: Transaction, schema: string): Promise<number> {
  const [meta] = await query(`SELECT version FROM ${schema}.meta`);
  return Number(meta?.version);
}
