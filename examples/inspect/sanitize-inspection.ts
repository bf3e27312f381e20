import type { StatelyInspectionEvent } from '@xstate/inspect';
import { omitUndefined } from '../../protocol/json.ts';

/**
 * Sanitizes what an inspector receives. It may see types, ids, states, counters and names, but no texts, inputs,
 * outputs, arguments, opaque data, idempotency keys, digests, reasons or people's names.
 *
 * An allowlist: members that are not listed are dropped, including those that later versions add.
 */

type Json = Record<string, unknown>;

/** Members that are kept if they are strings: fixed vocabularies, ids and names. */
const WORDS: ReadonlySet<string> = new Set(
  `type id runId callId childRunId continues name provider model role kind status finishReason code
  sideEffect executedBy closing finalAnswer onLimit`.split(/\s+/),
);

/** Members that are kept if they are numbers, booleans or null. */
const COUNTERS: ReadonlySet<string> = new Set(
  `at now startedAt generation number attempt attempts model final shown calls draft open batch turns
  toolCalls deniedCalls tokens cost activeMs activeSince paused steps answerChecked blocks sentBack
  timer until stream inputTokens outputTokens cachedInputTokens cacheWriteTokens reasoningTokens
  retryable retryAt status isError gate reconcilable edited expiresAt sticky`.split(/\s+/),
);

/** Objects and arrays whose members are sanitized in turn; others are dropped. */
const CONTAINERS: ReadonlySet<string> = new Set(
  `agent config models limits turn lastTurn usage next failure error calls transcript inbox items
  decision resolution`.split(/\s+/),
);

/** The inspector's option `sanitizeContext`. */
export function sanitizeContext(context: unknown): Json {
  return keepListed(context);
}

/** The inspector's option `sanitizeEvent`. XState's own events carry the actor's input, so only their type is kept. */
export function sanitizeEvent(event: { type: string }): { type: string } {
  return event.type.startsWith('xstate.') ? { type: event.type } : { ...keepListed(event), type: event.type };
}

/** The inspector's option `serialize`. Removes an actor's input, output and error, which the other two options do not see. */
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
    ...omitUndefined({ value, context: context === undefined ? undefined : keepListed(context) }),
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

/** Entries that are not objects, such as ids, become `null`. */
function keepEntry(entry: unknown): Json | null {
  return isObject(entry) ? keepListed(entry) : null;
}

function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
