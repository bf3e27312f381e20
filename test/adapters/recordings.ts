import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { expect } from 'vitest';
import type { JsonObject, JsonValue } from '../../protocol/json.ts';
import type { ModelTurn, Usage } from '../../protocol/turn.ts';

/** Recorded traffic lives beside the project; without it its tests are skipped. */
const FOLDER = new URL('../../../shared/wire/', import.meta.url);

type Expectation = {
  outcome?: 'http_error';
  text: Text;
  reasoningText: Text;
  toolCalls: { id: string | null; name: string; arguments: JsonValue }[];
  finishReason: string;
  usage: Usage | null;
  responseId?: string;
  serverBlocks?: string[];
  encryptedReasoningItems?: number;
  error?: { code: JsonValue; type: string | null; message: string };
  retryHints?: Record<string, string>;
};
type Text = string | { length: number; sha256: string; startsWith: string; endsWith?: string };

export type RecordedTurn = {
  name: string;
  response: string;
  status: number;
  headers: Record<string, string>;
  request?: string;
  expect: Expectation;
};

export const recordingsArePresent = existsSync(new URL('expected.json', FOLDER));

export function readRecording(path: string): Buffer {
  return readFileSync(new URL(path, FOLDER));
}

export function readRecordedJson(path: string): JsonObject {
  return JSON.parse(readRecording(path).toString('utf8'));
}

/** The recorded turns whose case begins with `prefix`, named by case and number. */
export function recordedTurns(prefix: string): RecordedTurn[] {
  if (!recordingsArePresent) {
    console.warn('The recorded provider traffic (../shared/wire) is not here: its tests are skipped.');
    return [];
  }
  const cases = Object.entries(
    readRecordedJson('expected.json') as Record<string, { turns: Omit<RecordedTurn, 'name'>[] }>,
  );
  return cases
    .filter(([name]) => name.startsWith(prefix))
    .flatMap(([name, { turns }]) =>
      turns.map((turn, index) => ({ ...turn, headers: turn.headers ?? {}, name: `${name} ${index + 1}` })),
    );
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

/** Compares a turn with what was recorded for it. */
export function expectTurn(turn: ModelTurn, expected: Expectation): void {
  expectText(turn.text, expected.text);
  expectText(turn.reasoning, expected.reasoningText);
  expect(turn.toolCalls.map(({ callId, name, input }) => ({ callId, name, input }))).toEqual(
    expected.toolCalls.map(call => ({
      callId: call.id ?? expect.any(String),
      name: call.name,
      input: call.arguments,
    })),
  );
  expect(turn.finishReason).toBe(expected.finishReason);
  expect(turn.usage).toEqual(expected.usage);
}
