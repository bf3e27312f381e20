import type { Item } from '../../protocol/item.ts';
import { omitUndefined } from '../../protocol/json.ts';
import type { ModelRequest, ModelTurn, ToolCall, TurnDelta } from '../../protocol/turn.ts';
import { toolCall } from '../turn/tool-call.ts';
import { deltasUpTo } from '../turn/turn-deltas.ts';
import { type PlayedTurn, usageIn } from './scripted-turns.ts';

const ONLY_CALLS = 'The script has only tool calls for this turn, and tools are off.';

/**
 * Converts the script's turn number `at` (from 0) to a model turn. With `toolChoice: 'none'` its calls are
 * omitted; if nothing else is left, a text says so. Its items have its number, for `countTurns`.
 */
export function playTurn(
  turn: PlayedTurn,
  at: number,
  request: ModelRequest,
  { provider, model }: { provider: string; model: string },
): ModelTurn {
  const toolsOff = request.toolChoice === 'none';
  const toolCalls = toolsOff ? [] : callsOf(turn, at, request);
  const dropped = toolsOff && (turn.toolCalls?.length ?? 0) > 0;
  const text = turn.text ?? (dropped ? ONLY_CALLS : '');
  const reasoning = turn.reasoning ?? '';
  const opaque = { provider, data: { turn: at } };
  const items: Item[] = [];
  if (reasoning !== '') items.push({ type: 'reasoning', text: reasoning, opaque });
  if (text !== '') {
    items.push({ type: 'message', role: 'assistant', content: [{ type: 'text', text }], opaque });
  }
  for (const call of toolCalls) {
    const { callId, name, arguments: written } = call;
    items.push({ type: 'tool_call', callId, name, arguments: written, opaque });
  }
  if (items.length === 0) items.push({ type: 'provider_item', kind: 'empty_turn', opaque });
  const fallback = toolCalls.length > 0 ? 'tool_calls' : 'stop';
  const finishReason =
    dropped && turn.finishReason === 'tool_calls' ? fallback : (turn.finishReason ?? fallback);
  return { text, reasoning, toolCalls, finishReason, usage: usageIn(turn), model, items };
}

/** Call ids are derived from the turn's number and the call's position. */
function callsOf(turn: PlayedTurn, at: number, request: ModelRequest): ToolCall[] {
  const taken = new Set(request.transcript.map(item => (item.type === 'tool_call' ? item.callId : '')));
  return (turn.toolCalls ?? []).map((call, index) => {
    let callId = `call_${at}_${index}`;
    while (taken.has(callId)) callId += '_';
    const written = call.arguments ?? {};
    return toolCall(callId, call.name, typeof written === 'string' ? written : JSON.stringify(written));
  });
}

/** Returns the deltas of a turn as a provider would stream them: text a few characters at a time. */
export function splitDeltas(turn: ModelTurn): TurnDelta[] {
  return [...deltasUpTo(turn)].flatMap<TurnDelta>(delta => {
    if (delta.type === 'call_started')
      return [{ ...delta, ...omitUndefined({ callId: turn.toolCalls[delta.index]?.callId }) }];
    if (delta.type === 'turn') return [delta];
    return (delta.text.match(PIECE) ?? []).map(text => ({ ...delta, text }));
  });
}

/** Up to 24 characters of a word with the space before it. Never splits a surrogate pair. */
const PIECE = /\s*\S{1,24}|\s+/gu;
