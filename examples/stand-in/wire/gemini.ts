import { type JsonObject, omitUndefined } from '../../../protocol/json.ts';
import { cut, type Encoder, event, type Random, SIGNATURE, type WrittenTurn } from './turn.ts';

/** Gemini's generateContent. Calls are sent complete; the first has the signature. */
export const geminiContent: Encoder = {
  contentType: 'text/event-stream',
  whole: turn => chunkOf(turn, partsOf(turn), true),
  stream: (turn, random) => streamOf(turn, random).map(data => event(data)),
};

function partsOf({ reasoning, signature = SIGNATURE, text, calls }: WrittenTurn): JsonObject[] {
  const parts: JsonObject[] = [];
  if (reasoning !== '') parts.push({ text: reasoning, thought: true });
  if (text !== '') parts.push({ text });
  for (const [index, { id, name, arguments: written }] of calls.entries()) {
    const functionCall = { ...omitUndefined({ id }), name, args: JSON.parse(written) };
    parts.push({ functionCall, ...(index === 0 ? { thoughtSignature: signature } : {}) });
  }
  return parts;
}

function chunkOf(turn: WrittenTurn, parts: JsonObject[], last: boolean): JsonObject {
  const { model, finish, usage } = turn;
  const ends = { stop: 'STOP', length: 'MAX_TOKENS', content_filter: 'SAFETY' };
  const content = parts.length === 0 ? {} : { content: { role: 'model', parts } };
  return {
    candidates: [{ index: 0, ...content, ...(last ? { finishReason: ends[finish] } : {}) }],
    ...(last && usage !== null ? { usageMetadata: usageOf(usage) } : {}),
    modelVersion: model,
    responseId: 'r1',
  };
}

/** `candidatesTokenCount` excludes reasoning tokens. */
function usageOf(usage: NonNullable<WrittenTurn['usage']>): JsonObject {
  return {
    promptTokenCount: usage.input,
    cachedContentTokenCount: usage.cached,
    candidatesTokenCount: usage.output - usage.reasoning,
    thoughtsTokenCount: usage.reasoning,
    totalTokenCount: usage.input + usage.output,
  };
}

/** The finish reason is sent with the last part or after it. */
function streamOf(turn: WrittenTurn, random: Random): JsonObject[] {
  const parts = partsOf(turn).flatMap(part =>
    typeof part.text === 'string' ? cut(part.text, random).map(text => ({ ...part, text })) : [part],
  );
  const grouped: JsonObject[][] = [];
  for (const part of parts) {
    const group = grouped.at(-1);
    if (group !== undefined && part.functionCall !== undefined && random() < 0.5) group.push(part);
    else grouped.push([part]);
  }
  if (grouped.length === 0 || random() < 0.5) grouped.push([]);
  return grouped.map((group, at) => chunkOf(turn, group, at === grouped.length - 1));
}
