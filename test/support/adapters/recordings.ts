import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { expect } from 'vitest';
import type { Exchange } from '../../../adapters/conformance.ts';
import type { JsonObject, JsonValue } from '../../../protocol/json.ts';
import type { FinishReason, ModelTurn, Usage } from '../../../protocol/turn.ts';

/** Recorded traffic is stored next to the project; without it the comparisons are skipped. */
const FOLDER = new URL('../../../../shared/wire/', import.meta.url);

export type Format = 'responses' | 'chat' | 'anthropic' | 'gemini' | 'interactions' | 'ollama' | 'harmony';

type Expectation = {
  outcome?: 'http_error';
  format?: Format;
  stream?: boolean;
  text: Text;
  reasoningText: Text;
  toolCalls: { id: string | null; name: string; arguments: JsonValue }[];
  finishReason: FinishReason;
  usage: Usage | null;
  responseId?: string;
  serverBlocks?: string[];
  error?: { code: JsonValue; type: string | null; message: string };
  retryHints?: Record<string, string>;
};
type Text = string | { length: number; sha256: string; startsWith: string; endsWith?: string };

export type RecordedTurn = {
  /** The case and the turn's number in it. */
  name: string;
  case: string;
  provider: string;
  format: Format;
  response: string;
  status: number;
  headers: Record<string, string>;
  request?: string;
  uri?: string;
  expect: Expectation;
};

export const recordingsArePresent = existsSync(new URL('expected.json', FOLDER));

export function readRecording(path: string): Buffer {
  return readFileSync(new URL(path, FOLDER));
}

export function readRecordedJson(path: string): JsonObject {
  return JSON.parse(readRecording(path).toString('utf8'));
}

/** The recorded turns whose case starts with `prefix`, in order. Empty without recordings. */
export function recordedTurns(prefix = ''): RecordedTurn[] {
  if (!recordingsArePresent) return [];
  const cases = readRecordedJson('expected.json') as Record<string, { turns: RecordedTurn[] }>;
  return Object.entries(cases)
    .filter(([name]) => name.startsWith(prefix))
    .flatMap(([name, { turns }]) =>
      turns.map((turn, index) => ({
        ...turn,
        headers: turn.headers ?? {},
        name: `${name} ${index + 1}`,
        case: name,
        provider: name.split('/')[0] ?? '',
        format: turn.expect.format ?? formatOf(name, turn.uri ?? ''),
      })),
    );
}

/** An error body does not show its dialect; its URL does. */
function formatOf(name: string, uri: string): Format {
  if (uri.endsWith('/responses')) return 'responses';
  if (uri.includes('/chat/completions')) return 'chat';
  if (uri.endsWith('/messages')) return 'anthropic';
  if (name.startsWith('gemini/')) return 'gemini';
  return name.startsWith('anthropic/') ? 'anthropic' : 'chat';
}

export function isStreamed({ response }: RecordedTurn): boolean {
  return !response.endsWith('.json');
}

/** The recorded turn as an exchange of the conformance kit. */
export function exchangeOf(turn: RecordedTurn): Exchange {
  const type = turn.response.endsWith('.sse') ? 'text/event-stream' : 'application/json';
  return {
    name: turn.name,
    streamed: isStreamed(turn),
    contentType: turn.response.endsWith('.ndjson') ? 'application/x-ndjson' : type,
    response: readRecording(turn.response),
  };
}

export function expectText(text: string, expected: Text): void {
  if (typeof expected === 'string') {
    expect(text).toBe(expected);
    return;
  }
  expect(text.startsWith(expected.startsWith)).toBe(true);
  expect(text.endsWith(expected.endsWith ?? '')).toBe(true);
  expect([...text].length === expected.length || text.length === expected.length).toBe(true);
  expect(createHash('sha256').update(text).digest('hex')).toBe(expected.sha256);
}

/** Compares a turn with the recorded expectation. A call without an id must have a generated one. */
export function expectTurn(turn: ModelTurn, expected: Expectation): void {
  expectText(turn.text, expected.text);
  expectText(turn.reasoning, expected.reasoningText);
  expect(turn.toolCalls.map(({ callId, name, input }) => ({ callId, name, input }))).toEqual(
    expected.toolCalls.map(call => ({
      callId: call.id ?? expect.stringMatching(/./),
      name: call.name,
      input: call.arguments,
    })),
  );
  expect(new Set(turn.toolCalls.map(({ callId }) => callId)).size).toBe(turn.toolCalls.length);
  expect(turn.finishReason).toBe(expected.finishReason);
  expect(turn.usage).toEqual(expected.usage);
}
