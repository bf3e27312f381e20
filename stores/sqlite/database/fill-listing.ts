import type { DatabaseSync } from 'node:sqlite';
import * as z from 'zod';
import { itemSchema } from '../../../protocol/item.ts';
import { titleOf, titleSchema } from '../../../protocol/listing/label.ts';
import type { Progress } from '../../../protocol/store.ts';
import { usageSchema } from '../../../protocol/turn.ts';
import { foldText } from '../../list-query.ts';
import { escapeOptional } from '../rows.ts';

const startSchema = z.object({
  title: z.optional(titleSchema),
  input: z.array(itemSchema),
  parent: z.object({ callId: z.string() }).optional(),
  forkOf: z.object({ runId: z.string(), at: z.number() }).optional(),
});

const turnSchema = z.object({ at: z.number(), startedAt: z.number(), usage: z.nullable(usageSchema) });

const SET = `UPDATE runs SET title = $title, search = $search, parent_call = $parent_call, fork_of = $fork_of,
  fork_at = $fork_at, progress = $progress WHERE run = $run`;

/**
 * Fills the columns that lists read, for the runs of an earlier release: from their journals, without folding them. So
 * `cost`, `why` and `errorCode` are unknown, `state` is the status, and `activeMs` counts model calls only, until the
 * next append of the run. Entries that cannot be read are left out.
 */
export function fillListing(db: DatabaseSync): void {
  const set = db.prepare(SET);
  const texts = db.prepare('SELECT json FROM appends WHERE place > (?1 << 32) AND place < (?1 + 1) << 32');
  for (const { run, status, updated_at } of db.prepare('SELECT run, status, updated_at FROM runs').all()) {
    let origin: Origin = { title: '', parent_call: null, fork_of: null, fork_at: null };
    const progress: Progress = { state: String(status), turns: 0, tokens: 0, cost: 0, activeMs: 0 };
    if (status !== 'running' && status !== 'waiting') progress.endedAt = Number(updated_at);
    for (const { json } of texts.iterate(Number(run)))
      for (const line of String(json).split('\n')) {
        if (line.startsWith('{"type":"run.started"')) origin = readStart(line) ?? origin;
        if (line.startsWith('{"type":"turn.completed"')) addTurn(progress, line);
      }
    const search = foldText(origin.title);
    set.run({ ...origin, search, progress: JSON.stringify(progress), run: Number(run) });
  }
}

type Origin = { title: string; parent_call: string | null; fork_of: string | null; fork_at: number | null };

function readStart(line: string): Origin | undefined {
  const start = startSchema.safeParse(parse(line)).data;
  if (start === undefined) return undefined;
  const { title, input, parent, forkOf } = start;
  return {
    title: titleOf({ input, ...(title !== undefined && { title }) }),
    parent_call: escapeOptional(parent?.callId),
    fork_of: escapeOptional(forkOf?.runId),
    fork_at: forkOf?.at ?? null,
  };
}

function addTurn(progress: Progress, line: string): void {
  const turn = turnSchema.safeParse(parse(line)).data;
  if (turn === undefined) return;
  progress.turns += 1;
  progress.tokens += (turn.usage?.inputTokens ?? 0) + (turn.usage?.outputTokens ?? 0);
  progress.activeMs += Math.max(0, turn.at - turn.startedAt);
}

function parse(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}
