import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { anthropic } from '../../../adapters/anthropic.ts';
import { replayFetch } from '../../../adapters/conformance.ts';
import { deepseek } from '../../../adapters/deepseek.ts';
import { gemini } from '../../../adapters/gemini.ts';
import { mistral } from '../../../adapters/mistral.ts';
import { ollama } from '../../../adapters/ollama.ts';
import { openaiChat } from '../../../adapters/openai-chat.ts';
import { openaiResponses } from '../../../adapters/openai-responses.ts';
import { openrouter } from '../../../adapters/openrouter.ts';
import { endOfLastTurn, providerInputOf } from '../../../adapters/responses/input.ts';
import { inputAfter } from '../../../adapters/responses/request.ts';
import { GrowingInput } from '../../../adapters/turn/growing-input.ts';
import { objectsOf } from '../../../adapters/turn/json-access.ts';
import type { ModelAdapter } from '../../../protocol/adapter.ts';
import type { Item } from '../../../protocol/item.ts';
import type { JsonObject } from '../../../protocol/json.ts';
import { userMessage } from '../../../protocol/message.ts';
import { calling, request, result } from '../../support/adapters/requests.ts';
import { randomCases } from '../../support/sample.ts';

const RUNS = randomCases(30);

type Open = (options: {
  model: string;
  apiKey: string;
  baseURL: string;
  fetch: typeof fetch;
}) => ModelAdapter;

const DIALECTS: Record<string, Open> = {
  openaiChat,
  openrouter,
  mistral,
  deepseek,
  'deepseek responses': options => deepseek({ ...options, api: 'responses' }),
  openaiResponses,
  anthropic,
  gemini,
  'gemini interactions': options => gemini({ ...options, api: 'interactions' }),
  ollama,
  'openaiResponses without storage': options => openaiResponses({ ...options, store: false }),
};

/** A way to extend a transcript; `fresh` is a number that was not used before. */
type Step = (transcript: readonly Item[], fresh: number) => readonly Item[];

const spoken = (text: string, opaque?: { provider: string; data: JsonObject }): Item => ({
  type: 'message',
  role: 'assistant',
  content: [{ type: 'text', text }],
  ...(opaque && { opaque }),
});

/** A turn with the opaque data of every kind of dialect, so that one transcript serves all. */
function turn(provider: string, id: string, count: number, withReasoning: boolean): Item[] {
  const calls = Array.from({ length: count }, (_, at) => `${id}-${at}`);
  const reasoning = `rs-${id}`;
  const after = withReasoning ? { after: reasoning } : {};
  return [
    ...(withReasoning
      ? [
          {
            type: 'reasoning' as const,
            text: 'hm',
            opaque: {
              provider,
              data: {
                item: { type: 'reasoning', id: reasoning, encrypted_content: 'e' },
                before: `fc-${calls[0]}`,
                member: 'reasoning_content',
                block: { type: 'thinking', thinking: 'hm', signature: 's' },
                spans: [{ text: 'hm', thoughtSignature: 's' }],
                step: { type: 'thought', signature: 's', summary: [{ type: 'text', text: 'hm' }] },
              },
            },
          },
        ]
      : []),
    ...calls.map((callId, at) => ({
      type: 'tool_call' as const,
      callId,
      name: 'look_up',
      arguments: '{"a":1}',
      opaque: { provider, data: { id: `fc-${callId}`, ...(at === 0 ? after : {}) } },
    })),
    ...calls.map(callId => result(callId, 'ok')),
  ];
}

const system = (text: string): Item => ({
  type: 'message',
  role: 'developer',
  content: [{ type: 'text', text }],
});

const picture: Item = {
  type: 'message',
  role: 'user',
  content: [{ type: 'image', url: 'data:image/png;base64,AA==' }],
};

/** Provider-run calls: a call, and a result that may belong to an earlier call. */
const ran = (provider: string, use: number, of: number): Item[] =>
  [
    { type: 'server_tool_use', id: `st${use}` },
    { type: 'server_tool_result', tool_use_id: `st${of}` },
  ].map(block => ({
    type: 'provider_item',
    kind: block.type,
    opaque: { provider, data: { block, item: block, part: block, step: block } },
  }));

const called = (callId: string): Item => ({ type: 'tool_call', callId, name: 'a', arguments: '' });

/** Weighted steps; `n` is any number. */
function stepsOf(provider: string): [weight: number, step: (n: number) => Step][] {
  return [
    [
      6,
      n => (all, fresh) => [...all, ...turn(n % 3 ? provider : 'other', `c${fresh}`, 1 + (n % 3), n % 2 > 0)],
    ],
    [2, () => all => [...all, userMessage('go on')]],
    [1, () => all => [...all, spoken('so far')]],
    [
      1,
      n => (all, fresh) => {
        const data = { id: `msg-${fresh}`, after: n % 2 ? `rs-b${n % 30}` : `rs-c${n % 12}` };
        return [...all, spoken('thought', { provider, data }), userMessage('go on')];
      },
    ],
    // A retry, or another model: the same transcript again.
    [1, () => all => all],
    // A trim, a removed end, an edit in the middle, a fork.
    [1, n => all => all.slice(n % 9)],
    [1, n => all => all.slice(0, all.length - (n % 4))],
    [1, n => all => all.toSpliced(n % (all.length || 1), 1)],
    [1, n => all => all.toSpliced(n, 0, userMessage('edited'))],
    [1, n => all => all.slice(0, n)],
    // The journal read again, as by another process.
    [1, () => all => structuredClone(all)],
    [1, n => all => [...all, ...all.slice(-(n % 6) - 1)]],
    [1, n => all => [...all, result(`c${n % 12}-0`, 'late')]],
    [1, n => (all, fresh) => [...all, called(`${n % 2 ? 'l'.repeat(70) : 'o'}${fresh}`), userMessage('no')]],
    // Ids that a provider does not accept, and the ids that they may be replaced by.
    [1, n => all => [...all, called(['x y', 'x_', 'x', 'x__'][n % 4] ?? ''), result('x', 'ok')]],
    [1, n => all => [...all, ...(n % 2 ? [spoken('one')] : []), system('mind the gap')]],
    [1, n => all => [...all, n % 2 ? userMessage('') : picture]],
    [1, n => all => [...all, ...ran(provider, n % 5, n % 7), ...(n % 2 ? [userMessage('and?')] : [])]],
    [
      1,
      n => (all, fresh) => [
        ...all,
        ...turn(provider, `c${fresh}`, 2, true).flatMap(item =>
          item.type === 'tool_result' && n % 2 ? [spoken('wait'), item] : [item],
        ),
      ],
    ],
    [
      1,
      () => (all, fresh) => [
        ...all,
        { type: 'approval_request', callId: `c${fresh - 1}-0`, name: 'a', arguments: '' },
      ],
    ],
  ];
}

function steps(provider: string): fc.Arbitrary<Step> {
  const weighed = stepsOf(provider).map(([weight, step]) => ({ weight, arbitrary: fc.nat(200).map(step) }));
  return fc.oneof(...weighed);
}

describe.each(Object.entries(DIALECTS))('%s', (_name, open) => {
  function opened() {
    const bodies: string[] = [];
    const fetch: typeof globalThis.fetch = async (_input, init) => {
      bodies.push(String(init?.body));
      return new Response('{}', { status: 500 });
    };
    const adapter = open({ model: 'gpt-4.1', apiKey: 'k', baseURL: 'http://provider.invalid', fetch });
    return {
      adapter,
      async send(transcript: readonly Item[]): Promise<string | undefined> {
        const modelRequest = request(transcript, { instructions: 'Be "brief".' });
        bodies.length = 0;
        await adapter.generate(modelRequest, calling()).catch(() => undefined);
        return bodies[0];
      },
    };
  }

  test('a growing transcript has exactly the body that a new adapter makes, whatever was sent before', async () => {
    const { provider } = opened().adapter;
    const begun = Array.from({ length: 30 }, (_, n) => turn(provider, `b${n}`, 1, n % 3 === 0));
    const histories = fc.array(steps(provider), { minLength: 3, maxLength: 14 });
    await fc.assert(
      fc.asyncProperty(fc.nat(30), histories, async (turns, history) => {
        const kept = opened();
        let transcript: readonly Item[] = [userMessage('hi'), ...begun.slice(0, turns).flat()];
        await kept.send(transcript);
        for (const [fresh, step] of history.entries()) {
          transcript = step(transcript, fresh);
          expect(await kept.send(transcript)).toEqual(await opened().send(transcript));
        }
      }),
      { numRuns: RUNS },
    );
  });
});

test('the input after a stored turn is the same as the end of the whole input', () => {
  const dialect = { provider: 'openai-responses', stored: true, callsTogether: false };
  const begun = Array.from({ length: 4 }, (_, n) => turn(dialect.provider, `b${n}`, 2, n % 2 === 0));
  const histories = fc.array(steps(dialect.provider), { minLength: 1, maxLength: 8 });
  fc.assert(
    fc.property(histories, history => {
      let transcript: readonly Item[] = [userMessage('hi'), ...begun.flat()];
      for (const [fresh, step] of history.entries()) {
        transcript = step(transcript, fresh);
        const from = endOfLastTurn(transcript);
        if (from === undefined) continue;
        const options = { ...dialect, from };
        expect(inputAfter(transcript, options)).toEqual(providerInputOf(transcript, options));
      }
    }),
    { numRuns: RUNS * 20 },
  );
});

test('a call whose id equals the replacement id of an earlier call changes the replacement', async () => {
  const long = 'l'.repeat(70);
  const made = `call_${createHash('sha256').update(long).digest('hex').slice(0, 32)}`;
  const call = (callId: string): Item[] => [
    { type: 'tool_call', callId, name: 'a', arguments: '{}' },
    result(callId, 'ok'),
  ];
  const begun = [...Array.from({ length: 70 }, () => userMessage('hi')), ...call(long)];
  const { fetch, requests } = replayFetch({ status: 500, chunks: ['{}'] });
  const adapter = openaiResponses({ model: 'm', apiKey: 'k', baseURL: 'http://provider.invalid', fetch });
  for (const transcript of [begun, [...begun, ...call(made)]]) {
    await adapter.generate(request(transcript), calling()).catch(() => undefined);
  }
  const ids = objectsOf(requests[1]?.body.input).flatMap(item =>
    item.type === 'function_call' ? item.call_id : [],
  );
  expect(ids).toEqual([expect.not.stringContaining(made), made]);
});

test('input that was sent is not converted again', () => {
  const made: number[] = [];
  const growing = new GrowingInput({
    make(items) {
      made.push(items.length);
      return { opening: [], input: items.map(({ type }) => ({ type })) };
    },
    namesOf: item => ('callId' in item ? [item.callId] : []),
  });
  let transcript: Item[] = [userMessage('hi'), ...Array.from({ length: 100 }, () => userMessage('more'))];
  for (let turns = 0; turns < 3; turns += 1) {
    transcript = [...transcript, ...turn('p', `t${turns}`, 1, false)];
    expect(growing.of(transcript).input).toHaveLength(transcript.length);
  }
  expect(made).toEqual([103, 2, 2]);
});
