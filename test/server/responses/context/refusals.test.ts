import { describe, expect, it } from 'vitest';
import { arrayOf, objectsOf } from '../../../../adapters/turn/json-access.ts';
import type { JsonObject } from '../../../../protocol/json.ts';
import { addUp as addUpMessage, anthropicOn, streamed } from '../../../support/messages/client.ts';
import { UPSTREAMS, Upstream } from '../../../support/messages/upstream.ts';
import { addUp } from '../../../support/responses/add-up.ts';
import { endOf } from '../../../support/responses/gateway.ts';
import { gatewayOn } from '../../../support/responses/gateway-on.ts';

const WORDS = 'I cannot help with that.';

const { provider: upstream, gateway } = await gatewayOn(Upstream);

describe.each(['responses', 'chat'] as const)(
  "a provider's refusal on an upstream of the dialect %s",
  dialect => {
    const model = UPSTREAMS[dialect];
    const messages = [{ role: 'user' as const, content: 'Do harm.' }];

    it.each([
      ['alone', '', [{ type: 'refusal', refusal: WORDS }]],
      [
        'after a text',
        'Let me see.',
        [
          { type: 'output_text', text: 'Let me see.' },
          { type: 'refusal', refusal: WORDS },
        ],
      ],
    ])('is the content of a completed response, %s', async (_, text, content) => {
      upstream.play({ text, refusal: WORDS }, { text, refusal: WORDS });
      const whole = await gateway.create({ model, input: messages });
      expect(whole).toMatchObject({
        status: 'completed',
        output: [{ type: 'message', status: 'completed', content }],
      });
      expect(await gateway.get(whole.id)).toEqual(whole);
      const events = await gateway.stream({ model, input: messages });
      expect(endOf(events).output).toMatchObject([{ content }]);
      expect(addUp(events)).toEqual(endOf(events).output);
    });

    it.each([
      ['after its response', (id: string) => ({ previous_response_id: id, input: 'Why?' })],
      [
        'by its item',
        (_id: string, item: object) => ({ input: [...messages, item, { role: 'user', content: 'Why?' }] }),
      ],
    ])('goes back to the provider as a refusal, %s', async (_, next) => {
      upstream.play({ refusal: WORDS }, { text: 'Because.' });
      const first = await gateway.create({ model, input: messages });
      const [item = {}] = first.output;
      expect((await gateway.create({ model, ...next(first.id, item) })).status).toBe('completed');
      if (dialect === 'chat') expect(JSON.stringify(upstream.requests[1])).toContain(`"refusal":"${WORDS}"`);
    });

    it('is the refusal of a chat completion, whole and streamed', async () => {
      const client = gateway.client();
      upstream.play({ refusal: WORDS }, { refusal: WORDS });
      const { choices } = await client.chat.completions.create({ model, messages });
      expect(choices).toMatchObject([
        { finish_reason: 'stop', message: { role: 'assistant', content: null, refusal: WORDS } },
      ]);
      const final = await client.chat.completions.stream({ model, messages }).finalChatCompletion();
      expect(final.choices).toMatchObject([
        { finish_reason: 'stop', message: { role: 'assistant', content: null, refusal: WORDS } },
      ]);
    });

    it('is the text of a message that ends with a refusal, whole and streamed', async () => {
      upstream.play({ refusal: WORDS }, { refusal: WORDS });
      const body = { model, max_tokens: 9, messages };
      const expected = { stop_reason: 'refusal', content: [{ type: 'text', text: WORDS }] };
      expect(await anthropicOn(gateway).messages.create(body)).toMatchObject(expected);
      expect(addUpMessage(await streamed(gateway, body))).toMatchObject(expected);
    });
  },
);

describe('refusals between texts keep their places', () => {
  const model = UPSTREAMS.responses;
  const say = (text: string) => ({ type: 'output_text', text, annotations: [] });
  const refuse = (refusal: string) => ({ type: 'refusal', refusal });
  const message = (id: string, ...content: JsonObject[]) => ({
    type: 'message',
    id,
    role: 'assistant',
    status: 'completed',
    content,
  });
  const think = { type: 'reasoning', id: 'rs_1', summary: [{ type: 'summary_text', text: 'Hm.' }] };
  const CASES: [string, JsonObject[]][] = [
    ['of messages', [message('m1', say('A')), message('m2', refuse('no')), message('m3', say('B'))]],
    ['in a message', [message('m1', say('A'), refuse('no'), say('B'))]],
    ['before a text', [message('m1', refuse('no'), say('B'))]],
    [
      'in a row',
      [message('m1', refuse('no'), refuse('never')), message('m2', refuse('not')), message('m3', say('B'))],
    ],
    ['before reasoning', [message('m1', refuse('no')), think, message('m2', say('B'))]],
    ['between two', [message('m1', say('A'), refuse('no'), say('B'), refuse('never'), say('C'))]],
  ];

  /** The words of messages and reasoning, in order. */
  const wordsOf = (items: readonly JsonObject[]) =>
    objectsOf([...items]).flatMap(item =>
      objectsOf([...arrayOf(item.content), ...arrayOf(item.summary)]).map(part => part.text ?? part.refusal),
    );

  it.each(CASES)('%s: whole, streamed, read again and sent back', async (_, output) => {
    const words = wordsOf(output).join('');
    upstream.play({ output }, { output }, { text: 'Because.' }, { text: 'Because.' });
    const whole = await gateway.create({ model, input: 'Go.' });
    expect(wordsOf(whole.output).join('')).toBe(words);
    expect(await gateway.get(whole.id)).toEqual(whole);
    const events = await gateway.stream({ model, input: 'Go.' });
    const streamed = endOf(events);
    expect(addUp(events)).toEqual(streamed.output);
    expect(await gateway.get(streamed.id)).toEqual(streamed);
    const placed = (item: JsonObject) => ({ ...item, id: String(item.id).replace(/_[^_]+_/, '_RUN_') });
    expect(streamed.output.map(placed)).toEqual(whole.output.map(placed));
    await gateway.create({ model, previous_response_id: whole.id, input: 'Why?' });
    const items = [{ role: 'user', content: 'Go.' }, ...whole.output, { role: 'user', content: 'Why?' }];
    await gateway.create({ model, input: items });
    for (const request of upstream.requests.slice(2)) {
      const sent = objectsOf(request.input).filter(({ role }) => role === 'assistant');
      const said = wordsOf(output.filter(({ type }) => type === 'message'));
      expect(wordsOf(sent).join('')).toBe(said.join(''));
    }
  });
});
