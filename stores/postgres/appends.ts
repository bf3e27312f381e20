// stores/postgres: the operations of `postgres()`, a group of statements a file. `database.ts` holds the
// connections, `schema.ts` the tables, `listener.ts` the notifications.
import { randomUUID } from 'node:crypto';
import type { RunEvent, RunStarted } from '../../protocol/event.ts';
import { cutWords, searchedNamesOf } from '../../protocol/listing/words.ts';
import {
  type AdoptedRun,
  type ClaimRequest,
  changedRun,
  type JournalRest,
  type Standing,
  type StandingChange,
} from '../../protocol/store.ts';
import { encodeEvent } from '../journal-text.ts';
import { sumOfEntry, sumOfRecord, sumOfSnapshot } from '../sql/checksum.ts';
import { columnsOf, escapeText, figuresOf, newRunOf, type Row, type Transaction } from '../sql/rows.ts';
import type { Database } from './database.ts';
import { NOTIFY_WORK, notifyRun } from './listener.ts';
import { writeBlob } from './runs.ts';
import { addWordsSql, insertTextsSql, textValues } from './texts.ts';

/** Where a journal has to end for an append; `epoch` is null for an input, `redactions` if they are not compared. */
type Guard = { after: number; epoch: number | null; redactions: number | null };

/** A granted claim. `from`: the end of the lease before, as stored. */
type Claimed = { request: ClaimRequest; epoch: number; from: unknown };

/** Writes journals. Each append is one statement, which counts once although its reply may be lost. */
export function makeAppends(database: Database, now: () => number) {
  const untilOf = (time: number | undefined) => (time === undefined ? undefined : time - now());

  const findCommit = (key: string, seq: number, commit: string): Promise<Row[]> =>
    database.query(
      `SELECT a.seq FROM @runs r JOIN @appends a USING (run)
       WHERE r.run_id = $1 AND a.seq = $2 AND a.commit_id = $3`,
      ...[key, seq, commit],
    );

  /** Appends events, and takes the lease with `claimed`. Resolves to false if the run is not as expected. */
  async function write(
    runId: string,
    guard: Guard,
    events: readonly RunEvent[],
    standing: Partial<Standing>,
    claimed?: Claimed,
  ): Promise<boolean> {
    const key = escapeText(runId);
    const commit = randomUUID();
    const wakeInMs = untilOf(standing.wakeAt) ?? null;
    const beside = claimed ? claimBeside(claimed) : appendBeside(guard.epoch, wakeInMs, standing.wakes);
    const written = await database.queryOnce(
      ...appendSql({ key, commit, ...guard }, events, standing, beside),
      () => findCommit(key, guard.after + events.length, commit),
    );
    return written.length > 0;
  }

  async function setStanding(
    runId: string,
    { after, epoch, redactions }: Guard,
    { status, progress, wakeAt }: Standing,
    query: Transaction = (text, ...values) => database.query(text, ...values),
  ): Promise<boolean> {
    const set = await query(
      `UPDATE @runs r SET status = $4, ${setProgress('$5', '$8')}, ${setWakeAt('$6')}
       WHERE run_id = $1 AND seq = $2 AND ($3::int8 IS NULL OR epoch = $3)
         AND ($7::int8 IS NULL OR redactions = $7) RETURNING 1`,
      ...[escapeText(runId), after, epoch, status, jsonTextOf(progress), untilOf(wakeAt) ?? null, redactions],
      jsonTextOf(progress && figuresOf(progress)),
    );
    return set.length > 0;
  }

  /**
   * Inserts a run and changes others in one transaction: none of it if the run is not inserted. `old`: whose place in its
   * thread it takes. Rejects with `refused` if one is not as expected.
   */
  async function insertWith(
    created: Created,
    old: string | undefined,
    { beside, blobs }: { beside: readonly StandingChange[]; blobs: NonNullable<JournalRest['blobs']> },
  ): Promise<Row[]> {
    const inOrder = beside.toSorted((one, other) => (one.runId < other.runId ? -1 : 1));
    return await database
      .transact(async query => {
        for (const change of inOrder)
          if (!(await setStanding(change.runId, { ...change, redactions: null }, change, query)))
            throw changedRun(change.runId);
        const place = old === undefined ? undefined : await freePlace(query, old);
        const made = await query(...flat(insertRun({ ...created, free: place })));
        if (made.length === 0) throw NOTHING_MADE;
        for (const { run } of made)
          for (const blob of blobs) await writeBlob(query, { run: Number(run), ...blob });
        return made;
      })
      .catch(error => {
        if (error === NOTHING_MADE) return [];
        throw error;
      });
  }

  return { untilOf, findCommit, write, setStanding, insertWith };
}

const NOTHING_MADE = new Error('The run was not inserted.');

function flat([text, values]: Statement): [string, ...unknown[]] {
  return [text, ...values];
}

async function freePlace(query: Transaction, runId: string): Promise<unknown> {
  const [freed] = await query(
    `UPDATE @runs r SET place = NULL FROM (SELECT run, place FROM @runs WHERE run_id = $1 FOR UPDATE) old
     WHERE r.run = old.run RETURNING old.place`,
    escapeText(runId),
  );
  return freed?.place ?? null;
}

/** $14 is how long until the run is woken, in ms, and $15 the id of a run to wake, if there is one. */
function appendBeside(epoch: number | null, wakeInMs: number | null, wakes: string | undefined): Beside {
  const told = `, ${notifyRun('$1::text')} AS told,
      CASE WHEN $8 = 'running' AND (SELECT owner IS NULL OR lease_until <= @now_ms() FROM old)
      THEN ${NOTIFY_WORK} END AS work`;
  const woken = `,
    woken AS (
      UPDATE @runs r SET wake_at = LEAST(r.wake_at, @now_ms()) FROM summed
      WHERE r.run_id = $15 AND r.status IN ('running', 'waiting') RETURNING ${NOTIFY_WORK} AS told)`;
  return {
    columns: setWakeAt('$14'),
    parts: wakes === undefined ? '' : woken,
    returning: `${epoch === null ? told : ''}${wakes === undefined ? '' : ', (SELECT count(told) FROM woken)'}`,
    values: wakes === undefined ? [wakeInMs] : [wakeInMs, escapeText(wakes)],
  };
}

/** $14 is the epoch, $15 the owner, $16 the length of the lease, and $17 the end of the lease before. */
function claimBeside({ request, epoch, from }: Claimed): Beside {
  return {
    columns: `epoch = $14, owner = $15, lease_until = @now_ms() + $16::float8, reserved_until = NULL,
        wake_at = CASE WHEN r.wake_at <= @now_ms() THEN NULL ELSE r.wake_at END`,
    condition: 'AND lease_until IS NOT DISTINCT FROM $17::float8',
    returning: `, ${notifyRun('$1::text')} AS told`,
    values: [epoch, JSON.stringify(request.owner), request.leaseMs, from],
  };
}

/** What a statement does beside an append: it sets columns of `runs r`, under a further condition. */
type Beside = {
  columns?: string;
  condition?: string;
  parts?: string;
  returning?: string;
  /** The parameters from $14 on. */
  values?: readonly unknown[];
};

/** Returns the statement of an append. It returns no row if it appends nothing. `commit`: a UUID that identifies it. */
export function appendSql(
  { key, commit, after, epoch, redactions }: Guard & { key: string; commit: string },
  events: readonly RunEvent[],
  { status, progress, stateHash, words = '' }: Partial<Standing>,
  { columns = 'epoch = r.epoch', condition = '', parts = '', returning = '', values = [] }: Beside = {},
): Statement {
  const json = events.map(encodeEvent).join('\n');
  const added = cutWords(words);
  const at = events.at(-1)?.at ?? 0;
  const text = `WITH old AS (
      SELECT run, last_sum, owner, lease_until FROM @runs
      WHERE run_id = $1 AND seq = $2 AND ($3::int8 IS NULL OR epoch = $3)
        AND ($12::int8 IS NULL OR redactions = $12)
        AND NOT (${isOver('$8::text')} IS FALSE AND ${isOver('status')}) ${condition} FOR UPDATE),
    summed AS (
      SELECT run, last_sum AS prior,
        left(encode(sha256(convert_to(last_sum || $4::text || COALESCE($5::text, ''), 'UTF8')), 'hex'), 16) AS sum
      FROM old),
    moved AS (
      UPDATE @runs r SET seq = $2::int8 + $6::int4, last_sum = summed.sum, updated_at = $7,
        status = COALESCE($8, status), ${setProgress('$9', '$13')}, ${columns}
      FROM summed WHERE r.run = summed.run)${parts}${added === '' ? '' : addWordsSql('summed', '$2::int8 + $6::int4', 14 + values.length)}
    INSERT INTO @appends (run, seq, count, chars, position, prior, sum, state_hash, commit_id, json)
    SELECT run, $2::int8 + $6::int4, $6, $10, @position_of(pg_current_xact_id()), prior, sum, $5, $11, $4 FROM summed
    RETURNING seq${returning}`;
  const appended = [key, after, epoch, json, stateHash ?? null, events.length, at];
  const said = [status ?? null, jsonTextOf(progress), json.length, commit, redactions];
  const figures = jsonTextOf(progress && figuresOf(progress));
  return [text, [...appended, ...said, figures, ...values, ...(added === '' ? [] : textValues(added))]];
}

function isOver(status: string): string {
  return `${status} NOT IN ('running', 'waiting')`;
}

/** A time to wake the run that has come stays; otherwise the parameter, in ms from now, replaces it. */
function setWakeAt(wakeInMs: string): string {
  return `wake_at = CASE WHEN r.wake_at <= @now_ms() THEN r.wake_at ELSE @now_ms() + ${wakeInMs}::float8 END`;
}

/** Sets the progress, and its parts as `figuresOf` returns them, from parameters with their JSON; null changes nothing. */
export function setProgress(progress: string, figures: string): string {
  const parts = Object.entries(FIGURES).map(
    ([name, type]) =>
      `${name} = CASE WHEN ${figures}::json IS NULL THEN r.${name} ELSE (${figures}::json ->> '${name}')::${type} END`,
  );
  return [`progress = COALESCE(${progress}, r.progress)`, ...parts].join(', ');
}

/** The columns with the parts of a progress. */
const FIGURES = {
  turns: 'float8',
  tokens: 'float8',
  cached: 'float8',
  cached_of: 'float8',
  cost: 'float8',
  active_ms: 'float8',
  doubted: 'int4',
  model: 'text',
  error_code: 'text',
} satisfies Record<keyof ReturnType<typeof figuresOf>, string>;

export function jsonTextOf(value: object | undefined): string | null {
  return value === undefined ? null : JSON.stringify(value);
}

type Statement = [text: string, values: readonly unknown[]];

/** `free`: the place that was freed for the run. */
export type Created = {
  free?: unknown;
  event: RunStarted;
  rest: JournalRest;
  events: readonly RunEvent[];
  claim: ClaimRequest | undefined;
  commit: string;
  wakeInMs: number | undefined;
};

/** Returns no row if the run exists, or cannot take its place in its thread. */
export function insertRun({ event, rest, events, claim, commit, wakeInMs, free }: Created): Statement {
  const json = events.map(encodeEvent).join('\n');
  const run = newRunOf(event, rest);
  const shared = columnsOf(run);
  const prior = sumOfRecord(shared);
  const sum = sumOfEntry(prior, json);
  const columns = {
    ...shared,
    labels: JSON.stringify(run.labels),
    updated_at: events.at(-1)?.at ?? event.at,
    seq: events.length,
    last_sum: sum,
    epoch: claim === undefined ? 0 : 1,
    owner: claim === undefined ? null : JSON.stringify(claim.owner),
    ...(free !== undefined && { place: free }),
  };
  const { source, place } = rest;
  const last = 9 + Object.keys(columns).length;
  const found = `source AS (
      SELECT run FROM @runs WHERE run_id = $${last + 1} AND redactions = $${last + 2} FOR SHARE),
    `;
  const after =
    place !== undefined && 'after' in place && shared.thread_key !== null ? place.after : undefined;
  const first = source ? last + 3 : last + 1;
  const line =
    after === undefined
      ? ''
      : `${lineSql(`$${first}`, `$${first + 1}`)},
    `;
  const words = cutWords(rest.words ?? '');
  const rows = [
    { seq: 0, text: searchedNamesOf(run) },
    ...(words === '' ? [] : [{ seq: events.length, text: words }]),
  ];
  const texts = insertTextsSql(rows, after === undefined ? first : first + 2);
  const text = `WITH ${source ? found : ''}${line}made AS (${insertSql(columns, 10, { isPlaced: line !== '', from: [source && 'source', line && 'line'] })}),
    copied AS (
      INSERT INTO @blobs (run, digest, start, sum, bytes)
      SELECT made.run, b.digest, b.start, b.sum, b.bytes FROM made, @runs o JOIN @blobs b ON b.run = o.run
      WHERE o.run_id = $3)${texts.part}
    INSERT INTO @appends (run, seq, count, chars, position, prior, sum, commit_id, json)
    SELECT run, $4::int8, $4::int4, $5, @position_of(pg_current_xact_id()), $6, $7, $8, $9 FROM made
    RETURNING run, ${claim === undefined ? NOTIFY_WORK : 'NULL'} AS told`;
  const values = [shared.fork_of, events.length, json.length, prior, sum, commit, json];
  const compared = source ? [escapeText(source.runId), source.redactions] : [];
  const placed = after === undefined ? [] : [shared.thread_key, after === null ? null : escapeText(after)];
  return [
    text,
    [
      claim?.leaseMs ?? null,
      wakeInMs ?? null,
      ...values,
      ...Object.values(columns),
      ...compared,
      ...placed,
      ...texts.values,
    ],
  ];
}

/** The statement that imports a run with its snapshot. It returns a row, or none if the run exists. */
export function insertAdopted(
  { seq, state, ...run }: AdoptedRun,
  wakeInMs: number | undefined,
  after: string | null,
): Statement {
  const shared = columnsOf({ ...run, base: seq });
  const columns = {
    ...shared,
    labels: JSON.stringify(run.labels),
    updated_at: run.createdAt,
    seq,
    last_sum: sumOfRecord(shared),
    epoch: 0,
  };
  const isPlaced = shared.thread_key !== null;
  const last = 5 + Object.keys(columns).length;
  const line = isPlaced
    ? `${lineSql(`$${last + 1}`, `$${last + 2}`)},
    `
    : '';
  const texts = insertTextsSql([{ seq: 0, text: searchedNamesOf(run) }], isPlaced ? last + 3 : last + 1);
  const text = `WITH ${line}made AS (${insertSql(columns, 6, { isPlaced, from: [line && 'line'] })})${texts.part}
    INSERT INTO @snapshots (run, seq, sum, state) SELECT run, $3, $4, $5 FROM made RETURNING run`;
  const stateText = JSON.stringify(state);
  const values = [seq, sumOfSnapshot(shared.run_id, seq, stateText), stateText];
  const placed = isPlaced ? [shared.thread_key, after === null ? null : escapeText(after)] : [];
  return [text, [null, wakeInMs ?? null, ...values, ...Object.values(columns), ...placed, ...texts.values]];
}

/**
 * The query `line`: the place after the latest run of a thread; no row if that run is not `after` or has not ended. A
 * deletion of that run waits for the insertion, or the insertion for it; of two that take the same place, one finds it
 * taken.
 */
function lineSql(key: string, after: string): string {
  return `latest AS (
      SELECT run_id, status, place FROM @runs WHERE thread_key = ${key}::text AND place IS NOT NULL
      ORDER BY place DESC LIMIT 1 FOR KEY SHARE),
    line AS (
      SELECT 1 + COALESCE((SELECT place FROM latest), 0) AS place
      WHERE (SELECT run_id FROM latest) IS NOT DISTINCT FROM ${after}::text
        AND NOT EXISTS (SELECT 1 FROM latest WHERE status IN ('running', 'waiting')))`;
}

/** $1 is the length of the lease, $2 `wakeInMs`. Inserts nothing if one of the queries `from` has no row. */
function insertSql(
  columns: Row,
  first: number,
  { isPlaced, from }: { isPlaced: boolean; from: readonly (string | undefined)[] },
): string {
  const names = Object.keys(columns);
  const parameters = names.map((_, index) => `$${first + index}`);
  const sources = from.filter(Boolean);
  return `INSERT INTO @runs (${names.join(', ')}, ${isPlaced ? 'place, ' : ''}lease_until, wake_at)
      SELECT ${parameters.join(', ')}, ${isPlaced ? 'line.place, ' : ''}@now_ms() + $1::float8, @now_ms() + $2::float8
      ${sources.length === 0 ? '' : `FROM ${sources.join(', ')}`}
      ON CONFLICT DO NOTHING RETURNING run`;
}
