import type { JsonObject } from '../../../protocol/json.ts';
import type { WireEvent } from '../../../server/responses/response-writer.ts';
import type { Item } from './gateway.ts';

/** What the events of an item add up to: its deltas, and the values of its `done` events. */
type Assembled = { id: string; deltas: string; done: string | undefined; closed: Item | undefined };

const DELTAS = new Set([
  'response.output_text.delta',
  'response.reasoning_summary_text.delta',
  'response.function_call_arguments.delta',
  'response.mcp_call_arguments.delta',
  'response.custom_tool_call_input.delta',
  'response.code_interpreter_call_code.delta',
]);

/**
 * The output that a client assembles from the events alone. Throws if the events contradict each other: an
 * item is not announced or not finished, an index or id does not match, or the deltas do not add up.
 * `first` is the expected number of the first event.
 */
export function addUp(events: readonly WireEvent[], first = 0): Item[] {
  const assembled: Assembled[] = [];
  for (const [at, event] of events.entries()) {
    check(event.sequence_number === first + at, `number ${event.sequence_number} at ${at}`);
    const index = event.output_index;
    if (typeof index !== 'number') continue;
    if (event.type === 'response.output_item.added') {
      check(index === assembled.length, `item ${index} after ${assembled.length}`);
      assembled.push({ id: (event.item as Item).id, deltas: '', done: undefined, closed: undefined });
      continue;
    }
    const item = assembled[index];
    check(
      item !== undefined && item.closed === undefined,
      `${event.type} of item ${index}, which is not open`,
    );
    if (event.item_id !== undefined) check(event.item_id === item?.id, `${event.type} has another id`);
    if (item === undefined) continue;
    if (DELTAS.has(event.type)) item.deltas += String(event.delta);
    if (event.type.endsWith('_text.done')) item.done = String(event.text);
    if (event.type.endsWith('_arguments.done')) item.done = String(event.arguments);
    if (event.type.endsWith('_input.done')) item.done = String(event.input);
    if (event.type.endsWith('_code.done')) item.done = String(event.code);
    if (event.type === 'response.output_item.done') {
      item.closed = event.item as Item;
      check(item.closed.id === item.id, 'an item has another id when it is done');
      if (item.done !== undefined) check(item.done === item.deltas, `"${item.deltas}" became "${item.done}"`);
      if (item.done !== undefined)
        check(textOf(item.closed) === item.done, 'the text of an item changed when it was done');
    }
  }
  return assembled.map(({ id, closed }) => {
    if (closed === undefined) throw new Error(`item ${id} is not finished`);
    return closed;
  });
}

function textOf(item: Item): unknown {
  const parts = (item.content ?? item.summary) as JsonObject[] | undefined;
  return parts === undefined
    ? (item.arguments ?? item.input ?? item.code)
    : parts.map(({ text }) => text).join('');
}

function check(holds: boolean, message: string): void {
  if (!holds) throw new Error(message);
}
