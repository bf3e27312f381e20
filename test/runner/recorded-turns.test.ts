import { describe, expect, test } from 'vitest';
import { createAgent } from '../../agent/agent.ts';
import type { JsonObject } from '../../protocol/json.ts';
import { type RunnerTurn, turns } from '../../runner/index.ts';
import { openRecorded } from '../support/adapters/recorded-adapters.ts';
import {
  exchangeOf,
  expectText,
  isStreamed,
  type RecordedTurn,
  readRecordedJson,
  recordedTurns,
  recordingsArePresent,
} from '../support/adapters/recordings.ts';
import { makeTool } from '../support/engine/agents.ts';

const CASES = [
  'anthropic/tool-parallel-4',
  'anthropic/thinking-tool',
  'anthropic/stream-tool-multiturn',
  'openai-responses/tool-parallel',
  'openai-responses/stream-reasoning-tool-multiturn',
  'openai-responses/previous-response-id-tool-chain',
];

/** A provider that returns the recorded replies in order; `sent` lists the request bodies. */
function replay(recorded: RecordedTurn[]) {
  const sent: JsonObject[] = [];
  const fetch: typeof globalThis.fetch = async (_, init) => {
    const turn = recorded[sent.length];
    sent.push(JSON.parse(String(init?.body)));
    if (turn === undefined) throw new Error('more was asked than was recorded');
    const { response, contentType } = exchangeOf(turn);
    const bytes = new Uint8Array(Buffer.from(response));
    return new Response(bytes, { headers: { 'content-type': contentType ?? '' } });
  };
  return { sent, fetch };
}

function agentFor(recorded: RecordedTurn[], fetch: typeof globalThis.fetch, ran: string[]) {
  const [first] = recorded;
  if (first === undefined) throw new Error('there is no such recording');
  const body = first.request === undefined ? {} : readRecordedJson(first.request);
  const names = new Set(recorded.flatMap(turn => (turn.expect.toolCalls ?? []).map(({ name }) => name)));
  return createAgent({
    name: 'recorded',
    model: openRecorded(first, {
      model: String(body.model ?? 'recorded'),
      apiKey: 'recorded-key',
      baseURL: 'http://recorded.invalid',
      fetch,
      maxResponseBytes: 10_000_000,
      idleTimeoutMs: 60_000,
    }),
    tools: [...names].map(name =>
      makeTool(name, {
        run: (_, { callId }) => {
          ran.push(callId);
          return `result of ${callId}`;
        },
      }),
    ),
  });
}

describe.skipIf(!recordingsArePresent)('the runner on recorded traffic', () => {
  test.each(CASES)('%s: yields the recorded turns in order and runs each call once', async name => {
    const recorded = recordedTurns(`${name}`).filter(turn => turn.case === name);
    const { sent, fetch } = replay(recorded);
    const ran: string[] = [];
    const seen: RunnerTurn[] = [];
    const agent = agentFor(recorded, fetch, ran);
    if (recorded.every(isStreamed)) {
      for await (const stream of turns(agent, 'go', { stream: true })) seen.push(await stream.turn());
    } else for await (const turn of turns(agent, 'go')) seen.push(turn);

    const ends = recorded.findIndex(turn => (turn.expect.toolCalls ?? []).length === 0) + 1;
    expect(seen.length).toBe(ends === 0 ? recorded.length : ends);
    for (const [index, turn] of seen.entries()) {
      const expected = recorded[index]?.expect;
      if (expected === undefined) throw new Error('a turn too many');
      expectText(turn.text, expected.text);
      expect(turn.finishReason).toBe(expected.finishReason);
      expect(turn.toolCalls.map(call => ({ name: call.name, input: call.input }))).toEqual(
        expected.toolCalls.map(call => ({ name: call.name, input: call.arguments })),
      );
    }
    const made = seen.flatMap(turn => turn.toolCalls.map(({ callId }) => callId));
    expect(ran).toEqual(made);
    for (const callId of made) expect(JSON.stringify(sent.slice(1))).toContain(`result of ${callId}`);
  });
});
