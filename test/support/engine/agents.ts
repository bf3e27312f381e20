import * as z from 'zod';
import type { ScriptedTurn } from '../../../adapters/scripted/scripted-turns.ts';
import type { RunEvent } from '../../../protocol/event.ts';
import type { Item } from '../../../protocol/item.ts';
import type { Store } from '../../../protocol/store.ts';
import type { Tool, ToolCallContext } from '../../../protocol/tool.ts';
import { type ToolOptions, tool } from '../../../tools/tool.ts';

type Options = Partial<ToolOptions<typeof anything, z.ZodType>>;

const anything = z.looseObject({});

/** A tool that takes any object; by default it returns `NAME ran`. */
export function makeTool(name: string, options: Options = {}): Tool {
  return tool({ name, description: name, input: anything, run: () => `${name} ran`, ...options });
}

/** A tool that appends the key of each call to `keys`. */
export function makeTracedTool(name: string, keys: string[], options: Options = {}): Tool {
  return makeTool(name, {
    run: (_input: unknown, { key }: ToolCallContext) => {
      keys.push(key);
      return `${name} ran`;
    },
    ...options,
  });
}

export function clientTool(name: string, options: Options = {}): Tool {
  return tool({ name, description: name, input: anything, ...options });
}

type Arguments = Record<string, string | number | boolean>;

/** A scripted turn with these calls; their input is an empty object by default. */
export function calls(...made: (string | [name: string, input: Arguments | string])[]): ScriptedTurn {
  return {
    toolCalls: made.map(call =>
      typeof call === 'string' ? { name: call } : { name: call[0], arguments: call[1] },
    ),
  };
}

/** A promise with the function that resolves it. */
export function makeGate<T = void>() {
  let open: (value: T) => void = () => {};
  const promise = new Promise<T>(resolve => {
    open = resolve;
  });
  return { promise, open };
}

export async function eventsOf(store: Store, runId: string): Promise<RunEvent[]> {
  return (await store.read(runId)).map(({ event }) => event);
}

/** The journal as text: event types, each with its call id. */
export async function wordsOf(store: Store, runId: string): Promise<string[]> {
  return (await eventsOf(store, runId)).map(event =>
    'callId' in event ? `${event.type} ${event.callId}` : event.type,
  );
}

export async function countEvents(store: Store, runId: string, type: RunEvent['type']): Promise<number> {
  return (await eventsOf(store, runId)).filter(event => event.type === type).length;
}

/** The tool results of a transcript as the model reads them, by call id. */
export function resultsIn(transcript: readonly Item[]): Record<string, unknown> {
  return Object.fromEntries(
    transcript.flatMap(item =>
      item.type === 'tool_result' ? [[item.callId, item.shown ?? item.output]] : [],
    ),
  );
}
