import { describe, expect, test } from 'vitest';
import type { ScriptedTurn } from '../../../adapters/scripted/scripted-turns.ts';
import { scripted } from '../../../adapters/scripted.ts';
import { type Agent, createAgent, type Run } from '../../../agent/index.ts';
import {
  type ChatHandlerOptions,
  createChatHandler,
  toUIMessageResponse,
} from '../../../fronts/ai-sdk-ui/index.ts';
import type { ModelAdapter } from '../../../protocol/adapter.ts';
import { ProviderError } from '../../../protocol/error.ts';
import type { TurnDelta } from '../../../protocol/turn.ts';
import { memory } from '../../../stores/memory.ts';
import accepted from '../../support/fronts/ai-sdk-ui/ai-6-chunks.json' with { type: 'json' };
import { ChatPage, TOOLS } from '../../support/fronts/ai-sdk-ui/chat-page.ts';

type Chunk = { type: string; finishReason?: string; needs?: string };

const calling = (...names: string[]): ScriptedTurn => ({
  text: 'I will.',
  toolCalls: names.map(name => ({ name, arguments: name === 'refund' ? { cents: 5 } : {} })),
});

const LOST_CALL: readonly TurnDelta[] = [
  { type: 'call_started', index: 0, callId: 'call_lost', name: 'look' },
  { type: 'call_arguments', index: 0, text: '{"a":' },
];

/** A model whose first attempt fails after it has streamed a text, or these deltas. */
function failingOnce(
  turns: readonly ScriptedTurn[],
  lost: readonly TurnDelta[] = [{ type: 'text', text: 'Lost.' }],
): ModelAdapter {
  const model = scripted(turns);
  let isFirst = true;
  return {
    ...model,
    async *stream(request, options) {
      if (isFirst) {
        isFirst = false;
        yield* lost;
        throw new ProviderError('The connection broke.', {
          code: 'network',
          status: null,
          retryable: true,
          retryAfterMs: 1,
          provider: model.provider,
          model: model.model,
          raw: null,
        });
      }
      yield* model.stream(request, options);
    },
  };
}

function makeAgent(turns: readonly ScriptedTurn[], options: Partial<Agent['options']> = {}) {
  return createAgent({ name: 'desk', store: memory(), model: scripted(turns), tools: TOOLS, ...options });
}

/** A page, and the chunks that it has received. */
function openPage(agent: Agent, options: ChatHandlerOptions = { aiSdk: 6 }) {
  const handler = createChatHandler(agent, options);
  const chunks: Chunk[] = [];
  const page = new ChatPage(async request => {
    const response = await handler(request);
    const body = await response.text();
    chunks.push(...chunksIn(body));
    return new Response(body || null, response);
  });
  return { page, chunks };
}

function chunksIn(body: string): Chunk[] {
  const lines = body.split('\n').filter(line => line.startsWith('data: {'));
  return lines.map(line => JSON.parse(line.slice('data: '.length)));
}

function expectAccepted(chunks: readonly Chunk[]): void {
  const refused = chunks.filter(
    ({ type, finishReason = 'stop' }) =>
      !(accepted.types.includes(type) || type.startsWith('data-')) ||
      !accepted.finishReasons.includes(finishReason),
  );
  expect(chunks.length).toBeGreaterThan(0);
  expect(refused).toEqual([]);
}

async function runOf(agent: Agent): Promise<Run> {
  const { runs } = await agent.store.list();
  return await agent.open(runs[0]?.runId ?? '');
}

describe('a page with AI SDK 6 accepts every chunk', () => {
  test('when it approves and rejects, and the message has the outcomes', async () => {
    const agent = makeAgent([calling('refund', 'refund'), { text: 'Done.' }]);
    const { page, chunks } = openPage(agent);
    await page.chat.sendMessage({ text: 'go' });
    const [first, second] = page.open();
    await page.decide(first, true);
    await page.decide(second, false, 'no');
    expect(page.tools()).toEqual(['tool-refund: output-available', 'tool-refund: output-denied']);
    expect(page.text).toBe('I will.|Done.');
    expectAccepted(chunks);
  });

  test('when another person decided first, also in a replay', async () => {
    const agent = makeAgent([calling('refund', 'refund'), { text: 'Done.' }]);
    const { page, chunks } = openPage(agent);
    await page.chat.sendMessage({ text: 'go' });
    const run = await runOf(agent);
    const [one, other] = run.context.calls;
    await run.approve(one?.callId ?? '');
    await run.reject(other?.callId ?? '', { reason: 'too much' });
    await run.settled();
    await page.decide(page.open()[0], false);
    await page.decide(page.open()[0], true);
    expect(page.tools()).toEqual(['tool-refund: output-available', 'tool-refund: output-denied']);
    const replayed = chunksIn(await toUIMessageResponse(run, { aiSdk: 6 }).text());
    expect(replayed.filter(({ type }) => type === 'tool-input-available')).toHaveLength(3);
    expectAccepted([...chunks, ...replayed]);
  });

  test('when an answer is under review: it is sent back, and the next one is approved', async () => {
    const agent = makeAgent([{ text: 'It costs 5.' }, { text: 'It costs some.' }], {
      guardrails: { answer: () => ({ type: 'ask', reason: 'a price' }) },
    });
    const { page, chunks } = openPage(agent);
    await page.chat.sendMessage({ text: 'What does it cost?' });
    await page.decide(page.open()[0], false, 'name no price');
    await page.decide(page.open()[0], true);
    expectAccepted(chunks);
    expect([page.errors, page.requests.length, page.open()]).toEqual([[], 3, []]);
    expect(page.text).toContain('It costs some.');
    expect(page.tools().at(-1)).toBe('tool-agentchart.review: output-available');
    expect(await (await runOf(agent)).settled()).toMatchObject({
      status: 'finished',
      text: 'It costs some.',
    });
  });

  test('when an attempt fails after its text, which stays, and the next answer continues the message', async () => {
    const agent = makeAgent([], { model: failingOnce([calling('refund'), { text: 'Done.' }]) });
    const { page, chunks } = openPage(agent);
    await page.chat.sendMessage({ text: 'go' });
    expect(page.text).toBe('Lost.|I will.');
    await page.decide(page.open()[0], true);
    expect(page.text).toBe('Lost.|I will.|Done.');
    expectAccepted(chunks);
  });

  test('when an attempt fails while it writes a call, which does not appear', async () => {
    const agent = makeAgent([], { model: failingOnce([calling('look'), { text: 'Done.' }], LOST_CALL) });
    const { page, chunks } = openPage(agent);
    await page.chat.sendMessage({ text: 'go' });
    expect(page.tools()).toEqual(['tool-look: output-available']);
    expect(page.text).toBe('I will.|Done.');
    expectAccepted(chunks);
  });

  test('when the run ends with its calls, and posts nothing again', async () => {
    const agent = makeAgent([calling('look'), calling('look')], { limits: { turns: 1 }, onLimit: 'stop' });
    const { page, chunks } = openPage(agent);
    await page.chat.sendMessage({ text: 'go' });
    await page.idle();
    expect(page.tools()).toEqual(['tool-look: output-available']);
    expect(page.requests).toHaveLength(1);
    expectAccepted(chunks);
  });

  test('when a call is in doubt, and the answer after it has its text', async () => {
    const agent = makeAgent([calling('charge'), { text: 'Charged.' }]);
    const { page, chunks } = openPage(agent);
    await page.chat.sendMessage({ text: 'go' });
    await page.decide(page.open()[0], true);
    const run = await runOf(agent);
    await run.resolve(run.context.calls[0]?.callId ?? '', { happened: true, output: 'paid' });
    await run.settled();
    await page.chat.sendMessage();
    expect(page.text).toBe('I will.|Charged.');
    expect(page.requests).toHaveLength(3);
    expectAccepted(chunks);
  });
});

test('an approval of the page needs no chunk that AI SDK 6 does not know, also without the option', async () => {
  const { page, chunks } = openPage(makeAgent([calling('refund'), { text: 'Done.' }]), {});
  await page.chat.sendMessage({ text: 'go' });
  await page.decide(page.open()[0], true, 'fine');
  expect(page.text).toBe('I will.|Done.');
  expectAccepted(chunks);
});

test('a chunk that only AI SDK 7 knows names the option for AI SDK 6, which shows refused chunks', async () => {
  const agent = makeAgent([calling('refund'), { text: 'Done.' }]);
  const { page, chunks } = openPage(agent, {});
  await page.chat.sendMessage({ text: 'go' });
  const run = await runOf(agent);
  await run.reject(run.context.calls[0]?.callId ?? '');
  await run.settled();
  await page.decide(page.open()[0], true);
  expect(page.errors).toEqual([]);
  expect(chunks).toContainEqual(
    expect.objectContaining({
      type: 'tool-approval-response',
      needs: expect.stringMatching(/AI SDK 7.*aiSdk: 6/),
    }),
  );
});
