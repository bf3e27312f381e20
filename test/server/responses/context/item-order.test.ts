import fc from 'fast-check';
import { expect, it } from 'vitest';
import { objectsOf } from '../../../../adapters/turn/json-access.ts';
import type { JsonObject } from '../../../../protocol/json.ts';
import { UPSTREAMS, Upstream } from '../../../support/messages/upstream.ts';
import { addUp } from '../../../support/responses/add-up.ts';
import { endOf } from '../../../support/responses/gateway.ts';
import { gatewayOn } from '../../../support/responses/gateway-on.ts';
import { randomCases } from '../../../support/sample.ts';

const { provider: upstream, gateway } = await gatewayOn(Upstream);

const ENCRYPTED = ['reasoning.encrypted_content'];

/** An item as OpenAI sends it; `place` makes its words unique. */
function itemOf(kind: string, place: number): JsonObject {
  if (kind.endsWith('thought') || kind === 'sealed')
    return {
      type: 'reasoning',
      id: `rs_${place}`,
      summary: kind === 'sealed' ? [] : [{ type: 'summary_text', text: `thought ${place}. ` }],
      ...(kind !== 'thought' && { encrypted_content: btoa(`seal ${place}`) }),
    };
  const content = [
    ...(kind.startsWith('text') ? [{ type: 'output_text', text: `text ${place}. `, annotations: [] }] : []),
    ...(kind.endsWith('refusal') ? [{ type: 'refusal', refusal: `refusal ${place}. ` }] : []),
  ];
  return { type: 'message', id: `m_${place}`, role: 'assistant', status: 'completed', content };
}

/** A block as Anthropic sends it. */
function blockOf(kind: string, place: number): JsonObject {
  if (kind === 'redacted') return { type: 'redacted_thinking', data: btoa(`seal ${place}`) };
  if (kind === 'text') return { type: 'text', text: `text ${place}. ` };
  const thinking = kind === 'signed' ? '' : `thought ${place}. `;
  return { type: 'thinking', thinking, signature: btoa(`seal ${place}`) };
}

const SUBJECTS = [
  {
    model: UPSTREAMS.responses,
    kinds: ['thought', 'sealed thought', 'sealed', 'text', 'refusal', 'text and refusal'],
    known: ['sealed text', 'text sealed text', 'refusal sealed refusal text', 'sealed refusal text'],
    play(kinds: readonly string[]) {
      const output = kinds.map(itemOf);
      upstream.play({ output }, { output });
    },
  },
  {
    model: UPSTREAMS.anthropic,
    kinds: ['thought', 'signed', 'redacted', 'text'],
    known: ['signed text', 'text redacted text'],
    play: (kinds: readonly string[]) => upstream.playBlocks(kinds.map(blockOf)),
  },
];

/** The items without what differs between responses of equal turns. */
function plain(output: readonly JsonObject[]): JsonObject[] {
  return output.map(item => ({ ...item, id: String(item.id).replace(/_[^_]+_/, '_RUN_') }));
}

it.each(SUBJECTS)(
  'reasoning, texts and refusals of $model have one order, streamed, read again and whole, however they follow each other',
  async ({ model, kinds, known, play }) => {
    const examples = known.map((words): [string[], string[]] => [words.split(' '), ENCRYPTED]);
    const arrangements = fc.array(fc.constantFrom(...kinds), { minLength: 1, maxLength: 5 });
    await fc.assert(
      fc.asyncProperty(arrangements, fc.constantFrom([], ENCRYPTED), async (arranged, include) => {
        play(arranged);
        const body = { model, input: 'Go.', include };
        const whole = await gateway.create(body);
        const events = await gateway.stream(body);
        const streamed = endOf(events);
        expect(addUp(events)).toEqual(streamed.output);
        expect(await gateway.get(streamed.id)).toEqual(streamed);
        expect(await gateway.get(whole.id)).toEqual(whole);
        expect(plain(streamed.output)).toEqual(plain(whole.output));
      }),
      { examples, numRuns: randomCases(15) },
    );
  },
);

it('encrypted reasoning without text goes back to the provider with the items of a stream', async () => {
  const output = ['sealed', 'text'].map(itemOf);
  upstream.play({ output }, { text: 'Because.' });
  const body = { model: UPSTREAMS.responses, include: ENCRYPTED };
  const streamed = endOf(await gateway.stream({ ...body, input: 'Go.' }));
  const input = [{ role: 'user', content: 'Go.' }, ...streamed.output, { role: 'user', content: 'Why?' }];
  await gateway.create({ ...body, input });
  const sent = objectsOf(upstream.requests[1]?.input).map(item => item.encrypted_content ?? item.role);
  expect(sent).toEqual(['user', btoa('seal 0'), 'assistant', 'user']);
});
