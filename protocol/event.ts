import { en } from 'zod/locales';
import * as z from 'zod/mini';
import { runConfigSchema, runParamsSchema } from './config.ts';
import { breakpointsSchema, matchedSchema } from './debugger/breakpoint.ts';
import { type BlobReference, blobSchema, itemSchema, receiptSchema } from './item.ts';
import { isJsonObject, type JsonObject, type JsonValue } from './json.ts';
import { labelsSchema, threadSchema, titleSchema } from './listing/label.ts';
import { isRedaction } from './redaction.ts';
import { contentSchema, isContentOf } from './schemas/content.ts';
import { lazyObject, lazySchema, lazyUnion } from './schemas/lazy-schema.ts';
import { brokenSchema, sentSchema } from './sent.ts';
import { finishReasonSchema, usageSchema } from './turn.ts';

/** zod/mini is a fifth of zod's size and has no error messages without a locale. */
z.config(en());

/** The version of the journal's format. Not frozen before 1.0. */
export const JOURNAL_FORMAT = 1;

/** The id that a sender chose for a request, and a digest of each of its fields: they recognize a repetition. */
const requestId = lazySchema(() => z.exactOptional(z.string().check(z.minLength(1), z.maxLength(64))));
const asked = lazySchema(() => z.exactOptional(z.record(text, text)));

const json = lazySchema(() => z.custom<JsonValue>(value => value !== undefined));
const text = lazySchema(() => z.string());
const optionalText = lazySchema(() => z.exactOptional(text));
/** Content: what people, models and tools say, and who they are. */
const contentText = lazySchema(() => contentSchema(z.string()));
const optionalContent = lazySchema(() => z.exactOptional(contentText));
const contentJson = lazySchema(() => contentSchema(json));
const appliedEdit = lazySchema(() => z.custom<JsonObject>(isJsonObject));
/** If present, `output` holds only the head and the tail of a larger result. */
const blob = lazySchema(() => z.exactOptional(blobSchema));
const continuation = lazyObject(() => ({
  provider: text,
  model: text,
  instructions: contentText,
  token: json,
}));

function event<Type extends string, Shape extends z.core.$ZodShape>(type: Type, shape: Shape) {
  return z.object({ type: z.literal(type), at: z.number(), ...shape });
}

function input<Type extends string, Shape extends z.core.$ZodShape>(type: Type, shape: Shape) {
  return event(type, { requestId, asked, ...shape });
}

/** A report belongs to one start of a service; `generation` counts the starts in a run. */
function report<Type extends string, Shape extends z.core.$ZodShape>(type: Type, shape: Shape) {
  return event(type, { generation: z.int(), ...shape });
}

/** Who may decide: people in one of the groups `by`, without those that `not` excludes, and `quorum` of them. */
const duties = {
  by: lazySchema(() => z.exactOptional(z.array(text).check(z.minLength(1)))),
  not: lazySchema(() => z.exactOptional(z.enum(['starter', 'sender']))),
  quorum: lazySchema(() => z.exactOptional(z.int().check(z.positive()))),
};
const dutiesSchema = lazyObject(() => duties);
/** Who may decide a call or an answer; without any, everyone who may decide. */
export type Duties = z.infer<typeof dutiesSchema>;

/** How the name of who decides is known: from a token, from the app, or only said. */
const knownSchema = lazySchema(() => z.enum(['token', 'app', 'asserted']));
export type Known = z.infer<typeof knownSchema>;

/** Who gives a decision or an edit. */
const decider = {
  by: optionalContent,
  groups: lazySchema(() => z.exactOptional(z.array(text))),
  known: lazySchema(() => z.exactOptional(knownSchema)),
};

const person = lazySchema(() => z.nullable(contentText));
/** Names of people; `null` stands for those without a name. `senders` has the starters too. */
const peopleSchema = lazyObject(() => ({ starters: z.array(person), senders: z.array(person) }));
export type People = z.infer<typeof peopleSchema>;

/**
 * What a rule says of a call that it does not allow: the call is refused, waits for an approval, or ends the run. With
 * `shadow`, it is only recorded.
 */
const verdictSchema = lazyObject(() => ({
  rule: text,
  verdict: z.enum(['block', 'ask', 'stop']),
  shadow: z.exactOptional(z.literal(true)),
}));
const verdictsSchema = lazySchema(() => z.array(verdictSchema).check(z.minLength(1)));
export type CallVerdict = z.infer<typeof verdictSchema>;

/** A tool call after tool lookup, parsing, validation, the approval predicate and the rules. */
const qualifiedCallSchema = lazyObject(() => ({
  callId: text,
  name: text,
  input: contentJson,
  /** Binds decisions to this tool and this input. */
  digest: text,
  /** The digest with the input as its tool reads it, with defaults and without unknown members, if that is another. */
  readDigest: z.exactOptional(text),
  /** `digestTool` of its tool, if that is defined by a tool server. */
  toolDigest: z.exactOptional(text),
  sideEffect: z.enum(['none', 'idempotent', 'once']),
  reconcilable: z.boolean(),
  executedBy: z.enum(['engine', 'client']),
  /** A person must decide before it runs. */
  gate: z.boolean(),
  reason: optionalContent,
  ...duties,
  /** When the approval expires, in ms since the epoch. */
  expiresAt: z.exactOptional(z.number()),
  /** An equal call that was done before a compaction does not gate it. */
  repeatable: z.exactOptional(z.literal(true)),
  /** A guardrail replaced the input that the model wrote. */
  replaced: z.exactOptional(z.literal(true)),
  /** The tool's own limit, in bytes; see `RunConfig`. */
  maxResultBytes: z.exactOptional(z.int().check(z.positive())),
  /**
   * What its result is: `directly`, the answer of the run, given by the run of a sub-agent; `back`, the end of the run, a
   * sub-agent's, whose caller speaks again. Such a call is alone in its turn.
   */
  answers: z.exactOptional(z.enum(['directly', 'back'])),
  /** Those of its tool, for rules. */
  tags: z.exactOptional(z.array(text)),
  /** Its result says that its work has started, in a run of its own, which continues in the background. */
  background: z.exactOptional(z.literal(true)),
  /** Of the rules that do not allow it. */
  verdicts: z.exactOptional(verdictsSchema),
  /** Why the call cannot run; the model reads it as the result. */
  error: optionalContent,
}));
export type QualifiedCall = z.infer<typeof qualifiedCallSchema>;

/**
 * What a tool asks people about its call. `schema`: the JSON Schema of the answer. `url`: of a page where the answer is given
 * instead; here it is only confirmed. `fallback`: the answer if there is none in time. `fault`: why the answer before does
 * not fit. `digest`: of what is asked.
 */
const questionSchema = lazyObject(() => ({
  key: text,
  message: contentText,
  schema: z.custom<JsonObject>(isJsonObject),
  digest: text,
  url: optionalContent,
  by: duties.by,
  not: duties.not,
  /** ms since the epoch. */
  expiresAt: z.exactOptional(z.number()),
  fallback: z.exactOptional(contentJson),
  fault: optionalContent,
}));
export type Question = z.infer<typeof questionSchema>;

/** What became of a question: a value by its schema, or a refusal to answer. */
const answerSchema = lazySchema(() =>
  z.discriminatedUnion('type', [
    z.object({ type: z.literal('given'), value: contentJson }),
    z.object({ type: z.literal('declined'), reason: optionalContent }),
  ]),
);
export type GivenAnswer = z.infer<typeof answerSchema>;

const failureSchema = lazyObject(() => ({
  code: text,
  message: contentText,
  status: z.exactOptional(z.number()),
  provider: optionalText,
  model: optionalText,
}));
export type Failure = z.infer<typeof failureSchema>;

/** What a child run spent on the call that started it, or guardrails on their model calls; times in ms. */
const spentSchema = lazyObject(() => ({
  turns: z.int(),
  toolCalls: z.int(),
  usage: z.nullable(usageSchema),
  /** `usage` and `cost` lack a turn that reported no usage. */
  usageUnknown: z.exactOptional(z.literal(true)),
  cost: z.number(),
  activeMs: z.number(),
}));
export type Spent = z.infer<typeof spentSchema>;

/** What background work may spend of its run's limits until its outcome is there. */
const heldSchema = lazyObject(() => ({
  turns: z.exactOptional(z.number()),
  toolCalls: z.exactOptional(z.number()),
  tokens: z.exactOptional(z.number()),
  cost: z.exactOptional(z.number()),
  activeMs: z.exactOptional(z.number()),
}));
export type HeldLimits = z.infer<typeof heldSchema>;

/** The end of a sub-agent's run whose answer is that of the calling run. `agent` and `runId`: of the run that it is from. */
const answeredSchema = lazyObject(() => ({
  agent: text,
  runId: text,
  /** It hands the conversation back: its words are not an answer, and the caller's model is called again. */
  handedBack: z.exactOptional(z.literal(true)),
  /** The value of the agent's output schema. */
  output: z.exactOptional(contentJson),
  /** Why the answer is incomplete. */
  incomplete: optionalText,
}));
export type Answered = z.infer<typeof answeredSchema>;

/** The conversation is with a sub-agent: `call` is how it is reached, and `runId` its latest run. */
const handedToSchema = lazyObject(() => ({ runId: text, call: qualifiedCallSchema }));
export type HandedTo = z.infer<typeof handedToSchema>;

/**
 * What became of a `once` call: `done` also if a person or a client gave its result, `failed` if it settled with an
 * error, `unknown` if its run ended before its outcome was known.
 */
const outcomeSchema = lazySchema(() => z.enum(['done', 'failed', 'unknown']));
const outcomeAt = { outcome: outcomeSchema, at: z.number() };

/** A settled `once` call, without its contents. `input`: only if a person edited it, so that the transcript has another. */
const deedSchema = lazyObject(() => ({
  callId: text,
  name: text,
  digest: text,
  input: z.exactOptional(contentJson),
  ...outcomeAt,
}));
export type Deed = z.infer<typeof deedSchema>;

/** A deed as the model reads it after a compaction: `input` and `output` are JSON, cut. */
const toldDeedSchema = lazyObject(() => ({
  callId: text,
  name: text,
  digest: text,
  input: contentText,
  output: contentText,
  ...outcomeAt,
}));
export type ToldDeed = z.infer<typeof toldDeedSchema>;
export const toldDeedsSchema = lazySchema(() => z.array(toldDeedSchema));

/**
 * What was done: the `once` calls that settled.
 * - `fresh`: since the latest compaction;
 * - `past`: before it, without failures, by the first 16 digits of their digest: an equal call is gated;
 * - `counts`: all before it, by tool.
 */
const ledgerSchema = lazyObject(() => ({
  fresh: z.array(deedSchema),
  past: z.record(z.string(), z.object(outcomeAt)),
  counts: z.record(z.string(), z.int()),
}));
export type Ledger = z.infer<typeof ledgerSchema>;

/**
 * What a run takes over from the run that it continues: the tokens of the inherited transcript, what was done, and the
 * ids of the items that a compaction made.
 */
const inheritanceSchema = lazyObject(() => ({
  tokens: z.int().check(z.nonnegative()),
  ledger: ledgerSchema,
  items: z.array(text),
}));
export type Inheritance = z.infer<typeof inheritanceSchema>;

const runStartedSchema = lazySchema(() =>
  input('run.started', {
    runId: text,
    format: z.int(),
    chart: z.object({ version: z.int(), hash: text }),
    agent: z.object({ name: text, version: optionalText }),
    /** Each with a digest of what the model and a recovery depend on; `server`: the label of its tool server. */
    tools: z.exactOptional(z.array(z.object({ name: text, digest: text, server: optionalText }))),
    config: runConfigSchema,
    input: z.array(itemSchema),
    /** Who starts it. */
    by: optionalContent,
    /** Of the run that it continues, its original and its parent. */
    people: z.exactOptional(peopleSchema),
    /** What the caller passed about this run, as the agent's `runContext` schema returned it. */
    runContext: z.exactOptional(contentJson),
    labels: z.exactOptional(labelsSchema),
    /** The id of the thread that the run belongs to, with its labels. A child run belongs to none. */
    thread: z.exactOptional(threadSchema),
    title: z.exactOptional(contentSchema(titleSchema)),
    continues: optionalText,
    /** With `continues`: up to which entry, for a run that had not ended. It is in the middle of a round, which `input` continues. */
    continuesAt: z.exactOptional(z.int().check(z.positive())),
    /** The conversation was handed to a sub-agent in the run that it continues. */
    handedTo: z.exactOptional(handedToSchema),
    /** For a child run to which its parent hands the conversation: the name of the parent's agent. */
    handedBy: optionalText,
    /** The latest request of the run that it continues. */
    sent: z.exactOptional(sentSchema),
    /** With `continues`, if the chain was compacted or this run may be. */
    inherits: z.exactOptional(inheritanceSchema),
    /** The run whose journal was copied, and the last entry of the copy. */
    forkOf: z.exactOptional(z.object({ runId: text, at: z.int() })),
    stream: z.boolean(),
    /** For a child run: the call of the parent run that started it. */
    parent: z.exactOptional(z.object({ runId: text, callId: text })),
    /** For a child run: all that it does is this call, which was made and decided in the parent run. */
    onlyCall: z.exactOptional(qualifiedCallSchema),
    paused: z.exactOptional(z.boolean()),
    /** What a later process needs to create the agent again. */
    launch: z.exactOptional(
      z.object({ module: optionalText, model: optionalText, request: z.exactOptional(json) }),
    ),
  }),
);
export type RunStarted = z.infer<typeof runStartedSchema>;

/** Events from people and clients. Any process may append one, not only the driver. */
export const inputEventSchema = lazyUnion(() => [
  runStartedSchema,
  input('message.received', {
    items: z.array(itemSchema).check(z.minLength(1)),
    by: optionalContent,
    /** The outcome of background work: the call that started it, and the run that did it. */
    from: z.exactOptional(z.object({ callId: text, runId: text })),
    spent: z.exactOptional(spentSchema),
  }),
  input('approval.decided', {
    callId: text,
    decision: z.discriminatedUnion('type', [
      /** `input` is the validated edited input, and `editDigest` its digest. */
      z.object({
        type: z.literal('approve'),
        input: z.exactOptional(contentJson),
        editDigest: optionalText,
        /** Who may decide the edited call, if it has duties. */
        duties: z.exactOptional(dutiesSchema),
        /** Of the rules that do not allow the edited call without an approval. */
        verdicts: z.exactOptional(verdictsSchema),
      }),
      z.object({ type: z.literal('reject'), reason: optionalContent }),
      z.object({
        type: z.literal('answer'),
        output: contentJson,
        isError: z.exactOptional(z.boolean()),
        blob,
      }),
    ]),
    digest: text,
    /** Also applies to later calls of the same tool. */
    sticky: z.exactOptional(z.boolean()),
    ...decider,
  }),
  /** `digest`: of the answer that was reviewed. */
  input('review.decided', {
    reviewId: text,
    digest: text,
    decision: z.discriminatedUnion('type', [
      /** `text` is the edited answer, `editDigest` its digest, and `output` its value by the output schema. */
      z.object({
        type: z.literal('approve'),
        text: optionalContent,
        output: z.exactOptional(contentJson),
        editDigest: optionalText,
      }),
      /** The model reads the reason. */
      z.object({ type: z.literal('reject'), reason: optionalContent }),
      /** In a fork: earlier approvals were about the original's answer. */
      z.object({ type: z.literal('withdraw') }),
    ]),
    ...decider,
  }),
  input('result.received', {
    callId: text,
    output: contentJson,
    blob,
    isError: z.boolean(),
    /** The sub-agent's run that gave the result: only that run can. */
    childRunId: optionalText,
    spent: z.exactOptional(spentSchema),
    answered: z.exactOptional(answeredSchema),
    by: optionalContent,
  }),
  /** A person has signed in at the tool server: the run connects to it again. */
  input('sign-in.completed', { server: text, ...decider }),
  /** Answers to open questions of a call, by their keys. `digest`: of the questions, as they were asked. */
  input('question.answered', {
    callId: text,
    digest: text,
    answers: z.record(text, answerSchema),
    ...decider,
  }),
  input('doubt.resolved', {
    callId: text,
    resolution: z.discriminatedUnion('type', [
      /** `force`: retry even though an earlier attempt may still be running. */
      z.object({ type: z.literal('retry'), force: z.exactOptional(z.literal(true)) }),
      z.object({ type: z.literal('happened'), output: contentJson, blob }),
      z.object({ type: z.literal('failed'), reason: contentText }),
    ]),
    ...decider,
  }),
  /**
   * Accepted between turns. `items` is the new transcript, `calls` are the calls of its last turn that have no result
   * in it, and `results` are their known results. All results are placed directly after that turn.
   */
  input('transcript.edited', {
    items: z.array(itemSchema),
    calls: z.array(qualifiedCallSchema),
    results: z.exactOptional(
      z.array(
        z.object({
          callId: text,
          output: contentJson,
          isError: z.boolean(),
          shown: optionalContent,
          blob,
          receipt: z.exactOptional(receiptSchema),
        }),
      ),
    ),
    ...decider,
  }),
  /**
   * Accepted at rest, before a call of the turn has started. `items` and `calls` replace those of the latest turn, and
   * `text` is its new text. A call that keeps its id and its digest keeps its approval.
   */
  input('turn.edited', {
    turn: z.int(),
    text: contentText,
    items: z.array(itemSchema),
    calls: z.array(qualifiedCallSchema),
    ...decider,
  }),
  /** Accepted before the call starts. `digest`: of the call that is replaced; approvals of it no longer apply. */
  input('call.edited', { callId: text, digest: text, call: qualifiedCallSchema, ...decider }),
  input('breakpoints.set', { breakpoints: breakpointsSchema, matched: matchedSchema, by: optionalContent }),
  /** Applies to the following turns; replaces earlier parameters. */
  input('params.changed', { params: runParamsSchema, by: optionalContent }),
  input('pause.requested', { by: optionalContent }),
  /** The driver ends the run; after `deadline` (ms since the epoch), any process may, with `run.cancelled`. */
  input('cancel.requested', {
    by: optionalContent,
    reason: optionalContent,
    deadline: z.number(),
    /** Calls of tools that have started finish first. */
    afterCalls: z.exactOptional(z.literal(true)),
  }),
  input('step.requested', { by: optionalContent }),
  input('run.unpaused', { by: optionalContent }),
  /** The engine paused the run: several processes in a row died while they drove it, or an actor's snapshot could not be stored. */
  input('run.quarantined', { reason: contentText }),
  /** `unsettled`: the ids of the calls without a result. */
  input('run.cancelled', { by: optionalContent, reason: optionalContent, unsettled: z.array(text) }),
]);
export type InputEvent = z.infer<typeof inputEventSchema>;

/** Events from services about the effects they carry out. */
export const reportEventSchema = lazyUnion(() => [
  /**
   * Guardrails judged what the model has not read, in the items before `upTo`. `changes`: items that are replaced, by
   * their place in the transcript. `spent`: on model calls of guardrails.
   */
  report('items.judged', {
    upTo: z.int().check(z.nonnegative()),
    changes: z.array(z.object({ at: z.int().check(z.nonnegative()), item: itemSchema })),
    spent: z.exactOptional(spentSchema),
  }),
  /** The first text has been streamed to readers. */
  report('text.started', {}),
  report('calls.started', {}),
  /** `captured`: the requests to the provider and their replies, as `CapturedExchange[]`. */
  report('turn.completed', {
    provider: text,
    model: text,
    finishReason: finishReasonSchema,
    text: contentText,
    items: z.array(itemSchema),
    calls: z.array(qualifiedCallSchema),
    usage: z.nullable(usageSchema),
    /** Ids of items sent without their opaque data, as another provider's, and of those that the provider left out. */
    dropped: z.exactOptional(z.array(text)),
    /** What was cleared from the request, because it asked for that: `applied_edits` of Anthropic's API. */
    appliedEdits: z.exactOptional(z.array(appliedEdit)),
    sent: z.exactOptional(sentSchema),
    /** Changed instructions and tools in the provider's form: sent after the transcript, of which they are a part from now on. */
    appended: z.exactOptional(z.array(itemSchema)),
    /** The request did not begin with the one before it. */
    broken: z.exactOptional(brokenSchema),
    /** The provider's continuation token; valid while the other members are unchanged. */
    continuation: z.exactOptional(continuation),
    /** If the provider reported no usage and the run may be compacted: an estimate of the tokens of request and reply. */
    estimatedTokens: z.exactOptional(z.int().check(z.nonnegative())),
    /** On model calls of guardrails. */
    spent: z.exactOptional(spentSchema),
    captured: blob,
    startedAt: z.number(),
  }),
  /**
   * `retryAt`: when to try again, including jitter, in ms since the epoch. `callerRetries`: the error may pass, but the
   * caller tries again, and not the run.
   */
  report('turn.failed', {
    error: failureSchema,
    retryable: z.boolean(),
    retryAt: z.exactOptional(z.number()),
    callerRetries: z.exactOptional(z.literal(true)),
    broken: z.exactOptional(brokenSchema),
    captured: blob,
    startedAt: z.number(),
  }),
  /**
   * The transcript before the item `upTo` is replaced, with all that the run inherited. It becomes, in this order: the
   * instructions in `inherited` and `kept`; `items`, the provider's own form of a summary, or `summary`; the ledger; the
   * others in `inherited` and `kept`. `inherited` are items of earlier runs, and `kept` places in the transcript.
   */
  report('transcript.compacted', {
    upTo: z.int().check(z.nonnegative()),
    kept: z.array(z.int().check(z.nonnegative())),
    inherited: z.exactOptional(z.array(itemSchema)),
    summary: contentText,
    items: z.exactOptional(z.array(itemSchema)),
    /** The newest deeds, oldest first, and how many others there are of each tool. */
    ledger: z.object({ deeds: toldDeedsSchema, others: z.record(z.string(), z.int()) }),
    usage: z.nullable(usageSchema),
    /** A model was asked, and did not report what it used. */
    usageUnknown: z.exactOptional(z.literal(true)),
    startedAt: z.number(),
  }),
  /** The transcript stays as it is. */
  report('compaction.failed', {
    error: failureSchema,
    usage: z.nullable(usageSchema),
    usageUnknown: z.exactOptional(z.literal(true)),
    startedAt: z.number(),
  }),
  /**
   * Right before its start, rules do not allow the call: it is gated, or the model reads the reason as its result. `verdicts`:
   * only those that it did not have.
   */
  report('call.judged', {
    callId: text,
    verdicts: verdictsSchema,
    reason: optionalContent,
    duties: z.exactOptional(dutiesSchema),
    /** When the approval expires, in ms since the epoch. */
    expiresAt: z.exactOptional(z.number()),
  }),
  /** The tools of the run cannot be connected before a person signs in at their server, whose address is `url`. */
  report('sign-in.requested', { server: text, url: optionalText }),
  /** The call ends for now: its function runs again once people have answered. `digest`: of the questions. */
  report('question.asked', {
    callId: text,
    digest: text,
    questions: z.array(questionSchema).check(z.minLength(1)),
  }),
  /** Durable before the tool's function is called. */
  report('tool.started', { callId: text, attempt: z.int(), key: text }),
  report('tool.settled', {
    callId: text,
    output: contentJson,
    isError: z.boolean(),
    shown: optionalContent,
    blob,
    spent: z.exactOptional(spentSchema),
    answered: z.exactOptional(answeredSchema),
    /** The tool was not executed: the result is that of this entry of the run that was forked. */
    played: z.exactOptional(z.object({ runId: text, seq: z.int() })),
  }),
  /** The call has come this far: another attempt continues from `state` and does nothing twice. */
  report('tool.kept', { callId: text, state: contentJson }),
  /** A new process found the call started and without a result. */
  report('tool.interrupted', { callId: text }),
  /** `returned`: the tool's function has ended, so this attempt can have no further side effect. */
  report('tool.doubted', { callId: text, reason: contentText, returned: z.exactOptional(z.literal(true)) }),
  /** With `background`, the call has its result: what it started continues in the child run, within these limits. */
  report('tool.suspended', {
    callId: text,
    childRunId: text,
    shown: optionalContent,
    background: z.exactOptional(heldSchema),
  }),
  report('timer.fired', {}),
  /** The answer passed, perhaps with another text. `spent`: on model calls of guardrails. */
  report('answer.checked', {
    text: optionalContent,
    output: z.exactOptional(contentJson),
    spent: z.exactOptional(spentSchema),
  }),
  /** The model reads the reason. `code`: the failure code of the run if the answer is blocked too often. */
  report('answer.blocked', { reason: contentText, code: optionalText, spent: z.exactOptional(spentSchema) }),
  /** The answer passed all but the decision of people. `digest`: of its text; the others as in `answer.checked`. */
  report('review.requested', {
    reviewId: text,
    digest: text,
    reason: contentText,
    duties: z.exactOptional(dutiesSchema),
    /** ms since the epoch. */
    expiresAt: z.exactOptional(z.number()),
    text: optionalContent,
    output: z.exactOptional(contentJson),
    spent: z.exactOptional(spentSchema),
  }),
]);
export type ReportEvent = z.infer<typeof reportEventSchema>;

/** Events that are journaled but never folded into the chart's state. */
const bookkeepingEventSchema = lazyUnion(() => [
  /** `replaces`: the previous owner, if it did not release its lease. */
  event('run.claimed', { by: text, epoch: z.int(), replaces: optionalText }),
  /** The late result of an attempt, kept as evidence. `contradicts`: what the run has recorded instead, for a person. */
  event('tool.late', {
    callId: text,
    output: contentJson,
    blob,
    isError: z.boolean(),
    attempt: z.exactOptional(z.int()),
    contradicts: optionalContent,
  }),
  /** Data that a surface such as the gateway keeps with a run; `by` names the surface, `note` has its own format. `text` can be redacted. */
  event('run.noted', { by: text, note: json, text: optionalContent }),
  /** Values of earlier entries were replaced by digests. A path is a JSON Pointer that begins with the entry's seq. */
  event('run.redacted', { paths: z.array(text).check(z.minLength(1)), by: optionalContent }),
]);
export type BookkeepingEvent = z.infer<typeof bookkeepingEventSchema>;

/** The events that the chart accepts after `run.started`. */
export type ChartEvent = Exclude<InputEvent, RunStarted> | ReportEvent;

/** An event that a command appends: one of the chart, or a note, which the chart does not see. */
export type CommandEvent = ChartEvent | Extract<BookkeepingEvent, { type: 'run.noted' }>;

/** Every event that a journal can hold, named in the past tense; `at` is in ms since the epoch. */
export const runEventSchema = lazySchema(() =>
  z.discriminatedUnion('type', [inputEventSchema, reportEventSchema, bookkeepingEventSchema]),
);
export type RunEvent = z.infer<typeof runEventSchema>;

let byType: ReadonlyMap<string, z.core.$ZodType> | undefined;

function schemasByType(): ReadonlyMap<string, z.core.$ZodType> {
  byType ??= new Map<string, z.core.$ZodType>(
    [inputEventSchema, reportEventSchema, bookkeepingEventSchema].flatMap(({ def }) =>
      def.options.flatMap(option => option.def.shape.type.def.values.map(type => [type, option] as const)),
    ),
  );
  return byType;
}

export function listRunEventTypes(): readonly string[] {
  return [...schemasByType().keys()];
}

/** Whether the value at `path` in an event is content, which may be redacted. */
export function isContent(type: RunEvent['type'], path: readonly string[]): boolean {
  const schema = schemasByType().get(type);
  return schema !== undefined && isContentOf(schema, path);
}

/** An event and its number in a journal, from 1 without gaps. `stateHash`: of the state after it, if it was recorded. */
export type JournalEntry = { seq: number; event: RunEvent; stateHash?: string };

/** The store keeps each blob durably before its event. Left out: redacted results, whose blob is deleted. */
export function blobsOf(event: RunEvent): readonly BlobReference[] {
  return outcomesOf(event).flatMap(({ output, blob: named }) =>
    named === undefined || isRedaction(output) ? [] : [named],
  );
}

type Unmarked<Event> = Event extends { generation: number } ? Omit<Event, 'generation'> : Event;

export function callsOf(event: Unmarked<RunEvent>): readonly QualifiedCall[] {
  switch (event.type) {
    case 'turn.completed':
    case 'turn.edited':
    case 'transcript.edited':
      return event.calls;
    case 'call.edited':
      return [event.call];
    default:
      return [];
  }
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
