import type { Call, Context } from '../machines/context.ts';
import {
  type ChartEvent,
  type Duties,
  type QualifiedCall,
  type Question,
  reportEventSchema,
} from '../protocol/event.ts';
import type { Item } from '../protocol/item.ts';
import { omitUndefined } from '../protocol/json.ts';
import { userMessage } from '../protocol/message.ts';

/** The start time of every explored run, in ms since the epoch. */
export const START = 1_000_000;

/** Who starts explored runs, and who else writes in them. */
export const STARTER = 'the starter';
export const WRITER = 'a writer';

type Untimed<Event> = Event extends ChartEvent ? Omit<Event, 'at' | 'generation'> : never;

/** An event whose time and generation are added by `stamp`, unless set. */
export type UntimedEvent = Untimed<ChartEvent> & { at?: number; generation?: number };

const REPORTS: ReadonlySet<string> = new Set(
  reportEventSchema.def.options.flatMap(option => option.shape.type.def.values),
);

/** Returns the event as a host would send it: 1 ms after the latest, from the service that was started last. */
export function stamp(context: Context, event: UntimedEvent): ChartEvent {
  const at = event.at ?? context.now + 1;
  if (!REPORTS.has(event.type)) return { ...event, at } as ChartEvent;
  return { ...event, at, generation: event.generation ?? context.generation } as ChartEvent;
}

export type UntimedOf<Type extends ChartEvent['type']> = Extract<UntimedEvent, { type: Type }>;

export type TurnChange = Partial<Omit<Extract<UntimedEvent, { type: 'turn.completed' }>, 'type' | 'items'>>;

/** Returns a `turn.completed` with `text` and `calls`, and the items for both. */
export function makeTurn({ calls = [], text = '', ...change }: TurnChange = {}) {
  const texts: Item[] =
    text === '' ? [] : [{ type: 'message', role: 'assistant', content: [{ type: 'text', text }] }];
  const requests = calls.map(
    ({ callId, name, input }): Item => ({
      type: 'tool_call',
      callId,
      name,
      arguments: JSON.stringify(input),
    }),
  );
  return {
    type: 'turn.completed',
    provider: 'test',
    model: 'first',
    finishReason: calls.length > 0 ? 'tool_calls' : 'stop',
    text,
    calls,
    usage: null,
    startedAt: START,
    items: [...texts, ...requests],
    ...change,
  } as const satisfies UntimedEvent;
}

export const answering = (text: string, change: TurnChange = {}) => makeTurn({ text, ...change });

export const calling = (...calls: QualifiedCall[]) => makeTurn({ calls });

export const saying = (text: string): UntimedEvent => ({
  type: 'message.received',
  items: [userMessage(text)],
});

/** Returns a failed turn; by default it can be retried immediately. `retryAt` is in ms since the epoch. */
export const failing = (
  change: { retryable?: boolean; retryAt?: number; code?: string } = {},
): UntimedOf<'turn.failed'> => ({
  type: 'turn.failed',
  error: { code: change.code ?? 'overloaded', message: 'the provider is busy' },
  retryable: change.retryable ?? true,
  startedAt: START,
  ...omitUndefined({ retryAt: change.retryAt }),
});

/** Returns the questions of a call, two of them with `second`, which expires. */
export function asking(
  callId: string,
  { asks = 0, expiresAt, duties = {} }: { asks?: number; expiresAt?: number; duties?: Duties } = {},
): UntimedOf<'question.asked'> {
  const make = (key: string, more = {}): Question => ({
    key,
    message: `${key}?`,
    schema: { type: 'string' },
    digest: `digest of ${key}`,
    ...more,
  });
  const first = make('why', duties);
  const second = expiresAt === undefined ? [] : [make('how', { expiresAt })];
  return { type: 'question.asked', callId, digest: `asked ${asks}`, questions: [first, ...second] };
}

/** Returns the answers to all open questions of a call. */
export function answeringQuestions(
  callId: string,
  { digest, questions }: NonNullable<Call['asked']>,
): UntimedOf<'question.answered'> {
  const given = { type: 'given', value: 'because' } as const;
  const answers = Object.fromEntries(questions.map(({ key }) => [key, given]));
  return { type: 'question.answered', callId, digest, answers };
}

/** Returns the start of an attempt, counted from 1. */
export const starting = (callId: string, attempt = 1): UntimedEvent => ({
  type: 'tool.started',
  callId,
  attempt,
  key: `key of ${callId}`,
});

export const settling = (
  callId: string,
  { output = `output of ${callId}`, isError = false } = {},
): UntimedEvent => ({
  type: 'tool.settled',
  callId,
  output,
  isError,
});
