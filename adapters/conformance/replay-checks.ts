import assert from 'node:assert/strict';
import type { Item, Part } from '../../protocol/item.ts';
import type { JsonObject } from '../../protocol/json.ts';
import type { ModelTurn } from '../../protocol/turn.ts';
import { play, requestOf, send } from './call.ts';
import type { AdapterCheck, AdapterUnderTest, Exchange } from './check.ts';

/** What the next request must contain of a turn, and what it must not contain. */
export function replayChecks(subject: AdapterUnderTest): AdapterCheck[] {
  const good = subject.exchanges.filter(({ fails }) => fails === undefined);
  return [
    ...good.flatMap(exchange => [
      comesBackUnchanged(subject, exchange),
      omitsForeignData(subject, exchange),
      omitsControlItems(subject, exchange),
    ]),
    ...good.slice(0, 1).map(exchange => sendsMediaOfResults(subject, exchange)),
  ];
}

function comesBackUnchanged(subject: AdapterUnderTest, exchange: Exchange): AdapterCheck {
  return {
    name: `${exchange.name}: is sent back unchanged in the next request, also after a JSON round trip`,
    async run() {
      const { turn } = await play(subject, exchange);
      const body = await nextBody(subject, exchange, followUp(turn));
      const stored: Item[] = JSON.parse(JSON.stringify(followUp(turn)));
      assert.deepEqual(await nextBody(subject, exchange, stored), body);
      const texts = textsOf(body);
      for (const opaque of exchange.comesBack ?? []) {
        assert.ok(
          texts.some(text => text.includes(opaque)),
          `the next request must contain: ${opaque}`,
        );
      }
      for (const [index, call] of turn.toolCalls.entries()) {
        if (call.executedBy === 'provider') continue;
        assert.ok(
          texts.some(text => text.includes(call.name)),
          `the next request must contain the call of ${call.name}`,
        );
        assert.ok(
          texts.some(text => text.includes(outputOf(index))),
          `the next request must contain the result of ${call.name}`,
        );
      }
    },
  };
}

function omitsForeignData(subject: AdapterUnderTest, exchange: Exchange): AdapterCheck {
  return {
    name: `${exchange.name}: is sent to another provider without its opaque data`,
    async run() {
      const { turn } = await play(subject, exchange);
      const foreign = followUp(turn).map(item =>
        'opaque' in item && item.opaque
          ? { ...item, opaque: { ...item.opaque, provider: 'another-provider' } }
          : item,
      );
      const texts = textsOf(await nextBody(subject, exchange, foreign));
      for (const opaque of exchange.comesBack ?? []) {
        assert.ok(!texts.some(text => text.includes(opaque)), `another provider must not receive: ${opaque}`);
      }
    },
  };
}

function omitsControlItems(subject: AdapterUnderTest, exchange: Exchange): AdapterCheck {
  const control: Item[] = [
    { type: 'approval_request', callId: 'x', name: 'secret', arguments: '{}' },
    { type: 'approval_response', callId: 'x', approve: true },
    { type: 'tool_list', label: 'secret', tools: [] },
  ];
  return {
    name: `${exchange.name}: control items do not change the next request`,
    async run() {
      const items = followUp((await play(subject, exchange)).turn);
      const mixed = [...control, ...items.flatMap(item => [item, ...control])];
      assert.deepEqual(await nextBody(subject, exchange, mixed), await nextBody(subject, exchange, items));
    },
  };
}

/** Base64 that occurs nowhere else. */
const PICTURE = 'Y29uZm9ybWFuY2UtcGljdHVyZQ==';
const SOUND = 'Y29uZm9ybWFuY2Utc291bmQ=';

/** Base64 inside a text costs tokens, and the model cannot read it. */
function sendsMediaOfResults(subject: AdapterUnderTest, exchange: Exchange): AdapterCheck {
  return {
    name: "sends images and files of tool results in the provider's form, or a note in their place",
    async run() {
      const parts: Part[] = [
        { type: 'text', text: 'caption-of-the-picture' },
        { type: 'image', url: `data:image/png;base64,${PICTURE}` },
        { type: 'file', url: `data:audio/wav;base64,${SOUND}`, name: 'sound.wav' },
      ];
      const texts = textsOf(
        await nextBody(subject, exchange, [
          { type: 'tool_call', callId: 'call_media', name: 'look', arguments: '{}' },
          { type: 'tool_result', callId: 'call_media', output: { type: 'content', parts }, isError: false },
          { type: 'message', role: 'user', content: [{ type: 'text', text: 'go on' }] },
        ]),
      );
      assert.ok(
        texts.some(text => text.includes('caption-of-the-picture')),
        'the next request must contain the text that the tool returned',
      );
      for (const [base64, note] of [
        [PICTURE, /image/],
        [SOUND, /sound\.wav/],
      ] as const) {
        const found = texts.filter(text => text.includes(base64));
        const isAlone = (text: string) => /^(?:data:[\w/;=.-]+,)?[\w+/]+=*$/.test(text);
        assert.ok(found.every(isAlone), 'the next request must not contain base64 within a text');
        assert.ok(
          found.length > 0 || texts.some(text => note.test(text)),
          `the next request must contain what the tool returned, or a text that matches ${note}`,
        );
      }
    },
  };
}

/** Returns the turn's items, a result for each call, and a further user message. */
function followUp(turn: ModelTurn): Item[] {
  const results = turn.toolCalls
    .filter(({ executedBy }) => executedBy !== 'provider')
    .map(
      ({ callId }, index): Item => ({
        type: 'tool_result',
        callId,
        output: outputOf(index),
        isError: false,
      }),
    );
  const more: Item = { type: 'message', role: 'user', content: [{ type: 'text', text: 'go on' }] };
  return [...turn.items, ...results, more];
}

function outputOf(index: number): string {
  return `output-${index}-of-the-call`;
}

async function nextBody(
  subject: AdapterUnderTest,
  exchange: Exchange,
  items: readonly Item[],
): Promise<JsonObject> {
  const request = requestOf(exchange);
  const requests = await send(subject, exchange, {
    ...request,
    transcript: [...request.transcript, ...items],
  });
  return requests[0]?.body ?? {};
}

/** Returns every text and every member name in a body. */
function textsOf(value: unknown): string[] {
  if (typeof value === 'string') return [value];
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([name, member]) => [name, ...textsOf(member)]);
}
