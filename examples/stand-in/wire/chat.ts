import { objectsOf } from '../../../adapters/turn/json-access.ts';
import { type JsonObject, type JsonValue, omitUndefined } from '../../../protocol/json.ts';
import {
  cut,
  type Encoder,
  event,
  interleave,
  type Random,
  type WrittenCall,
  type WrittenTurn,
} from './turn.ts';

/** The differences between servers of the Chat Completions API. */
export type ChatStyle = {
  /** The `index` of a call's fragments: counted from 0 or 1, always 0, or missing. */
  indexes: 'from-0' | 'from-1' | 'all-0' | 'none';
  /** Whether the id is in the first fragment only, or in each. */
  ids: 'first' | 'each';
  /** Whether a call is sent as one fragment. */
  wholeCalls: boolean;
  /** The field for reasoning; `content`: a part of the content. */
  reasoning: 'reasoning_content' | 'reasoning' | 'reasoning_details' | 'content';
  /** Whether the finish reason is `stop` although there are calls. */
  stopWithCalls: boolean;
  /** Where usage is sent: with the finish reason, in a later chunk without choices, or in `x_groq`. */
  usage: 'beside' | 'behind' | 'x_groq';
  /** Whether the output tokens exclude reasoning tokens. */
  outputWithoutReasoning: boolean;
  done: boolean;
};

const OPENAI: ChatStyle = {
  indexes: 'from-0',
  ids: 'first',
  wholeCalls: false,
  reasoning: 'reasoning_content',
  stopWithCalls: false,
  usage: 'behind',
  outputWithoutReasoning: false,
  done: true,
};

/** Returns an encoder for the Chat Completions API in the style of one server. */
export function chat(style: Partial<ChatStyle> = {}): Encoder {
  const full = { ...OPENAI, ...style };
  return {
    contentType: 'text/event-stream',
    whole: turn => wholeOf(turn, full),
    stream: (turn, random) => streamOf(turn, full, random),
  };
}

function wholeOf(turn: WrittenTurn, style: ChatStyle): JsonObject {
  const message: JsonObject = {
    role: 'assistant',
    ...contentOf(turn, style),
    ...omitUndefined({ refusal: turn.refusal }),
    ...(turn.calls.length === 0 ? {} : { tool_calls: turn.calls.map(callOf) }),
  };
  return {
    ...envelope(turn, 'chat.completion'),
    choices: [{ index: 0, message, finish_reason: finishOf(turn, style) }],
    ...(turn.usage === null ? {} : { usage: usageOf(turn.usage, style) }),
  };
}

function contentOf({ reasoning, text }: WrittenTurn, style: ChatStyle): JsonObject {
  if (reasoning === '') return { content: text === '' ? null : text };
  if (style.reasoning !== 'content') {
    return { content: text === '' ? null : text, ...reasoningOf(reasoning, style) };
  }
  const texts = text === '' ? [] : [{ type: 'text', text }];
  return { content: [thinking(reasoning), ...texts] };
}

function reasoningOf(text: string, style: ChatStyle): JsonObject {
  if (style.reasoning !== 'reasoning_details') return { [style.reasoning]: text };
  const details = [{ type: 'reasoning.text', text, format: 'unknown', index: 0 }];
  return { reasoning: text, reasoning_details: details };
}

function thinking(text: string): JsonObject {
  return { type: 'thinking', thinking: [{ type: 'text', text }] };
}

function callOf({ id, name, arguments: text }: WrittenCall): JsonObject {
  return { ...omitUndefined({ id }), type: 'function', function: { name, arguments: text } };
}

function streamOf(turn: WrittenTurn, style: ChatStyle, random: Random): string[] {
  const usage = turn.usage === null ? undefined : usageOf(turn.usage, style);
  const beside: JsonObject = style.usage === 'beside' && usage !== undefined ? { usage } : {};
  const inGroq: JsonObject =
    style.usage === 'x_groq' && usage !== undefined ? { x_groq: { id: 'req_1', usage } } : {};
  const behind = style.usage === 'behind' && usage !== undefined ? [{ choices: [], usage }] : [];
  const deltas: JsonObject[] = [
    { role: 'assistant', content: '' },
    ...cut(turn.reasoning, random).map(text =>
      style.reasoning === 'content' ? { content: [thinking(text)] } : reasoningOf(text, style),
    ),
    ...cut(turn.text, random).map(content => ({ content })),
    ...(turn.refusal === undefined ? [] : cut(turn.refusal, random).map(refusal => ({ refusal }))),
    ...callDeltas(turn, style, random).map(fragment => ({ tool_calls: [fragment] })),
  ];
  const finish = [{ index: 0, delta: {}, finish_reason: finishOf(turn, style) }];
  const chunks: JsonObject[] = [
    ...joined(deltas, random).map(delta => ({ choices: [{ index: 0, delta, finish_reason: null }] })),
    { choices: finish, ...beside, ...inGroq },
    ...behind,
  ];
  const events = chunks.map(chunk => event({ ...envelope(turn, 'chat.completion.chunk'), ...chunk }));
  return style.done ? [...events, 'data: [DONE]\n\n'] : events;
}

/** Joins some adjacent deltas: text with a call, or fragments of several calls. */
function joined(deltas: readonly JsonObject[], random: Random): JsonObject[] {
  const all: JsonObject[] = [];
  for (const delta of deltas) {
    const last = all.at(-1);
    const calls = [...objectsOf(last?.tool_calls), ...objectsOf(delta.tool_calls)];
    const apart = Object.keys(delta).every(key => key === 'tool_calls' || last?.[key] === undefined);
    if (last === undefined || !apart || random() < 0.8) all.push(delta);
    else Object.assign(last, delta, calls.length === 0 ? {} : { tool_calls: calls });
  }
  return all;
}

/** Interleaves fragments if each identifies its call. */
function callDeltas({ calls }: WrittenTurn, style: ChatStyle, random: Random): JsonObject[] {
  const lanes = calls.map((call, position) => laneOf(call, position, style, random));
  const isIdentified = style.ids === 'each' || style.indexes === 'from-0' || style.indexes === 'from-1';
  return isIdentified ? interleave(lanes, random) : lanes.flat();
}

function laneOf(call: WrittenCall, position: number, style: ChatStyle, random: Random): JsonObject[] {
  const index = indexOf(position, style);
  if (style.wholeCalls) return [{ ...index, ...callOf(call) }];
  const id: JsonObject = call.id === undefined ? {} : { id: call.id };
  const pieces = cut(call.arguments, random);
  const first = random() < 0.5 ? '' : (pieces.shift() ?? '');
  return [
    { ...index, ...id, type: 'function', function: { name: call.name, arguments: first } },
    ...pieces.map(text => ({
      ...index,
      ...(style.ids === 'each' ? id : {}),
      function: { arguments: text },
    })),
  ];
}

function indexOf(position: number, { indexes }: ChatStyle): JsonObject {
  if (indexes === 'none') return {};
  return { index: indexes === 'all-0' ? 0 : position + (indexes === 'from-1' ? 1 : 0) };
}

function finishOf({ finish, calls }: WrittenTurn, { stopWithCalls }: ChatStyle): string {
  return finish === 'stop' && calls.length > 0 && !stopWithCalls ? 'tool_calls' : finish;
}

function usageOf(usage: NonNullable<WrittenTurn['usage']>, style: ChatStyle): JsonValue {
  return {
    prompt_tokens: usage.input,
    completion_tokens: style.outputWithoutReasoning ? usage.output - usage.reasoning : usage.output,
    total_tokens: usage.input + usage.output,
    prompt_tokens_details: { cached_tokens: usage.cached },
    completion_tokens_details: { reasoning_tokens: usage.reasoning },
  };
}

function envelope({ model }: WrittenTurn, object: string): JsonObject {
  return { id: 'chatcmpl-1', object, created: 1_750_000_000, model };
}
