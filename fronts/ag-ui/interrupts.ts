import { isJsonObject, type JsonObject, type JsonValue, omitUndefined } from '../../protocol/json.ts';
import type { RunCommand } from '../../protocol/run-command.ts';
import type { Open, OpenCall, WaitingRun } from '../../protocol/run-view.ts';
import type { Interrupt } from './events.ts';
import { toolCallIdOf } from './project-run.ts';
import type { ResumeEntry } from './run-input.ts';

type Kind = Open['kind'];
const KINDS: readonly Kind[] = ['approval', 'result', 'doubt', 'pause'];

/** The call, or the paused run, that an interrupt asks about. A pause has an empty `callId`. */
type Subject = { kind: Kind; runId: string; callId: string };

const VALUE = { description: 'Any JSON value.' };

const SCHEMAS: Readonly<Record<Kind, JsonObject>> = {
  approval: {
    type: 'object',
    properties: {
      approved: { type: 'boolean' },
      editedArgs: { type: 'object', description: 'Replaces all arguments of the call.' },
      reason: { type: 'string', description: 'Why it is not approved; the model reads it.' },
      output: { ...VALUE, description: 'The result of the call; the call then does not run.' },
      sticky: { type: 'boolean', description: 'Also applies to later calls of the tool.' },
    },
    required: ['approved'],
  },
  result: {
    type: 'object',
    properties: { output: VALUE, isError: { type: 'boolean' } },
    required: ['output'],
  },
  doubt: {
    oneOf: [
      {
        type: 'object',
        properties: { happened: { const: true }, output: VALUE },
        required: ['happened', 'output'],
      },
      { type: 'object', properties: { failed: { type: 'string' } }, required: ['failed'] },
      { type: 'object', properties: { retry: { const: true } }, required: ['retry'] },
    ],
  },
  pause: { type: 'object', properties: { approved: { type: 'boolean' } }, required: ['approved'] },
};

const REASONS: Readonly<Record<Kind, string>> = {
  approval: 'tool_call',
  result: 'input_required',
  doubt: 'agentchart:in_doubt',
  pause: 'agentchart:paused',
};

/** Returns the interrupts of a waiting run: one for each open call, and one for a pause or if nothing else is open. */
export function interruptsOf(runId: string, { open, paused }: WaitingRun): Interrupt[] {
  const found = open.flatMap(one => (one.kind === 'pause' ? [] : [interruptOf(one, runId)]));
  if (!paused && found.length > 0) return found;
  const pause = open.find(one => one.kind === 'pause');
  return [
    ...found,
    {
      id: idOf({ kind: 'pause', runId, callId: '' }),
      reason: REASONS.pause,
      message: pause?.reason ?? 'The run is paused. Continue?',
      responseSchema: SCHEMAS.pause,
    },
  ];
}

function interruptOf(call: OpenCall, ownId: string): Interrupt {
  const { kind, callId, runId, name, input, digest, sideEffect, reason, expiresAt } = call;
  const subagentRunId = runId === ownId ? undefined : runId;
  return {
    id: idOf({ kind, runId, callId }),
    reason: REASONS[kind],
    message: messageOf(call),
    toolCallId: toolCallIdOf(callId, subagentRunId),
    responseSchema: SCHEMAS[kind],
    metadata: { agentchart: { runId, name, input, digest, sideEffect, ...omitUndefined({ reason }) } },
    ...omitUndefined({
      expiresAt: expiresAt === undefined ? undefined : new Date(expiresAt).toISOString(),
      subagentRunId,
    }),
  };
}

function messageOf({ kind, name, reason }: OpenCall): string {
  const why = reason === undefined ? '' : ` ${reason}`;
  switch (kind) {
    case 'approval':
      return `Run ${name}?${why}`;
    case 'result':
      return `${name} needs a result from you.${why}`;
    case 'doubt':
      return `It is unknown whether ${name} happened.${why}`;
  }
}

function idOf({ kind, runId, callId }: Subject): string {
  return [kind, runId, callId].map(encodeURIComponent).join(':');
}

function subjectOf(id: string): Subject | null {
  const [kind, runId, callId] = id.split(':').map(decode);
  const known = KINDS.find(name => name === kind);
  return known === undefined || !runId || callId === undefined ? null : { kind: known, runId, callId };
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return '';
  }
}

/**
 * Converts the answer to an interrupt into a command. Returns `null` for an answer without a decision, such as `{}`,
 * and `unknown` if no interrupt has this id. A cancelled approval becomes a rejection, and a cancelled client call an
 * error result. A cancelled call in doubt stays in doubt and a cancelled pause stays paused, because the answer does
 * not decide them.
 */
export function commandOf({ interruptId, status, payload }: ResumeEntry): RunCommand | null | 'unknown' {
  const subject = subjectOf(interruptId);
  if (subject === null) return 'unknown';
  const { kind, callId, runId } = subject;
  const call = { callId, runId };
  const given: JsonObject = isJsonObject(payload ?? null) ? (payload as JsonObject) : {};
  if (status === 'cancelled') return cancelled(kind, call);
  switch (kind) {
    case 'approval':
      return decision(call, given);
    case 'result': {
      const output = isJsonObject(payload) && 'output' in given ? given.output : payload;
      if (output === undefined || isEmpty(payload)) return null;
      return given.isError === true
        ? { type: 'answer', ...call, output, isError: true }
        : { type: 'answer', ...call, output };
    }
    case 'doubt':
      if (given.retry === true) return { type: 'resolve', ...call, retry: true };
      if (typeof given.failed === 'string') return { type: 'resolve', ...call, failed: given.failed };
      if (given.happened !== true) return null;
      return { type: 'resolve', ...call, happened: true, output: given.output ?? null };
    case 'pause':
      return given.approved === true ? { type: 'unpause' } : null;
  }
}

function isEmpty(payload: JsonValue | undefined): boolean {
  return isJsonObject(payload) && Object.keys(payload).length === 0;
}

type CallRef = { callId: string; runId: string };

function cancelled(kind: Kind, call: CallRef): RunCommand | null {
  if (kind === 'approval') return { type: 'reject', ...call };
  if (kind === 'result') return { type: 'answer', ...call, output: 'Cancelled by the user.', isError: true };
  return null;
}

function decision(call: CallRef, given: JsonObject): RunCommand | null {
  const { approved, output } = given;
  const sticky = given.sticky === true ? true : undefined;
  const digest = textIn(given.digest);
  if (approved === false)
    return { type: 'reject', ...call, ...omitUndefined({ reason: textIn(given.reason), digest, sticky }) };
  if (approved !== true) return null;
  if (output !== undefined) return { type: 'answer', ...call, output, ...omitUndefined({ digest }) };
  const input = given.editedArgs ?? given.input;
  return { type: 'approve', ...call, ...omitUndefined({ input, digest, sticky }) };
}

function textIn(value: JsonValue | undefined): string | undefined {
  return typeof value === 'string' ? value : undefined;
}
