import type { StatelyInspectionEvent } from '@xstate/inspect';

/**
 * What of a run an inspector may see: types, ids, states, counters and names. Texts, inputs, outputs,
 * arguments, opaque data, idempotency keys, digests, reasons and people's names stay in the process.
 *
 * What is kept is listed; anything else, what later versions add too, is dropped.
 */

type Json = Record<string, unknown>;

/** Members whose text is of a fixed vocabulary, an id, or a name. */
const WORDS: ReadonlySet<string> = new Set([
  ...[
    'type',
    'id',
    'runId',
    'callId',
    'childRunId',
    'continues',
    'name',
    'provider',
    'model',
    'role',
    'kind',
  ],
  ...['status', 'finishReason', 'code', 'sideEffect', 'executedBy', 'closing', 'finalAnswer', 'onLimit'],
]);

/** Members that are kept where they are numbers, booleans or null. */
const COUNTERS: ReadonlySet<string> = new Set([
  ...['at', 'now', 'startedAt', 'generation', 'number', 'attempt', 'attempts', 'model', 'final', 'shown'],
  ...['calls', 'draft', 'open', 'batch', 'turns', 'toolCalls', 'deniedCalls', 'tokens', 'cost', 'activeMs'],
  ...[
    'activeSince',
    'paused',
    'steps',
    'finishersDone',
    'rejections',
    'sentBack',
    'timer',
    'until',
    'stream',
  ],
  ...['inputTokens', 'outputTokens', 'cachedInputTokens', 'cacheWriteTokens', 'reasoningTokens'],
  ...['retryable', 'retryAt', 'status', 'isError', 'gate', 'reconcilable', 'edited', 'expiresAt', 'sticky'],
]);

/** Members that are looked into. */
const CONTAINERS: ReadonlySet<string> = new Set([
  ...['agent', 'config', 'models', 'limits', 'turn', 'lastTurn', 'usage', 'next', 'failure', 'error'],
  ...['calls', 'transcript', 'inbox', 'items', 'decision', 'resolution'],
]);

/** For the inspector's `sanitizeContext`. */
export function sanitizeContext(context: unknown): Json {
  return keepListed(context);
}

/** For the inspector's `sanitizeEvent`: the event an actor is started with carries its input, so its name is all of it. */
export function sanitizeEvent(event: { type: string }): { type: string } {
  return event.type.startsWith('xstate.') ? { type: event.type } : { ...keepListed(event), type: event.type };
}

/** For the inspector's `serialize`: the two others do not see an actor's input, output and error. */
export function sanitizeMessage(message: StatelyInspectionEvent): StatelyInspectionEvent {
  switch (message.type) {
    case '@xstate.actor':
      return { ...message, snapshot: keepPlace(message.snapshot) };
    case '@xstate.event':
      return { ...message, event: sanitizeEvent(message.event) };
    case '@xstate.snapshot':
      return { ...message, event: sanitizeEvent(message.event), snapshot: keepPlace(message.snapshot) };
  }
}

function keepPlace<Snapshot extends object>(snapshot: Snapshot): Snapshot {
  const { status, value, context } = snapshot as Json;
  return {
    status,
    ...(value === undefined ? {} : { value }),
    ...(context === undefined ? {} : { context: keepListed(context) }),
  } as Json as Snapshot;
}

function keepListed(value: unknown): Json {
  if (!isObject(value)) return {};
  const kept = Object.entries(value).flatMap(([name, member]) => {
    const clean = keepMember(name, member);
    return clean === undefined ? [] : [[name, clean] as const];
  });
  return Object.fromEntries(kept);
}

function keepMember(name: string, member: unknown): unknown {
  if (Array.isArray(member)) return CONTAINERS.has(name) ? member.map(keepEntry) : undefined;
  if (isObject(member)) return CONTAINERS.has(name) ? keepListed(member) : undefined;
  if (typeof member === 'string') return WORDS.has(name) ? member : undefined;
  return COUNTERS.has(name) ? member : undefined;
}

/** Of a list of ids only its length is kept. */
function keepEntry(entry: unknown): Json | null {
  return isObject(entry) ? keepListed(entry) : null;
}

function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
