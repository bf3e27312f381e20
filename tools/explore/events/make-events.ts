import type { Context } from '../../../machines/context.ts';
import { type ChartEvent, type QualifiedCall, reportEventSchema } from '../../../protocol/event.ts';
import type { Item } from '../../../protocol/item.ts';
import { userMessage } from '../../../protocol/message.ts';

/** When every explored run starts, ms since the epoch. */
export const START = 1_000_000;

type Untimed<Event> = Event extends ChartEvent ? Omit<Event, 'at' | 'generation'> : never;

/** An event without what the run knows better: time and generation, unless it is about them. */
export type Told = Untimed<ChartEvent> & { at?: number; generation?: number };

export const REPORTS: ReadonlySet<string> = new Set(
  reportEventSchema.def.options.flatMap(option => option.shape.type.def.values),
);

/** The event as a host would send it: 1 ms after the latest, from the service that was started last. */
export function stamp(context: Context, told: Told): ChartEvent {
  const at = told.at ?? context.now + 1;
  if (!REPORTS.has(told.type)) return { ...told, at } as ChartEvent;
  return { ...told, at, generation: told.generation ?? context.generation } as ChartEvent;
}

/** One kind of event, untimed. */
export type ToldOf<Type extends ChartEvent['type']> = Extract<Told, { type: Type }>;

export type TurnChange = Partial<Omit<Extract<Told, { type: 'turn.completed' }>, 'type' | 'items'>>;

/** A turn that made `calls`, or answered with `text`; its items are those of text and calls. */
export function makeTurn({ calls = [], text = '', ...change }: TurnChange = {}) {
  const spoken: Item[] =
    text === '' ? [] : [{ type: 'message', role: 'assistant', content: [{ type: 'text', text }] }];
  const called = calls.map(
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
    items: [...spoken, ...called],
    ...change,
  } as const satisfies Told;
}

export const answering = (text: string, change: TurnChange = {}) => makeTurn({ text, ...change });

export const calling = (...calls: QualifiedCall[]) => makeTurn({ calls });

export const saying = (text: string): Told => ({ type: 'message.received', items: [userMessage(text)] });

export const failing = (
  change: { retryable?: boolean; retryAt?: number; code?: string } = {},
): ToldOf<'turn.failed'> => ({
  type: 'turn.failed',
  error: { code: change.code ?? 'overloaded', message: 'the provider is busy' },
  retryable: change.retryable ?? true,
  startedAt: START,
  ...(change.retryAt === undefined ? {} : { retryAt: change.retryAt }),
});

export const starting = (callId: string, attempt = 1): Told => ({
  type: 'tool.started',
  callId,
  attempt,
  key: `key of ${callId}`,
});

export const settling = (callId: string, output = `output of ${callId}`, isError = false): Told => ({
  type: 'tool.settled',
  callId,
  output,
  isError,
});
