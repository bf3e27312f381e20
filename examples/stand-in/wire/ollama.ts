import type { JsonObject } from '../../../protocol/json.ts';
import { cut, type Encoder, type Random, type WrittenCall, type WrittenTurn } from './turn.ts';

/** Ollama's /api/chat. Calls are sent complete, without ids; the finish reason is `stop` even with calls. */
export const ollamaChat: Encoder = {
  contentType: 'application/x-ndjson',
  whole: turn => lineOf(turn, messageOf(turn), true),
  stream: (turn, random) => streamOf(turn, random).map(line => `${JSON.stringify(line)}\n`),
};

function messageOf({ reasoning, text, calls }: WrittenTurn): JsonObject {
  return {
    content: text,
    ...(reasoning === '' ? {} : { thinking: reasoning }),
    ...(calls.length === 0 ? {} : { tool_calls: calls.map(callOf) }),
  };
}

function callOf({ name, arguments: written }: WrittenCall): JsonObject {
  return { function: { name, arguments: JSON.parse(written) } };
}

function lineOf({ model, finish, usage }: WrittenTurn, message: JsonObject, done: boolean): JsonObject {
  const counts = usage === null ? {} : { prompt_eval_count: usage.input, eval_count: usage.output };
  return {
    model,
    created_at: '2026-01-01T00:00:00Z',
    message: { role: 'assistant', ...message },
    done,
    ...(done ? { done_reason: finish, ...counts } : {}),
  };
}

/** The last message may be in the final line, and adjacent calls may share a line. */
function streamOf(turn: WrittenTurn, random: Random): JsonObject[] {
  const groups: WrittenCall[][] = [];
  for (const call of turn.calls) {
    const group = groups.at(-1);
    if (group !== undefined && random() < 0.3) group.push(call);
    else groups.push([call]);
  }
  const messages: JsonObject[] = [
    ...cut(turn.reasoning, random).map(thinking => ({ content: '', thinking })),
    ...cut(turn.text, random).map(content => ({ content })),
    ...groups.map(group => ({ content: '', tool_calls: group.map(callOf) })),
  ];
  const last = (random() < 0.3 ? messages.pop() : undefined) ?? { content: '' };
  return [...messages.map(message => lineOf(turn, message, false)), lineOf(turn, last, true)];
}
