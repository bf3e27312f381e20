import { isJsonObject, type JsonObject, type JsonValue, omitUndefined } from '../../protocol/json.ts';
import {
  type Answer,
  type AnswerCommand,
  callIdFor,
  commandFor,
  type OpenReference,
} from '../../protocol/open/answer.ts';
import { ANSWER_SCHEMAS, readAnswer } from '../../protocol/open/answer-form.ts';
import type { Open, OpenCall, WaitingRun } from '../../protocol/run-view.ts';
import type { Interrupt, ResumeEntry } from './wire.ts';

type Kind = Open['kind'];
const KINDS: readonly Kind[] = ['approval', 'result', 'doubt', 'pause'];

/** The answers' schemas. AG-UI calls the input of an approval `editedArgs`. */
const { approved, input, ...others } = ANSWER_SCHEMAS.approval.properties;
const SCHEMAS: Readonly<Record<Kind, JsonObject>> = {
  ...ANSWER_SCHEMAS,
  approval: { ...ANSWER_SCHEMAS.approval, properties: { approved, editedArgs: input, ...others } },
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
      id: idOf('pause', runId),
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
    id: idOf(kind, runId, callId),
    reason: REASONS[kind],
    message: messageOf(call),
    toolCallId: callIdFor(ownId, call),
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

/** The id of an interrupt. That of a pause names no call. */
function idOf(kind: Kind, runId: string, callId = ''): string {
  return [kind, runId, callId].map(encodeURIComponent).join(':');
}

/** What an interrupt asks about. That of a pause is about the run or one below it, whichever is paused. */
function openOf(id: string): OpenReference | null {
  const [name, runId, callId] = id.split(':').map(decode);
  const kind = KINDS.find(known => known === name);
  if (kind === undefined || !runId || callId === undefined) return null;
  return kind === 'pause' ? { kind } : { kind, runId, callId };
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return '';
  }
}

/** `null` for an answer without a decision, such as `{}`; `unknown` if no interrupt has this id. */
export function commandOf(
  { interruptId, status, payload }: ResumeEntry,
  by: string | undefined,
): AnswerCommand | null | 'unknown' {
  const open = openOf(interruptId);
  if (open === null) return 'unknown';
  if (status === 'cancelled') {
    const answer = CANCELLED[open.kind];
    return answer && commandFor(open, answer, { by });
  }
  const given: JsonObject = isJsonObject(payload) ? payload : {};
  const answer = readAnswer(open.kind, formOf(open.kind, given, payload));
  if (answer === null) return null;
  const digest = open.kind === 'approval' && typeof given.digest === 'string' ? given.digest : undefined;
  return commandFor({ ...open, ...omitUndefined({ digest }) }, answer, { by });
}

/** The answers that a cancelled interrupt gives. A call in doubt stays in doubt and a paused run stays paused. */
const CANCELLED: Readonly<Record<Kind, Answer | null>> = {
  approval: { type: 'reject' },
  result: { type: 'result', output: 'Cancelled by the user.', isError: true },
  doubt: null,
  pause: null,
};

/** The JSON form of an answer. Any value but `{}` is the result of a client tool. */
function formOf(kind: Kind, given: JsonObject, payload: JsonValue | undefined): JsonObject {
  if (kind === 'approval' && given.editedArgs !== undefined) return { ...given, input: given.editedArgs };
  const isForm = kind !== 'result' || payload === undefined || 'output' in given;
  if (isForm || (isJsonObject(payload) && Object.keys(payload).length === 0)) return given;
  return { ...given, output: payload };
}
