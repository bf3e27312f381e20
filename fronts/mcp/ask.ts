import type { ElicitRequestFormParams, InputRequest, ServerContext } from '@modelcontextprotocol/server';
import * as z from 'zod';
import { listOpen } from '../../engine/log/settled.ts';
import type { Run } from '../../engine/run/run.ts';
import type { StoryEvent } from '../../engine/story/story-event.ts';
import { describeDuties, hasDuties } from '../../machines/duties.ts';
import { EngineError } from '../../protocol/error.ts';
import type { Question } from '../../protocol/event.ts';
import { type Answer, commandFor } from '../../protocol/open/answer.ts';
import type { Person } from '../../protocol/run-command.ts';
import { isOpenItem, type OpenItem, type OpenQuestion, type Settled } from '../../protocol/run-view.ts';
import { type Hold, settledNow, unlessAborted } from '../../server/runs/run-registry.ts';
import { describeCall, type OpenCalls, openCallsFor } from '../served/open-calls.ts';
import type { ServedRuns } from '../served/served-runs.ts';

/*
 * Open calls as elicitation: one form for each. To accept the form approves the call, or answers it; to decline it
 * rejects the call; to cancel it decides nothing.
 */

type Form = ElicitRequestFormParams;

/** The longest input that the form of an approval offers for editing, in characters of its JSON. */
const EDITED_INPUT = 4_000;

/** The outcomes of form answers, by the ids of the calls for clients. */
export type Decided = {
  accepted: number;
  cancelled: ReadonlySet<string>;
  /** Why an answer could not be used, for calls that are still open. */
  faults: ReadonlyMap<string, string>;
  notes: readonly string[];
};

export const NOTHING_DECIDED: Decided = { accepted: 0, cancelled: new Set(), faults: new Map(), notes: [] };

/** The form that asks a person to decide a call. `fault`: why the previous answer could not be used. */
function formFor(call: OpenItem, agent: string, fault: string | undefined): Form {
  const again = fault === undefined ? '' : `${fault}\n\n`;
  const asked = describeCall(call);
  switch (call.kind) {
    case 'approval':
      return form(`${again}${agent} asks to call ${asked}. Accept to allow it, decline to refuse it.`, {
        properties: editable(call.input),
      });
    case 'review':
      return form(
        `${again}${agent} wants to answer, and asks for a review: ${asked}. Accept to give the answer, decline to send it back.`,
        { properties: { ...changeable(call.answer), ...REMARK } },
      );
    case 'result':
      return form(`${again}${agent} asks for the result of ${asked}.`, {
        properties: { output: { type: 'string', title: 'Result', description: 'Text, or JSON.' } },
        required: ['output'],
      });
    case 'question':
      return form(`${again}${faultsIn(call)}${agent} asks, to call ${asked}`, fieldsOf(call));
    case 'doubt':
      return form(`${again}It is unknown whether this call of ${agent} took effect: ${asked}. Did it?`, {
        properties: {
          outcome: {
            type: 'string',
            title: 'Outcome',
            enum: ['happened', 'failed', 'retry'],
            description: 'retry runs the call again.',
          },
          output: { type: 'string', title: 'Result, or reason of the failure' },
        },
        required: ['outcome'],
      });
  }
}

/**
 * The fields of the only question, if its schema is an object of what forms can have; else a field for each question, as its
 * schema has it or as JSON. What only some people may answer may be left out.
 */
function fieldsOf({ questions }: OpenQuestion): Fields {
  const [only, second] = questions;
  const whole = second === undefined && only !== undefined ? wholeForm(only) : undefined;
  if (whole !== undefined) return whole;
  return {
    properties: Object.fromEntries(questions.map(question => [question.key, fieldOf(question)])),
    required: questions.filter(question => !hasDuties(question)).map(({ key }) => key),
  };
}

type Fields = Pick<Form['requestedSchema'], 'properties' | 'required'>;

function wholeForm({ schema }: Question): Fields | undefined {
  const read = objectSchema.safeParse(schema);
  return read.success && Object.keys(read.data.properties).length > 0 ? read.data : undefined;
}

function fieldOf(question: Question): Fields['properties'][string] {
  const { key, message, schema, url, fault } = question;
  const who = hasDuties(question)
    ? `It needs ${describeDuties(question).replace('decision', 'answer')}.`
    : '';
  const words = [message, url, fault, who].filter(Boolean).join(' ');
  const field = fieldSchema.safeParse(schema);
  if (field.success) return { title: key, ...field.data, description: words };
  return { type: 'string', title: key, description: `${words} (JSON)` };
}

const titled = {
  title: z.exactOptional(z.string()),
  description: z.exactOptional(z.string()),
};
const numbers = { minimum: z.exactOptional(z.number()), maximum: z.exactOptional(z.number()) };

/** What a form can have as a field. The run checks the answer against the whole schema. */
const fieldSchema = z.union([
  z.object({
    ...titled,
    type: z.literal('string'),
    enum: z.array(z.string()),
    default: z.exactOptional(z.string()),
  }),
  z.object({
    ...titled,
    type: z.literal('string'),
    oneOf: z.array(z.object({ const: z.string(), title: z.string() })),
    default: z.exactOptional(z.string()),
  }),
  z.object({
    ...titled,
    type: z.literal('string'),
    minLength: z.exactOptional(z.number()),
    maxLength: z.exactOptional(z.number()),
    default: z.exactOptional(z.string()),
  }),
  z.object({
    ...titled,
    ...numbers,
    type: z.enum(['number', 'integer']),
    default: z.exactOptional(z.number()),
  }),
  z.object({ ...titled, type: z.literal('boolean'), default: z.exactOptional(z.boolean()) }),
]);

const objectSchema = z.object({
  type: z.literal('object'),
  properties: z.record(z.string(), fieldSchema),
  required: z.exactOptional(z.array(z.string())),
});

function readAnswers({ questions }: OpenQuestion, content: Reply['content']): Answer {
  const [only, second] = questions;
  if (only !== undefined && second === undefined && wholeForm(only) !== undefined)
    return { type: 'answers', answers: { [only.key]: content ?? {} } };
  const given = questions.flatMap(({ key, schema }) => {
    const value = content?.[key];
    if (value === undefined) return [];
    const isField = typeof value !== 'string' || fieldSchema.safeParse(schema).success;
    return [[key, isField ? value : readOutput(value)] as const];
  });
  return { type: 'answers', answers: Object.fromEntries(given) };
}

/** The faults of earlier answers, which a form of the only question has no field for. */
function faultsIn({ questions }: OpenQuestion): string {
  return questions.flatMap(({ fault }) => (fault === undefined ? [] : `${fault}\n\n`)).join('');
}

function form(message: string, schema: Pick<Form['requestedSchema'], 'properties' | 'required'>): Form {
  return { mode: 'form', message, requestedSchema: { type: 'object', ...schema } };
}

const REMARK = {
  reason: { type: 'string', title: 'Remark', description: 'The model reads it, if you decline.' },
} as const;

function changeable(answer: string): Form['requestedSchema']['properties'] {
  if (answer.length > EDITED_INPUT) return {};
  const description = 'Change it to give another answer.';
  return { answer: { type: 'string', title: 'Answer', description, default: answer } };
}

function editable(input: unknown): Form['requestedSchema']['properties'] {
  const json = JSON.stringify(input);
  if (json.length > EDITED_INPUT) return {};
  return {
    input: {
      type: 'string',
      title: 'Input',
      description: 'JSON. Change it to edit the call.',
      default: json,
    },
  };
}

export function formsFor(open: OpenCalls, agent: string, { faults }: Decided): Record<string, InputRequest> {
  return Object.fromEntries(
    [...open].map(([id, call]) => [
      id,
      { method: 'elicitation/create', params: formFor(call, agent, faults.get(id)) },
    ]),
  );
}

const replySchema = z.object({
  action: z.enum(['accept', 'decline', 'cancel']),
  content: z.record(z.string(), z.json()).nullish(),
});
type Reply = z.infer<typeof replySchema>;

/** `asked`: the digest of each call that was asked about. Replies about calls that were decided meanwhile get a note. */
export async function decide(
  run: Run,
  {
    open,
    asked,
    replies,
    as,
  }: {
    open: OpenCalls;
    asked: Readonly<Record<string, string>>;
    replies: Readonly<Record<string, unknown>>;
    as: Person;
  },
): Promise<Decided> {
  const cancelled = new Set<string>();
  const faults = new Map<string, string>();
  const notes: string[] = [];
  let accepted = 0;
  for (const [id, given] of Object.entries(replies)) {
    if (!Object.hasOwn(asked, id)) continue;
    const reply = replySchema.safeParse(given);
    const call = open.get(id);
    if (!reply.success) faults.set(id, 'The reply is not a form answer.');
    else if (reply.data.action === 'cancel') cancelled.add(id);
    else if (call === undefined || call.digest !== asked[id])
      notes.push(`Call ${id} was already decided elsewhere; this answer changed nothing.`);
    else {
      const answer = readReply(call, reply.data);
      if (answer === null) cancelled.add(id);
      else if ('fault' in answer) faults.set(id, answer.fault);
      else {
        const result = await run.submit([{ ...commandFor(call, answer), as }]);
        if (result.accepted) accepted += 1;
        else if (result.code === 'input-invalid') faults.set(id, result.message);
        else {
          notes.push(result.message);
          // It stays open for those who may decide it.
          if (result.code === 'not-allowed') cancelled.add(id);
        }
      }
    }
  }
  return { accepted, cancelled, faults, notes };
}

const DECLINED = 'Declined by the caller.';

/** The answer in a reply that is not `cancel`; `null` if it has none. */
function readReply(open: OpenItem, { action, content }: Reply): Answer | { fault: string } | null {
  const { kind } = open;
  const text = readField(content, 'output');
  if (kind === 'review') {
    const { reason, answer } = content ?? {};
    if (action === 'decline')
      return { type: 'reject', reason: typeof reason === 'string' ? reason : DECLINED };
    const isChanged = typeof answer === 'string' && answer !== open.answer;
    return { type: 'approve', ...(isChanged && { answer }) };
  }
  if (kind === 'approval') {
    if (action === 'decline') return { type: 'reject', reason: DECLINED };
    const edit = readEdit(content?.input, open.input);
    return 'fault' in edit ? edit : { type: 'approve', ...edit };
  }
  if (kind === 'question') {
    if (action === 'decline') return { type: 'reject', reason: DECLINED };
    return readAnswers(open, content);
  }
  if (kind === 'result') {
    if (action === 'decline')
      return { type: 'result', output: 'The caller declined to answer.', isError: true };
    const written = text ?? readOnly(content);
    if (written === undefined) return { fault: 'The field "output" is missing.' };
    return { type: 'result', output: readOutput(written) };
  }
  if (action === 'decline') return null;
  switch (content?.outcome) {
    case 'happened':
      return { type: 'happened', output: readOutput(text ?? 'null') };
    case 'failed':
      return { type: 'failed', reason: text ?? 'It failed.' };
    case 'retry':
      return { type: 'retry' };
    default:
      return { fault: 'The field "outcome" must be happened, failed or retry.' };
  }
}

function readField(content: Reply['content'], name: string): string | undefined {
  const value = content?.[name];
  return value === undefined || typeof value === 'string' ? value : JSON.stringify(value);
}

/** The only field of a form, for clients that name it differently. */
function readOnly(content: Reply['content']): string | undefined {
  const [name, second] = Object.keys(content ?? {});
  return name === undefined || second !== undefined ? undefined : readField(content, name);
}

function readEdit(field: unknown, input: unknown): { input?: unknown } | { fault: string } {
  if (field === undefined || field === null) return {};
  if (typeof field !== 'string') return { fault: 'The field "input" is not text.' };
  if (field.trim() === '' || field === JSON.stringify(input)) return {};
  try {
    return { input: JSON.parse(field) };
  } catch {
    return { fault: 'The field "input" is not JSON.' };
  }
}

function readOutput(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

const FORM_MS = 24 * 60 * 60 * 1_000;

/** How many forms in a row may come back unusable before a call is left open. */
const MOST_FAULTS = 3;

export type Followed = {
  runs: ServedRuns;
  hold: Hold;
  ctx: ServerContext;
  asks: boolean;
  as: Person;
  meta?: { [key: string]: unknown };
};

type Followup = { settled: Settled; notes: readonly string[] };

/** Asks by forms. Calls that are left open are added to `left` and not asked about. Throws when the request ends. */
export async function followAsking(followed: Followed, left = new Set<string>()): Promise<Followup> {
  const notes: string[] = [];
  let faults = 0;
  for (let decided: Decided = NOTHING_DECIDED; ; ) {
    const settled = await settle(followed);
    const all = openCallsFor(followed.hold.run.id, settled);
    const open = new Map([...all].filter(([id]) => !left.has(id)));
    if (isLeft(all, decided) || open.size === 0 || !followed.asks) return { settled, notes };
    if (faults === MOST_FAULTS) {
      for (const id of decided.faults.keys()) left.add(id);
      return { settled, notes };
    }
    decided = await askNow(followed, open, decided);
    for (const id of decided.cancelled) left.add(id);
    notes.push(...decided.notes);
    faults = decided.faults.size > 0 && decided.accepted === 0 ? faults + 1 : 0;
  }
}

export function isLeft(open: OpenCalls, { cancelled }: Decided): boolean {
  return [...cancelled].some(id => open.has(id));
}

/** Like `followAsking`, but returns only once the run has ended: calls that are left open are decided elsewhere. */
export async function followToEnd(followed: Followed): Promise<Followup> {
  const { run } = followed.hold;
  const left = new Set<string>();
  const notes: string[] = [];
  for (;;) {
    const { seq } = run.durable;
    const followup = await followAsking(followed, left);
    notes.push(...followup.notes);
    if (followup.settled.status !== 'waiting') return { ...followup, notes };
    await untilChanged(followed, seq);
  }
}

async function askNow(followed: Followed, open: OpenCalls, { faults }: Decided): Promise<Decided> {
  const { runs, as, meta } = followed;
  const { run } = followed.hold;
  const { name } = run.context.agent;
  const forms = [...open].map(([id, call]) => {
    const form = { ...formFor(call, name, faults.get(id)), ...(meta && { _meta: meta }) };
    return { id, call, form, withdrawn: new AbortController() };
  });
  const replies = await askOpenCalls(followed, forms);
  const now = openCallsFor(run.id, await settledNow(run));
  const decided = await decide(run, { open: now, asked: digestsOf(open), replies, as });
  runs.drive(run.id);
  return decided;
}

type AskedForm = { id: string; call: OpenItem; form: ElicitRequestFormParams; withdrawn: AbortController };

/** A form that fails, or whose call is decided elsewhere in the meantime, is withdrawn and counts as cancelled. */
async function askOpenCalls(
  followed: Followed,
  forms: readonly AskedForm[],
): Promise<Record<string, unknown>> {
  const { run } = followed.hold;
  const { mcpReq } = followed.ctx;
  const story = run.storyBatches({ after: run.durable.seq, follow: true, subAgents: 'merged' });
  withdrawDecided(followed, forms, story).catch(() => {});
  try {
    const replies = forms.map(async ({ id, form, withdrawn }) => {
      const options = { timeout: FORM_MS, signal: AbortSignal.any([mcpReq.signal, withdrawn.signal]) };
      const asked = mcpReq.send({ method: 'elicitation/create', params: form }, options);
      return [id, await asked.catch(() => ({ action: 'cancel' }))] as const;
    });
    return Object.fromEntries(await Promise.all(replies));
  } finally {
    story.return(undefined).catch(() => {});
  }
}

/** Withdraws the forms of calls that are no longer open as they were asked about, whenever something happened. */
async function withdrawDecided(
  { hold: { run } }: Followed,
  forms: readonly AskedForm[],
  story: AsyncIterable<readonly StoryEvent[]>,
): Promise<void> {
  const withdraw = async () => {
    const settled = await settledNow(run);
    const open = settled?.status === 'waiting' ? settled.open : listOpen(run.context);
    const digests = new Map(open.map(one => [one.id, isOpenItem(one) ? one.digest : undefined]));
    // While the run does something, only its own open calls are known.
    for (const { call, withdrawn } of forms)
      if (digests.get(call.id) !== call.digest && (settled !== null || call.runId === run.id))
        withdrawn.abort();
  };
  await withdraw();
  for await (const told of story) if (told.some(event => 'seq' in event)) await withdraw();
}

/** Waits until the run settles, and reports its progress if the client asked for it; throws when the request ends. */
export async function settle({ hold, ctx }: Pick<Followed, 'hold' | 'ctx'>): Promise<Settled> {
  const { run } = hold;
  const progressToken = ctx.mcpReq._meta?.progressToken;
  const settling = run.settled();
  if (progressToken === undefined) return await whileOpen({ hold, ctx }, settling);
  const story = run.storyBatches({ after: run.durable.seq, until: () => settling });
  try {
    const reported = reportProgress(story, progressToken, ctx).catch(() => {});
    return await whileOpen(
      { hold, ctx },
      reported.then(() => settling),
    );
  } finally {
    story.return(undefined).catch(() => {});
  }
}

async function reportProgress(
  story: AsyncIterable<readonly StoryEvent[]>,
  progressToken: string | number,
  { mcpReq }: ServerContext,
): Promise<void> {
  for await (const told of story)
    for (const event of told) {
      const message = describeProgress(event);
      if (message === null || !('seq' in event)) continue;
      const params = { progressToken, message, progress: event.seq };
      await mcpReq.notify({ method: 'notifications/progress', params });
    }
}

function describeProgress(told: StoryEvent): string | null {
  if (told.type === 'call.started') return `${told.name} has started.`;
  if (told.type !== 'turn.closed') return null;
  return told.completed.calls.length > 0 ? 'The model calls tools.' : 'The model has answered.';
}

async function untilChanged({ hold, ctx }: Followed, seq: number): Promise<void> {
  const events = hold.run.events({ after: seq, follow: true })[Symbol.asyncIterator]();
  try {
    await whileOpen({ hold, ctx }, events.next());
  } finally {
    events.return?.().catch(() => {});
  }
}

async function whileOpen<Value>(
  { hold: { run, closing }, ctx }: Pick<Followed, 'hold' | 'ctx'>,
  value: Promise<Value>,
): Promise<Value> {
  const ended = AbortSignal.any([ctx.mcpReq.signal, closing]);
  const makeError = () => new EngineError('refused', `The request ended. Run ${run.id} continues.`);
  return await unlessAborted(ended, value, makeError);
}

export function digestsOf(open: OpenCalls): Record<string, string> {
  return Object.fromEntries([...open].map(([id, { digest }]) => [id, digest]));
}
