import type { Limits, RunConfig } from './config.ts';
import { type Failure, type QualifiedCall, type RunEvent, type RunStarted, runEventSchema } from './event.ts';
import type { Item, MessageItem, Opaque, Part } from './item.ts';
import { labelsSchema, titleSchema } from './listing/label.ts';
import type { FinishReason, Usage } from './turn.ts';

/** Whether a value is an event of this version. The schemas check what `isCommonEvent` does not recognize. */
export function isRunEvent(value: unknown): value is RunEvent {
  return isCommonEvent(value) || runEventSchema.safeParse(value).success;
}

/**
 * A fast check for the events of a usual turn. `true`: the schemas accept the value too, unchanged. `false`: unknown,
 * ask the schemas.
 */
export function isCommonEvent(value: unknown): value is RunEvent {
  return event(value);
}

type Check = (value: unknown) => boolean;
type Optional = { ifPresent: Check };

/** A check for every member, so that the compiler reports a member that was added to a schema only. */
type Members<Type> = {
  [Key in keyof Type]-?: Partial<Pick<Type, Key>> extends Pick<Type, Key> ? Optional : Check;
};

const text: Check = value => typeof value === 'string';
const name: Check = value => typeof value === 'string' && value !== '';
const flag: Check = value => typeof value === 'boolean';
const number: Check = value => Number.isFinite(value);
const integer: Check = value => Number.isSafeInteger(value);
const natural: Check = value => integer(value) && Number(value) >= 0;
const above0: Check = value => number(value) && Number(value) > 0;
const positive: Check = value => integer(value) && above0(value);
const json: Check = value => typeof value === 'object' || text(value) || flag(value) || number(value);
/** Members that only the schemas check. */
const rare: Optional = { ifPresent: () => false };

const id = optional(name);
const opaqueData = shape<Opaque>({ provider: text, data: json });
const opaque = optional(opaqueData);

const part = oneOf<Part>({
  text: { text, annotations: optional(listOf(json)) },
  image: { url: text, detail: optional(text) },
  file: { url: text, name: optional(text), mediaType: optional(text) },
});

const item = oneOf<Item, 'message' | 'reasoning' | 'tool_call' | 'tool_result' | 'provider_item'>({
  message: {
    id,
    role: word<MessageItem['role']>({ user: true, assistant: true, system: true, developer: true }),
    content: listOf(part),
    opaque,
  },
  reasoning: { id, text, opaque },
  tool_call: { id, callId: name, name: text, arguments: text, opaque },
  tool_result: { id, callId: name, output: json, isError: flag, shown: optional(text), blob: rare },
  provider_item: { id, kind: text, opaque: opaqueData },
});

const call = shape<QualifiedCall>({
  callId: text,
  name: text,
  input: json,
  digest: text,
  sideEffect: word<QualifiedCall['sideEffect']>({ none: true, idempotent: true, once: true }),
  reconcilable: flag,
  executedBy: word<QualifiedCall['executedBy']>({ engine: true, client: true }),
  gate: flag,
  reason: optional(text),
  expiresAt: optional(number),
  maxResultBytes: rare,
  error: optional(text),
});

const finishReason = word<FinishReason>({
  stop: true,
  tool_calls: true,
  length: true,
  content_filter: true,
  pause: true,
  error: true,
  unknown: true,
});

const count = nullable(number);
const usage = shape<Usage>({
  inputTokens: number,
  outputTokens: number,
  cachedInputTokens: count,
  cacheWriteTokens: count,
  reasoningTokens: count,
});

const failure = shape<Failure>({
  code: text,
  message: text,
  status: optional(number),
  provider: optional(text),
  model: optional(text),
});

const continuation = shape<NonNullable<EventOf<'turn.completed'>['continuation']>>({
  provider: text,
  model: text,
  instructions: text,
  token: json,
});

const config = shape<RunConfig>({
  models: someOf(shape<RunConfig['models'][number]>({ provider: text, model: text })),
  toolChoice: word<Extract<RunConfig['toolChoice'], string>>({ auto: true, required: true, none: true }),
  finalAnswer: word<RunConfig['finalAnswer']>({ live: true, held: true, separate: true }),
  onMessage: word<RunConfig['onMessage']>({ supersede: true, queue: true }),
  onLimit: word<RunConfig['onLimit']>({ answer: true, stop: true }),
  limits: shape<Limits>({
    turns: positive,
    toolCalls: natural,
    tokens: optional(above0),
    cost: optional(above0),
    activeMs: optional(above0),
    repeatedFailures: optional(positive),
  }),
  prices: rare,
  attempts: positive,
  finishers: flag,
  finisherRejections: natural,
  maxResultBytes: optional(positive),
  holdsAtEnd: optional(flag),
  playsResultsOf: rare,
  forkModel: rare,
});

type EventOf<Type extends RunEvent['type']> = Extract<RunEvent, { type: Type }>;
type CommonType =
  | 'run.started'
  | 'run.claimed'
  | 'text.started'
  | 'calls.started'
  | 'turn.completed'
  | 'turn.failed'
  | 'tool.started'
  | 'tool.settled'
  | 'timer.fired';

const report = { at: number, generation: integer };
const event = oneOf<RunEvent, CommonType>({
  'run.started': {
    at: number,
    runId: text,
    format: integer,
    chart: shape<RunStarted['chart']>({ version: integer, hash: text }),
    agent: shape<RunStarted['agent']>({ name: text, version: optional(text) }),
    tools: optional(
      listOf(
        shape<NonNullable<RunStarted['tools']>[number]>({ name: text, digest: text, server: optional(text) }),
      ),
    ),
    config,
    input: listOf(item),
    continues: optional(text),
    forkOf: optional(shape<NonNullable<RunStarted['forkOf']>>({ runId: text, at: integer })),
    stream: flag,
    parent: optional(shape<NonNullable<RunStarted['parent']>>({ runId: text, callId: text })),
    paused: optional(flag),
    runContext: optional(json),
    labels: optional(value => labelsSchema.safeParse(value).success),
    title: optional(value => titleSchema.safeParse(value).success),
    requestId: rare,
    asked: rare,
    launch: optional(
      shape<NonNullable<RunStarted['launch']>>({
        module: optional(text),
        model: optional(text),
        request: optional(json),
      }),
    ),
  },
  'run.claimed': { at: number, by: text, epoch: integer, replaces: optional(text) },
  'text.started': report,
  'calls.started': report,
  'turn.completed': {
    ...report,
    provider: text,
    model: text,
    finishReason,
    text,
    items: listOf(item),
    calls: listOf(call),
    usage: nullable(usage),
    dropped: optional(listOf(text)),
    continuation: optional(continuation),
    captured: rare,
    startedAt: number,
  },
  'turn.failed': {
    ...report,
    error: failure,
    retryable: flag,
    retryAt: optional(number),
    captured: rare,
    startedAt: number,
  },
  'tool.started': { ...report, callId: text, attempt: integer, key: text },
  'tool.settled': {
    ...report,
    callId: text,
    output: json,
    isError: flag,
    shown: optional(text),
    blob: rare,
    spent: rare,
    played: rare,
  },
  'timer.fired': report,
});

function optional(check: Check): Optional {
  return { ifPresent: check };
}

function nullable(check: Check): Check {
  return value => value === null || check(value);
}

function listOf(check: Check): Check {
  return value => {
    if (!Array.isArray(value)) return false;
    for (const entry of value) if (!check(entry)) return false;
    return true;
  };
}

function someOf(check: Check): Check {
  const all = listOf(check);
  return value => all(value) && (value as unknown[]).length > 0;
}

/** One of these words. The compiler checks that the list is complete. */
function word<Word extends string>(words: Record<Word, true>): Check {
  const known = new Set<unknown>(Object.keys(words));
  return value => known.has(value);
}

/** One of a union's shapes, selected by its `type`. */
function oneOf<Union extends { type: string }, Type extends Union['type'] = Union['type']>(
  kinds: {
    [Kind in Type]: Omit<Members<Extract<Union, { type: Kind }>>, 'type'>;
  },
): Check {
  const shapes = new Map<unknown, Check>(
    Object.entries<object>(kinds).map(([type, members]) => [type, shape({ type: text, ...members })]),
  );
  return value => isPlain(value) && shapes.get(value.type)?.(value) === true;
}

/** A plain object with exactly these members. */
function shape<Type extends object>(members: Members<Type>): Check {
  const checks = new Map(Object.entries<Check | Optional>(members));
  const required = [...checks.values()].filter(check => typeof check === 'function').length;
  return value => {
    if (!isPlain(value)) return false;
    let found = 0;
    for (const key in value) {
      const check = checks.get(key);
      if (typeof check === 'function') {
        if (!check(value[key])) return false;
        found += 1;
      } else if (check?.ifPresent(value[key]) !== true) return false;
    }
    return found === required;
  };
}

function isPlain(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype;
}
