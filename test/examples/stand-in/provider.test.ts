import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { anthropic } from '../../../adapters/anthropic.ts';
import { azure } from '../../../adapters/azure.ts';
import { deepseek } from '../../../adapters/deepseek.ts';
import { gemini } from '../../../adapters/gemini.ts';
import { mistral } from '../../../adapters/mistral.ts';
import { ollama } from '../../../adapters/ollama.ts';
import { openaiChat } from '../../../adapters/openai-chat.ts';
import { openaiResponses } from '../../../adapters/openai-responses.ts';
import { openrouter } from '../../../adapters/openrouter.ts';
import { classifyTurn, streamAndClassify, toolResultFrom } from '../../../adapters/streams.ts';
import { xai } from '../../../adapters/xai.ts';
import { type StandIn, startStandIn } from '../../../examples/stand-in/wire/provider.ts';
import { STEWARD_TASK, stewardInstructions } from '../../../examples/steward/instructions.ts';
import type { ModelAdapter } from '../../../protocol/adapter.ts';
import type { Item } from '../../../protocol/item.ts';
import { userMessage } from '../../../protocol/message.ts';
import type { ToolDefinition } from '../../../protocol/turn.ts';
import { calling, request } from '../../support/adapters/requests.ts';
import { memoryFolder } from '../../support/examples/steward-session.ts';

/** A hand-written loop over each adapter, with the stand-in as its provider. */

const ROOT = '/folder';
const FILES = { 'a.md': '# A\n\n[b](b.md)\n', 'c.md': '# C 😀\n' };
const TOOLS = ['directory_tree', 'read_text_file', 'write_file'].map(
  (name): ToolDefinition => ({
    name,
    description: name,
    inputSchema: { type: 'object', properties: { path: { type: 'string' } }, required: ['path'] },
  }),
);

type Open = (options: { model: string; apiKey: string; baseURL: string }) => ModelAdapter;

/** `mixed`: a path that accepts a transcript without this provider's own thinking, since other providers took part. */
const WAYS: [name: string, path: string, open: Open, mixed?: string][] = [
  ['openai-responses', '/openai/v1', openaiResponses],
  ['openai-chat', '/openai/v1', openaiChat],
  ['anthropic', '/anthropic', anthropic, '/any'],
  ['gemini', '/gemini', gemini],
  ['mistral', '/mistral/v1', mistral],
  ['deepseek', '/deepseek', deepseek],
  ['openrouter', '/openrouter/api/v1', openrouter, '/any/v1'],
  ['ollama', '/ollama', ollama],
  ['ollama chat', '/ollama/v1', options => ollama({ ...options, api: 'chat' })],
  ['xai chat', '/xai/v1', options => xai({ ...options, api: 'chat' })],
  ['azure chat', '/azure/openai/v1', options => azure({ ...options, api: 'chat' })],
];

let standIn: StandIn;
beforeAll(async () => {
  standIn = await startStandIn();
});
afterAll(() => standIn[Symbol.asyncDispose]());

const opened = (open: Open, path: string) =>
  open({ model: 'gemini-3-stand-in', apiKey: 'test', baseURL: standIn.root + path });

/** Each turn uses the next adapter; the last adapter finishes. Returns the tool names called and the report. */
async function work(adapters: readonly ModelAdapter[], stream: boolean) {
  const files = new Map(Object.entries(FILES));
  const execute = memoryFolder(ROOT, files);
  const transcript: Item[] = [userMessage(STEWARD_TASK)];
  const called: string[][] = [];
  for (let at = 0; at < 6; at += 1) {
    const adapter = adapters[Math.min(at, adapters.length - 1)];
    if (adapter === undefined) break;
    const asked = request(transcript, { instructions: stewardInstructions(ROOT), tools: TOOLS });
    const turn = stream
      ? (await streamAndClassify(adapter, asked)).turn
      : await adapter.generate(asked, calling());
    const answer = classifyTurn(JSON.parse(JSON.stringify(turn)));
    transcript.push(...JSON.parse(JSON.stringify(turn.items)));
    if (answer.type === 'final_answer') return { called, text: answer.text, report: files.get('REPORT.md') };
    called.push(answer.toolCalls.map(call => call.name));
    for (const { callId, name, input } of answer.toolCalls) {
      transcript.push(
        toolResultFrom({ callId, output: await execute(name, input as Record<string, string>) }),
      );
    }
  }
  throw new Error('Expected a final answer within six turns.');
}

const DONE = {
  called: [['directory_tree'], ['read_text_file', 'read_text_file'], ['write_file']],
  text: expect.stringContaining('I have 1 finding'),
  report: expect.stringContaining('`b.md` does not exist'),
};

describe.each([true, false])('with stream: %j', stream => {
  test.each(WAYS)(
    '%s produces the scripted turns, and accepts its own replay data',
    async (_, path, open) => {
      expect(await work([opened(open, path)], stream)).toEqual(DONE);
    },
  );
});

/** One adapter per kind of replay. */
const KINDS = WAYS.slice(0, 8);

test.each(KINDS)('every other provider continues a transcript that %s started', async (_, path, open) => {
  for (const [name, ownPath, openOther, mixed = ownPath] of KINDS) {
    const other = opened(openOther, mixed);
    const adapters = [opened(open, path), other];
    expect([name, await work(adapters, true)]).toEqual([name, DONE]);
  }
});
