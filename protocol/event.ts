import { en } from 'zod/locales';
import * as z from 'zod/mini';
import { runConfigSchema, runParamsSchema } from './config.ts';
import { type BlobReference, blobSchema, itemSchema } from './item.ts';
import type { JsonValue } from './json.ts';
import { isRedaction } from './redaction.ts';
import { finishReasonSchema, usageSchema } from './turn.ts';

/** What is wrong with an event is said in words: zod/mini, a fifth of zod's size, has none of its own. */
z.config(en());

/** The version of the journal's format. Not frozen before 1.0. */
export const JOURNAL_FORMAT = 1;

const json = z.custom<JsonValue>(value => value !== undefined);
const text = z.string();
const optionalText = z.exactOptional(text);
/** With it, the `output` beside it is the head and the tail of a larger one. */
const blob = z.exactOptional(blobSchema);

function event<Type extends string, Shape extends z.core.$ZodShape>(type: Type, shape: Shape) {
  return z.object({ type: z.literal(type), at: z.number(), ...shape });
}

/** A report belongs to one start of a service: `generation` counts the starts of the run. */
function report<Type extends string, Shape extends z.core.$ZodShape>(type: Type, shape: Shape) {
  return event(type, { generation: z.int(), ...shape });
}

/** A call after it was looked up, parsed, validated and put to its approval predicate. */
export const qualifiedCallSchema = z.object({
  callId: text,
  name: text,
  input: json,
  /** Binds decisions to this tool and this input. */
  digest: text,
  sideEffect: z.enum(['none', 'idempotent', 'once']),
  reconcilable: z.boolean(),
  executedBy: z.enum(['engine', 'client']),
  /** A person must decide before it runs. */
  gate: z.boolean(),
  reason: optionalText,
  /** When the gate closes by itself, ms since the epoch. */
  expiresAt: z.exactOptional(z.number()),
  /** The tool's own limit; see `RunConfig`. */
  maxResultBytes: z.exactOptional(z.int().check(z.positive())),
  /** Why it cannot run; the model reads it as the call's result. */
  error: optionalText,
});
export type QualifiedCall = z.infer<typeof qualifiedCallSchema>;

export const failureSchema = z.object({
  code: text,
  message: text,
  status: z.exactOptional(z.number()),
  provider: optionalText,
  model: optionalText,
});
export type Failure = z.infer<typeof failureSchema>;

/** What a sub-agent's run spent for the call it answers; times in ms. */
export const spentSchema = z.object({
  turns: z.int(),
  toolCalls: z.int(),
  usage: z.nullable(usageSchema),
  cost: z.number(),
  activeMs: z.number(),
});
export type Spent = z.infer<typeof spentSchema>;

export const runStartedSchema = event('run.started', {
  runId: text,
  format: z.int(),
  chart: z.object({ version: z.int(), hash: text }),
  agent: z.object({ name: text, version: optionalText }),
  /** The tools the agent had, and a digest of what the model and a recovery depend on in each. */
  tools: z.exactOptional(z.array(z.object({ name: text, digest: text }))),
  config: runConfigSchema,
  input: z.array(itemSchema),
  continues: optionalText,
  /** The run whose journal this one begins with, and its last entry that counts here. */
  forkOf: z.exactOptional(z.object({ runId: text, at: z.int() })),
  stream: z.boolean(),
  /** The call of another run that this one answers: it is a sub-agent's. */
  parent: z.exactOptional(z.object({ runId: text, callId: text })),
  /** The run begins paused. */
  paused: z.exactOptional(z.boolean()),
  /** What a later process needs to make the agent again. */
  launch: z.exactOptional(
    z.object({ module: optionalText, model: optionalText, request: z.exactOptional(json) }),
  ),
});
export type RunStarted = z.infer<typeof runStartedSchema>;

/** From people and clients. Anyone may append one, whoever drives the run. */
export const inputEventSchema = z.discriminatedUnion('type', [
  runStartedSchema,
  event('message.received', { items: z.array(itemSchema).check(z.minLength(1)), by: optionalText }),
  event('approval.decided', {
    callId: text,
    decision: z.discriminatedUnion('type', [
      /** `input` is the edited input, already validated, and `editDigest` its digest. */
      z.object({ type: z.literal('approve'), input: z.exactOptional(json), editDigest: optionalText }),
      z.object({ type: z.literal('reject'), reason: optionalText }),
      z.object({ type: z.literal('answer'), output: json, blob }),
    ]),
    digest: text,
    /** Holds for later calls of the same tool too. */
    sticky: z.exactOptional(z.boolean()),
    by: optionalText,
  }),
  event('result.received', {
    callId: text,
    output: json,
    blob,
    isError: z.boolean(),
    spent: z.exactOptional(spentSchema),
    by: optionalText,
  }),
  event('doubt.resolved', {
    callId: text,
    resolution: z.discriminatedUnion('type', [
      /** `force`: although an earlier attempt may still act. */
      z.object({ type: z.literal('retry'), force: z.exactOptional(z.literal(true)) }),
      z.object({ type: z.literal('happened'), output: json, blob }),
      z.object({ type: z.literal('failed'), reason: text }),
    ]),
    by: optionalText,
  }),
  /**
   * Between turns: `items` are the transcript from here on, `calls` those of its last turn that have no
   * result in it, and `results` what is known of them. All results go right behind that turn.
   */
  event('transcript.edited', {
    items: z.array(itemSchema),
    calls: z.array(qualifiedCallSchema),
    results: z.exactOptional(
      z.array(z.object({ callId: text, output: json, isError: z.boolean(), shown: optionalText, blob })),
    ),
    by: optionalText,
  }),
  /** For the turns to come; replaces what was set before. */
  event('params.changed', { params: runParamsSchema, by: optionalText }),
  event('pause.requested', { by: optionalText }),
  /** Whoever drives the run ends it; from `deadline` on (ms since the epoch) anyone may, with `run.cancelled`. */
  event('cancel.requested', { by: optionalText, reason: optionalText, deadline: z.number() }),
  event('step.requested', { by: optionalText }),
  event('run.unpaused', { by: optionalText }),
  /** The engine paused the run, in the middle of its work: one process after another died of it. */
  event('run.quarantined', { reason: text }),
  /** `unsettled`: the ids of the calls that have no result. */
  event('run.cancelled', { by: optionalText, reason: optionalText, unsettled: z.array(text) }),
]);
export type InputEvent = z.infer<typeof inputEventSchema>;

/** From services, about work that was asked for. */
export const reportEventSchema = z.discriminatedUnion('type', [
  /** Text is reaching the reader. */
  report('text.started', {}),
  report('calls.started', {}),
  report('turn.completed', {
    provider: text,
    model: text,
    finishReason: finishReasonSchema,
    text,
    items: z.array(itemSchema),
    calls: z.array(qualifiedCallSchema),
    usage: z.nullable(usageSchema),
    /** Items whose opaque data belongs to another provider: what this one was sent without, when it took over. */
    dropped: z.exactOptional(z.array(text)),
    /** The provider's token, with what must be unchanged for it to hold. */
    continuation: z.exactOptional(z.object({ provider: text, model: text, instructions: text, token: json })),
    startedAt: z.number(),
  }),
  /** `retryAt`: when to try again, jitter included, ms since the epoch. */
  report('turn.failed', {
    error: failureSchema,
    retryable: z.boolean(),
    retryAt: z.exactOptional(z.number()),
    startedAt: z.number(),
  }),
  /** Durable before the tool's function is called. */
  report('tool.started', { callId: text, attempt: z.int(), key: text }),
  report('tool.settled', {
    callId: text,
    output: json,
    isError: z.boolean(),
    shown: optionalText,
    blob,
    spent: z.exactOptional(spentSchema),
  }),
  /** Found started and unsettled by a new process. */
  report('tool.interrupted', { callId: text }),
  /** `returned`: the tool's function has ended, so that this attempt cannot act any more. */
  report('tool.doubted', { callId: text, reason: text, returned: z.exactOptional(z.literal(true)) }),
  report('tool.suspended', { callId: text, childRunId: text }),
  report('timer.fired', {}),
  report('finishers.completed', { text: optionalText, output: z.exactOptional(json) }),
  /** `code`: what the run fails with, should the answer be sent back too often. */
  report('finishers.rejected', { feedback: text, code: optionalText }),
]);
export type ReportEvent = z.infer<typeof reportEventSchema>;

/** Journaled and never folded into the chart. */
export const bookkeepingEventSchema = z.discriminatedUnion('type', [
  /** `replaces`: whose lease it took over, who had not let go of it. */
  event('run.claimed', { by: text, epoch: z.int(), replaces: optionalText }),
  /**
   * What an attempt of a call gave after its run had moved on: evidence. `contradicts`: what the run has
   * recorded of the call instead, in words for a person.
   */
  event('tool.late', {
    callId: text,
    output: json,
    blob,
    isError: z.boolean(),
    attempt: z.exactOptional(z.int()),
    contradicts: optionalText,
  }),
  /** What a surface keeps with a run it serves; `by` is the surface, and `note` is in its own words. */
  event('run.noted', { by: text, note: json }),
  /** Values of earlier entries gave way to their digests; `paths` are JSON Pointers that begin with an entry's seq. */
  event('run.redacted', { paths: z.array(text).check(z.minLength(1)), by: optionalText }),
]);
export type BookkeepingEvent = z.infer<typeof bookkeepingEventSchema>;

/** What the chart listens to, after `run.started` made it. */
export type ChartEvent = Exclude<InputEvent, RunStarted> | ReportEvent;

/** What happened, in the past tense; `at` is ms since the epoch. The journal's only vocabulary. */
export const runEventSchema = z.discriminatedUnion('type', [
  inputEventSchema,
  reportEventSchema,
  bookkeepingEventSchema,
]);
export type RunEvent = z.infer<typeof runEventSchema>;

/** Names that later surfaces will use; nothing emits or accepts them yet. */
export const RESERVED_EVENTS = [
  'turn.edited',
  'call.edited',
  'breakpoints.set',
  'transcript.compacted',
  'handed.off',
] as const;

/**
 * An event with its place in a journal; `seq` counts from 1 without gaps. `stateHash` is that of the state behind it,
 * where whoever appended it said so.
 */
export type JournalEntry = { seq: number; event: RunEvent; stateHash?: string };

/**
 * The large results that an event brings to a run. Durable in the run's store before the event is. One whose output
 * was redacted is none any more: the reference to it stays, the result is gone.
 */
export function blobsOf(event: RunEvent): readonly BlobReference[] {
  return outcomesOf(event).flatMap(({ output, blob: named }) =>
    named === undefined || isRedaction(output) ? [] : [named],
  );
}

type Outcome = { output: JsonValue; blob?: BlobReference };

function outcomesOf(event: RunEvent): readonly Outcome[] {
  switch (event.type) {
    case 'tool.settled':
    case 'tool.late':
    case 'result.received':
      return [event];
    case 'approval.decided':
      return event.decision.type === 'answer' ? [event.decision] : [];
    case 'doubt.resolved':
      return event.resolution.type === 'happened' ? [event.resolution] : [];
    case 'transcript.edited':
      return event.results ?? [];
    default:
      return [];
  }
}
