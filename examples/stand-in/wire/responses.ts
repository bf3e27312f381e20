import { objectsOf, textIn } from '../../../adapters/turn/json-access.ts';
import { type JsonObject, omitUndefined } from '../../../protocol/json.ts';
import { cut, type Encoder, event, interleave, type Random, type WrittenTurn } from './turn.ts';

type ResponsesStyle = {
  /** How an event identifies its item. */
  correlation: 'index' | 'item' | 'rotating';
  /** Whether the final response repeats the output. */
  output: boolean;
  /** Whether an event reports each finished item. */
  finished: boolean;
};

const OPENAI: ResponsesStyle = { correlation: 'index', output: true, finished: true };

/** The Responses API. `rotating` imitates proxies that give every event another item id. */
export function responses(style: Partial<ResponsesStyle> = {}): Encoder {
  return {
    contentType: 'text/event-stream',
    whole: turn => responseOf(turn, itemsOf(turn)),
    stream: (turn, random) => streamOf(turn, { ...OPENAI, ...style }, random).map(named),
  };
}

function itemsOf({
  output,
  reasoning,
  signature,
  text,
  refusal,
  calls,
  searched,
}: WrittenTurn): JsonObject[] {
  if (output !== undefined) return [...output];
  const items: JsonObject[] = [];
  if (reasoning !== '' || signature !== undefined) {
    const summary = reasoning === '' ? [] : [{ type: 'summary_text', text: reasoning }];
    items.push({ type: 'reasoning', id: 'rs_1', summary, encrypted_content: signature ?? 'c2VjcmV0' });
  }
  if (searched !== undefined) {
    const action = { type: 'search', query: searched };
    items.push({ type: 'web_search_call', id: 'ws_1', status: 'completed', action });
  }
  if (text !== '' || refusal !== undefined) {
    const content = [
      ...(text === '' ? [] : [{ type: 'output_text', text, annotations: [] }]),
      ...(refusal === undefined ? [] : [{ type: 'refusal', refusal }]),
    ];
    items.push({ type: 'message', id: 'msg_1', role: 'assistant', status: 'completed', content });
  }
  for (const [index, call] of calls.entries()) {
    items.push({
      type: 'function_call',
      id: `fc_${index}`,
      ...omitUndefined({ call_id: call.id }),
      name: call.name,
      arguments: call.arguments,
      status: 'completed',
    });
  }
  return items;
}

function responseOf({ model, finish, usage }: WrittenTurn, output: JsonObject[]): JsonObject {
  const reason = finish === 'length' ? 'max_output_tokens' : 'content_filter';
  return {
    id: 'resp_1',
    object: 'response',
    created_at: 1_750_000_000,
    status: finish === 'stop' ? 'completed' : 'incomplete',
    incomplete_details: finish === 'stop' ? null : { reason },
    error: null,
    model,
    output,
    usage: usage && {
      input_tokens: usage.input,
      input_tokens_details: { cached_tokens: usage.cached },
      output_tokens: usage.output,
      output_tokens_details: { reasoning_tokens: usage.reasoning },
      total_tokens: usage.input + usage.output,
    },
  };
}

function streamOf(turn: WrittenTurn, style: ResponsesStyle, random: Random): JsonObject[] {
  const items = itemsOf(turn);
  const lanes = items.map((item, output_index) => laneOf(item, output_index, style, random));
  const calls = items.findIndex(item => item.type === 'function_call');
  const firstCall = calls === -1 ? items.length : calls;
  const opening = { ...responseOf(turn, []), status: 'in_progress', usage: null };
  const end = responseOf(turn, style.output ? items : []);
  const type = turn.finish === 'stop' ? 'response.completed' : 'response.incomplete';
  return [
    { type: 'response.created', response: opening },
    { type: 'response.in_progress', response: opening },
    ...lanes.slice(0, firstCall).flat(),
    ...interleave(lanes.slice(firstCall), random),
    { type, response: end },
  ];
}

/** Returns the events of one item. */
function laneOf(
  item: JsonObject,
  output_index: number,
  { correlation, finished }: ResponsesStyle,
  random: Random,
): JsonObject[] {
  let events = 0;
  const place = (): JsonObject => ({
    ...(correlation === 'item' ? {} : { output_index }),
    item_id: correlation === 'rotating' ? `other_${output_index}_${events++}` : (item.id ?? ''),
  });
  const about = correlation === 'item' ? {} : { output_index };
  const added = { type: 'response.output_item.added', ...about, item: openingOf(item) };
  const done = finished ? [{ type: 'response.output_item.done', ...about, item }] : [];
  return [added, ...piecesOf(item, place, random), ...done];
}

function openingOf(item: JsonObject): JsonObject {
  switch (item.type) {
    case 'message':
      return { ...item, status: 'in_progress', content: [] };
    case 'reasoning':
      return { ...item, summary: [] };
    case 'function_call':
      return { ...item, status: 'in_progress', arguments: '' };
    default:
      return item;
  }
}

function piecesOf(item: JsonObject, place: () => JsonObject, random: Random): JsonObject[] {
  const whole = wholeOf(item);
  const deltas = (type: string, more: JsonObject = {}) =>
    cut(whole, random).map(delta => ({ type, ...place(), ...more, delta }));
  switch (item.type) {
    case 'message':
      return objectsOf(item.content).flatMap(({ type, text, refusal }, content_index) => {
        const name = type === 'refusal' ? 'refusal' : 'output_text';
        const written = textIn(text ?? refusal);
        const pieces = cut(written, random);
        return [
          ...pieces.map(delta => ({ type: `response.${name}.delta`, ...place(), content_index, delta })),
          {
            type: `response.${name}.done`,
            ...place(),
            content_index,
            [type === 'refusal' ? 'refusal' : 'text']: written,
          },
        ];
      });
    case 'reasoning':
      return deltas('response.reasoning_summary_text.delta', { summary_index: 0 });
    case 'function_call':
      return [
        ...deltas('response.function_call_arguments.delta'),
        { type: 'response.function_call_arguments.done', ...place(), arguments: whole },
      ];
    default:
      return [];
  }
}

function wholeOf(item: JsonObject): string {
  if (item.type === 'function_call') return textIn(item.arguments);
  return textIn(objectsOf(item.summary)[0]?.text);
}

function named(data: JsonObject, sequence_number: number): string {
  return event({ ...data, sequence_number }, String(data.type));
}
