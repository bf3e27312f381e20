import type { DatabaseSync } from 'node:sqlite';
import * as z from 'zod';
import { pricesSchema } from '../../../protocol/config.ts';
import { itemSchema } from '../../../protocol/item.ts';
import { costOf } from '../../../protocol/listing/cost.ts';
import { titleOf, titleSchema } from '../../../protocol/listing/label.ts';
import type { Progress } from '../../../protocol/store.ts';
import { type Usage, usageSchema } from '../../../protocol/turn.ts';
import { foldText } from '../../list-query.ts';
import { escapeOptional } from '../../sql/rows.ts';

const startSchema = z.object({
  title: z.exactOptional(titleSchema),
  input: z.array(itemSchema),
  parent: z.object({ callId: z.string() }).optional(),
  forkOf: z.object({ runId: z.string(), at: z.number() }).optional(),
  config: z
    .object({
      models: z.array(z.object({ model: z.string() })).optional(),
      attempts: z.number().optional(),
      prices: z.optional(pricesSchema),
    })
    .optional(),
});
type Start = z.infer<typeof startSchema>;

const usage = z.nullable(usageSchema);
const turnSchema = z.object({
  at: z.number(),
  startedAt: z.number(),
  usage,
  model: z.string().optional(),
});
const childSchema = z.object({
  spent: z.object({ turns: z.number(), usage, cost: z.number(), activeMs: z.number() }),
});
const failureSchema = z.object({ error: z.object({ code: z.string() }), retryable: z.boolean() });
const rejectionSchema = z.object({ code: z.string().optional() });

const SET = `UPDATE runs SET title = $title, search = $search, parent_call = $parent_call, fork_of = $fork_of,
  fork_at = $fork_at, progress = $progress WHERE run = $run`;

/**
 * Fills the columns that lists read, for the runs of an earlier release: from their journals, without folding them, which
 * also works for journals of other charts. So `why` and `waitsFor` are unknown, `state` is the status, and `activeMs`
 * does not count tools, until the next append of the run. Entries that cannot be read are left out.
 */
export function fillListing(db: DatabaseSync): void {
  const set = db.prepare(SET);
  const texts = db.prepare('SELECT json FROM appends WHERE place > (? << 32) AND place < (? + 1) << 32');
  for (const { run, status, updated_at } of db.prepare('SELECT run, status, updated_at FROM runs').all()) {
    const summary = new Summary();
    for (const { json } of texts.iterate(Number(run), Number(run)))
      for (const line of String(json).split('\n')) summary.add(line);
    const { start, progress, errorCode } = summary;
    const listed: Progress = { state: String(status), ...progress };
    if (status !== 'running' && status !== 'waiting') listed.endedAt = Number(updated_at);
    if (status === 'failed' && errorCode !== undefined) listed.errorCode = errorCode;
    const title = start === undefined ? '' : titleOf(start);
    set.run({
      title,
      search: foldText(title),
      parent_call: escapeOptional(start?.parent?.callId),
      fork_of: escapeOptional(start?.forkOf?.runId),
      fork_at: start?.forkOf?.at ?? null,
      progress: JSON.stringify(listed),
      run: Number(run),
    });
  }
}

/** What a journal says of a run, added up line by line. */
class Summary {
  start: Start | undefined;
  /** The failure of the last turn, or the reason of the last finisher that sent the answer back. */
  errorCode: string | undefined;
  readonly progress = { turns: 0, tokens: 0, cost: 0, activeMs: 0 };
  /** The place of the current model in the run's models. */
  #model = 0;
  #attempt = 1;

  /** Adds an entry, as JSON that begins with its type. */
  add(line: string): void {
    const type = /^\{"type":"([a-z.]+)"/.exec(line)?.[1];
    switch (type) {
      case 'run.started':
        this.start = startSchema.safeParse(parse(line)).data ?? this.start;
        break;
      case 'turn.completed': {
        const turn = turnSchema.safeParse(parse(line)).data;
        if (turn !== undefined) this.#addTurn(turn);
        break;
      }
      case 'tool.settled':
      case 'result.received': {
        const child = line.includes('"spent":') ? childSchema.safeParse(parse(line)).data : undefined;
        if (child !== undefined) this.#addSpent(child.spent);
        break;
      }
      case 'turn.failed': {
        const failure = failureSchema.safeParse(parse(line)).data;
        if (failure !== undefined) this.#addFailure(failure);
        break;
      }
      case 'finishers.rejected':
        this.errorCode = rejectionSchema.safeParse(parse(line)).data?.code ?? 'finishers-rejected';
        break;
    }
  }

  #addTurn({ usage, model = '', at, startedAt }: z.infer<typeof turnSchema>): void {
    const { models = [], prices } = this.start?.config ?? {};
    // The provider may name a version of the model, such as `gpt-5-mini-2025-08-07`.
    const named = models.find(known => known.model === model) ?? models[this.#model];
    const activeMs = Math.max(0, at - startedAt);
    this.#addSpent({ turns: 1, usage, cost: costOf(usage, named?.model ?? model, prices), activeMs });
    this.#attempt = 1;
  }

  /** When the attempts of a turn are used up, the next model takes over for the rest of the run. */
  #addFailure({ error, retryable }: z.infer<typeof failureSchema>): void {
    this.errorCode = error.code;
    const { attempts = 1 } = this.start?.config ?? {};
    if (retryable && this.#attempt < attempts) this.#attempt += 1;
    else [this.#model, this.#attempt] = [this.#model + 1, 1];
  }

  #addSpent(spent: { turns: number; usage: Usage | null; cost: number; activeMs: number }): void {
    const { progress } = this;
    progress.turns += spent.turns;
    progress.tokens += (spent.usage?.inputTokens ?? 0) + (spent.usage?.outputTokens ?? 0);
    progress.cost += spent.cost;
    progress.activeMs += spent.activeMs;
  }
}

function parse(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}
