import * as z from 'zod/mini';
import type { EngineError } from '../error.ts';
import { lazySchema } from '../schemas/lazy-schema.ts';
import { type Labels, labelsSchema } from './label.ts';

const runStatusSchema = lazySchema(() => z.enum(['running', 'waiting', 'finished', 'failed', 'cancelled']));
export type RunStatus = z.infer<typeof runStatusSchema>;

/** What lists show of a run's course; written with its appends, so that no list reads a journal. */
export const progressSchema = lazySchema(() =>
  z.object({
    /** The path of the current state, such as `resting.awaitingApproval`. */
    state: z.string(),
    /** Why the chart decided so, in words. */
    why: z.exactOptional(z.string()),
    /** The calls that a waiting run waits for: the first 20. */
    waitsFor: z.exactOptional(
      z.array(
        z.object({
          type: z.enum(['approval', 'result', 'doubt']),
          callId: z.string(),
          name: z.string(),
          /** The sub-agent's run that provides the result. */
          runId: z.exactOptional(z.string()),
        }),
      ),
    ),
    turns: z.number(),
    /** Input and output tokens. */
    tokens: z.number(),
    cost: z.number(),
    activeMs: z.number(),
    /** When the run ended, in ms since the epoch. */
    endedAt: z.exactOptional(z.number()),
    /** The error code of a failed run. */
    errorCode: z.exactOptional(z.string()),
    /** Why the answer of a finished run is incomplete. */
    incomplete: z.exactOptional(z.object({ reason: z.string() })),
  }),
);
export type Progress = z.infer<typeof progressSchema>;

/** The longest page of a list. */
export const MOST_LISTED = 1_000;

/** Which runs to list. A run has to match all members that are given. */
export type ListFilter = {
  status?: RunStatus;
  /** The agent's name. */
  agent?: string;
  /** Labels that the run has, with these values; it may have others. */
  labels?: Labels;
  /** The id of the run whose sub-agents' runs to list. */
  parent?: string;
  /** Part of the title, in upper or lower case. */
  text?: string;
  /** Created at this time or later, in ms since the epoch. */
  since?: number;
  /** Created before this time, in ms since the epoch. */
  before?: number;
  /** By creation, then by id: newest first (`desc`, the default) or oldest first. */
  order?: 'asc' | 'desc';
  /** The runs of one page, 1 to 1,000. Default 50. */
  limit?: number;
  /** `next` of the page before. All members except `limit` must be the same as for that page. */
  cursor?: string;
  /** Called for each unreadable record, which is skipped. Without it, an unreadable record rejects the call. */
  onDamaged?(error: EngineError): void;
};

const time = lazySchema(() => z.exactOptional(z.number()));
const name = lazySchema(() => z.exactOptional(z.string().check(z.maxLength(1_000))));

/** The members of a `ListFilter` that are data. */
export const listFilterSchema = lazySchema(() =>
  z.strictObject({
    status: z.exactOptional(runStatusSchema),
    agent: name,
    labels: z.exactOptional(labelsSchema),
    parent: name,
    text: z.exactOptional(z.string().check(z.minLength(1), z.maxLength(200))),
    since: time,
    before: time,
    order: z.exactOptional(z.enum(['asc', 'desc'])),
    limit: z.exactOptional(z.int().check(z.minimum(1), z.maximum(MOST_LISTED))),
    cursor: z.exactOptional(z.string().check(z.maxLength(20_000))),
  }),
);
