import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { replayFetch } from '../../adapters/conformance.ts';
import { deepseek } from '../../adapters/deepseek.ts';
import { GrowingInput } from '../../adapters/growing-input.ts';
import { objectsOf } from '../../adapters/json-access.ts';
import { mistral } from '../../adapters/mistral.ts';
import { openaiChat } from '../../adapters/openai-chat.ts';
import { openaiResponses } from '../../adapters/openai-responses.ts';
import { openrouter } from '../../adapters/openrouter.ts';
import type { ModelAdapter } from '../../protocol/adapter.ts';
import type { Item } from '../../protocol/item.ts';
import type { JsonObject } from '../../protocol/json.ts';
import { userMessage } from '../../protocol/message.ts';
import { calling, request, result } from './requests.ts';

const RUNS = Number(process.env.RANDOM_RUNS ?? 30);
const SEED = process.env.RANDOM_RUNS === undefined ? { seed: 7 } : {};

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
  'openaiResponses that stores nothing': options => openaiResponses({ ...options, store: false }),
};

/** A way to go on with a transcript; `fresh` is a number that was not used before. */
type Step = (transcript: readonly Item[], fresh: number) => readonly Item[];

const spoken = (text: string, opaque?: { provider: string; data: JsonObject }): Item => ({
  type: 'message',
  role: 'assistant',
  content: [{ type: 'text', text }],
  ...(opaque && { opaque }),
});

/** A turn with what each kind of dialect keeps, so that one transcript serves all. */
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

function steps(provider: string): fc.Arbitrary<Step> {
  const at = fc.nat(200);
  const made = fc.constantFrom(provider, provider, 'anthropic');
  return fc.oneof(
    {
      weight: 6,
      arbitrary: fc.tuple(made, fc.integer({ min: 1, max: 3 }), fc.boolean()).map(
        ([by, count, thinks]): Step =>
          (all, fresh) => [...all, ...turn(by, `c${fresh}`, count, thinks)],
      ),
    },
    { weight: 2, arbitrary: fc.constant<Step>(all => [...all, userMessage('go on')]) },
    { weight: 1, arbitrary: fc.constant<Step>(all => [...all, spoken('so far')]) },
    {
      weight: 1,
      arbitrary: at.map(
        (n): Step =>
          (all, fresh) => {
            const data = { id: `msg-${fresh}`, after: n % 2 ? `rs-b${n % 30}` : `rs-c${n % 12}` };
            return [...all, spoken('thought', { provider, data }), userMessage('go on')];
          },
      ),
    },
    { weight: 1, arbitrary: fc.constant<Step>(all => all) },
    {
      weight: 1,
      arbitrary: at.map(
        (from): Step =>
          all =>
            all.slice(from % 9),
      ),
    },
    {
      weight: 1,
      arbitrary: at.map(
        (end): Step =>
          all =>
            all.slice(0, all.length - (end % 4)),
      ),
    },
    {
      weight: 1,
      arbitrary: at.map(
        (out): Step =>
          all =>
            all.toSpliced(out % (all.length || 1), 1),
      ),
    },
    {
      weight: 1,
      arbitrary: at.map(
        (into): Step =>
          all =>
            all.toSpliced(into, 0, userMessage('edited')),
      ),
    },
    {
      weight: 1,
      arbitrary: at.map(
        (again): Step =>
          all => [...all, ...all.slice(-(again % 6) - 1)],
      ),
    },
    {
      weight: 1,
      arbitrary: at.map(
        (n): Step =>
          all => [...all, result(`c${n}-0`, 'late')],
      ),
    },
    {
      weight: 1,
      arbitrary: at.map(
        (n): Step =>
          (all, fresh) => [
            ...all,
            {
              type: 'tool_call',
              callId: `${n % 2 ? 'l'.repeat(70) : 'o'}${fresh}`,
              name: 'a',
              arguments: '',
            },
            userMessage('never mind'),
          ],
      ),
    },
  );
}

describe.each(Object.entries(DIALECTS))('%s', (_name, open) => {
  function opened() {
    const { fetch, requests } = replayFetch({ status: 500, chunks: ['{}'] });
    const adapter = open({ model: 'gpt-4.1', apiKey: 'k', baseURL: 'http://provider.invalid', fetch });
    return {
      adapter,
      async send(transcript: readonly Item[]): Promise<JsonObject | undefined> {
        await adapter.generate(request(transcript), calling()).catch(() => undefined);
        return requests.at(-1)?.body;
      },
    };
  }

  test('the body of a transcript that goes on is the one a new adapter makes, whatever was before', async () => {
    const { provider } = opened().adapter;
    const begun = Array.from({ length: 30 }, (_, n) => turn(provider, `b${n}`, 1, n % 3 === 0)).flat();
    await fc.assert(
      fc.asyncProperty(fc.array(steps(provider), { minLength: 3, maxLength: 14 }), async story => {
        const kept = opened();
        let transcript: readonly Item[] = [userMessage('hi'), ...begun];
        await kept.send(transcript);
        for (const [fresh, step] of story.entries()) {
          transcript = step(transcript, fresh);
          expect(await kept.send(transcript)).toEqual(await opened().send(transcript));
        }
      }),
      { ...SEED, numRuns: RUNS },
    );
  });
});

test('a call whose id is the one made for an earlier call makes the earlier call another', async () => {
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

test('what was sent is not made again', () => {
  const made: number[] = [];
  const growing = new GrowingInput({
    make(items) {
      made.push(items.length);
      return items.map(({ type }) => ({ type }));
    },
    namesOf: item => ('callId' in item ? [item.callId] : []),
  });
  let transcript: Item[] = [userMessage('hi'), ...Array.from({ length: 100 }, () => userMessage('more'))];
  for (let turns = 0; turns < 3; turns += 1) {
    transcript = [...transcript, ...turn('p', `t${turns}`, 1, false)];
    expect(growing.of(transcript)).toHaveLength(transcript.length);
  }
  expect(made).toEqual([103, 2, 2]);
});
