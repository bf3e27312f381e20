// server/runs/regressions: the runs that `agentchart regress` played, from the notes in their journals.

import type { Context } from 'hono';
import * as z from 'zod';
import { type Caller, seesRun } from '../../../access/caller.ts';
import { readPages } from '../../../engine/journal/read-journal.ts';
import { EngineError } from '../../../protocol/error.ts';
import { omitUndefined } from '../../../protocol/json.ts';
import { parseLabels } from '../../../protocol/listing/label.ts';
import { type ListFilter, listFilterSchema, type RunRecord, type Store } from '../../../protocol/store.ts';
import { comparedShape, readPlayedNote, sideSchema } from '../../../regress/played-note.ts';
import { type PlayedNote, REGRESS } from '../../../regress/played-run.ts';
import type { Regression } from '../../../regress/regression.ts';
import { withLabelsOf } from '../../access/authorize.ts';
import { fields, optional } from '../../fields.ts';
import { remember } from '../../remember.ts';
import type { RunsEnv } from '../../runs-env.ts';

const MOST_RUNS = 200;
const MOST_KNOWN = 20_000;

/** How many of a journal's last entries are searched: the note is the last, unless the run was used afterwards. */
const TAILS = [1, 64];

const { order, cursor } = listFilterSchema.shape;
export const regressionsQuery = fields({
  side: sideSchema.default('candidate').meta({ description: 'Which played runs.' }),
  of: optional(z.string(), 'Only those of this recorded run.'),
  label: optional(z.array(z.string()), 'NAME=VALUE; repeatable. The played run has all of these labels.'),
  order: z.optional(order).meta({ description: 'By when the recorded runs began. Default: newest first.' }),
  limit: z.coerce.number().int().min(1).max(MOST_RUNS).default(50).meta({
    description: 'How many played runs a page covers. Those that have no comparison yet are left out.',
  }),
  cursor,
});

const regressionSchema = z.object({
  runId: z.string().meta({ description: 'The recorded run.' }),
  candidate: z.string().meta({ description: 'The run that was played from it.' }),
  ...comparedShape,
  title: z.string().meta({ description: 'The title of the recorded run.' }),
  agent: z.string(),
  createdAt: z.number().meta({ description: 'When the recorded run began, in ms since the epoch.' }),
}) satisfies z.ZodType<Regression>;

export const regressionsSchema = z.object({
  regressions: z.array(regressionSchema),
  next: optional(z.string(), 'The cursor of the next page. Absent at the end.'),
});

/** A run that was played, and how it compares. */
export type Played = { record: RunRecord; note: PlayedNote };

/** Reads how played runs compare with their recordings. A note never changes: it is read once. */
export class Regressions {
  readonly #store: Store;
  readonly #known = new Map<string, { seq: number; note: PlayedNote | undefined }>();

  constructor(store: Store) {
    this.#store = store;
  }

  async read(
    caller: Caller,
    { side, of, label = [], order: sorted = 'desc', ...page }: z.output<typeof regressionsQuery>,
  ): Promise<z.output<typeof regressionsSchema>> {
    const labels = { ...parseLabels(label), [REGRESS]: side, ...omitUndefined({ of }) };
    const { played, next } = await this.list({
      ...page,
      order: sorted,
      labels: withLabelsOf(caller, labels),
    });
    const regressions = await Promise.all(played.map(one => this.#describe(caller, one)));
    return { regressions, ...omitUndefined({ next }) };
  }

  /** The played runs of a page of the store's list that have a note. */
  async list(filter: ListFilter): Promise<{ played: Played[]; next?: string }> {
    const { runs, next } = await this.#store.list({ ...filter, onDamaged: () => {} });
    const notes = await Promise.all(runs.map(record => this.#noteOf(record)));
    const played = runs.flatMap((record, at): Played[] => {
      const note = notes[at];
      return note === undefined ? [] : [{ record, note }];
    });
    return { played, ...omitUndefined({ next }) };
  }

  async #describe(caller: Caller, { record, note }: Played): Promise<Regression> {
    const { runId: candidate, agent, createdAt } = record;
    const { of: runId, ...comparison } = note;
    const recorded = await this.#store.get(runId);
    const { title } = recorded !== undefined && seesRun(caller, recorded.labels) ? recorded : record;
    return { runId, candidate, ...comparison, title, agent, createdAt };
  }

  async #noteOf(record: RunRecord): Promise<PlayedNote | undefined> {
    const { runId, seq } = record;
    const known = this.#known.get(runId);
    if (known?.seq === seq) return known.note;
    const note = await this.#readNote(record);
    remember(this.#known, runId, { seq, note }, MOST_KNOWN);
    return note;
  }

  /** `undefined` if there is none, or none of this run: notes and journals may be damaged, and runs deleted meanwhile. */
  async #readNote({ runId, seq, labels }: RunRecord): Promise<PlayedNote | undefined> {
    let note: PlayedNote | undefined;
    try {
      for (const tail of TAILS) {
        for await (const page of readPages(this.#store, runId, Math.max(0, seq - tail), { last: seq }))
          for (const { event } of page) {
            const read = readPlayedNote(event);
            if (read?.of === labels.of && read?.side === labels[REGRESS]) note = read;
          }
        if (note !== undefined) break;
      }
    } catch (error) {
      const isGone = error instanceof EngineError && ['journal-damaged', 'run-unknown'].includes(error.code);
      if (!isGone) throw error;
    }
    return note;
  }
}

export async function readRegressions(
  c: Context<RunsEnv>,
  query: z.output<typeof regressionsQuery>,
  regressions: Regressions,
): Promise<Response> {
  return c.json(await regressions.read(c.get('caller'), query));
}
