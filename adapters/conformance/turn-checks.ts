import assert from 'node:assert/strict';
import { ShownDeltas } from '../turn/turn-deltas.ts';
import { answerOf, call, NOWHERE, play, requestOf, send, WIDE } from './call.ts';
import type { AdapterCheck, AdapterUnderTest, Exchange } from './check.ts';
import { replayFetch } from './replay-fetch.ts';

/** Requirements for the turn of every exchange. */
export function turnChecks(subject: AdapterUnderTest): AdapterCheck[] {
  const good = subject.exchanges.filter(({ fails }) => fails === undefined);
  return good.flatMap(exchange => [
    ...(exchange.expect === undefined ? [] : [givesWhatIsExpected(subject, exchange)]),
    ...(exchange.streamed ? [deltasAddUp(subject, exchange)] : []),
    ...(exchange.sameTurnAs === undefined ? [] : [sameTurn(subject, exchange)]),
    isPlainJson(subject, exchange),
    callIdsHold(subject, exchange),
    asksOnce(subject, exchange),
  ]);
}

function givesWhatIsExpected(subject: AdapterUnderTest, exchange: Exchange): AdapterCheck {
  return {
    name: `${exchange.name}: gives the expected turn`,
    async run() {
      const { turn } = await play(subject, exchange);
      const expected = exchange.expect ?? {};
      const found = Object.fromEntries(
        Object.keys(expected).map(name => [name, turn[name as keyof typeof turn]]),
      );
      assert.deepEqual(found, expected);
    },
  };
}

function deltasAddUp(subject: AdapterUnderTest, exchange: Exchange): AdapterCheck {
  return {
    name: `${exchange.name}: ends with one turn, which its deltas add up to`,
    async run() {
      const { turn, deltas } = await play(subject, exchange);
      assert.ok(
        deltas.every(delta => delta.type !== 'turn'),
        'the stream contained more than one turn',
      );
      const shown = new ShownDeltas();
      for (const delta of deltas) shown.record(delta);
      assert.deepEqual(
        { text: shown.text, reasoning: shown.reasoning, calls: shown.calls },
        {
          text: turn.text,
          reasoning: turn.reasoning,
          calls: turn.toolCalls.map(({ name, arguments: text }) => ({ name, arguments: text })),
        },
      );
    },
  };
}

function sameTurn(subject: AdapterUnderTest, exchange: Exchange): AdapterCheck {
  const other = subject.exchanges.find(({ name }) => name === exchange.sameTurnAs);
  if (other === undefined)
    throw new RangeError(`sameTurnAs names an unknown exchange: "${exchange.sameTurnAs}".`);
  return {
    name: `${exchange.name}: gives the same turn as ${other.name}`,
    async run() {
      assert.deepEqual((await play(subject, exchange)).turn, (await play(subject, other)).turn);
    },
  };
}

function isPlainJson(subject: AdapterUnderTest, exchange: Exchange): AdapterCheck {
  return {
    name: `${exchange.name}: gives a turn of plain JSON whose items include its text and calls`,
    async run() {
      const { turn } = await play(subject, exchange);
      assert.deepEqual(JSON.parse(JSON.stringify(turn)), turn);
      const text = turn.items.flatMap(item =>
        item.type === 'message' ? item.content.flatMap(part => (part.type === 'text' ? part.text : [])) : [],
      );
      assert.equal(text.join(''), turn.text);
      const calls = turn.items.flatMap(item => (item.type === 'tool_call' ? item.callId : []));
      const asked = turn.toolCalls.filter(({ executedBy }) => executedBy !== 'provider');
      assert.deepEqual(
        calls,
        asked.map(({ callId }) => callId),
      );
    },
  };
}

function callIdsHold(subject: AdapterUnderTest, exchange: Exchange): AdapterCheck {
  return {
    name: `${exchange.name}: gives each call its own id, and the same one when requested again`,
    async run() {
      const ids = (await play(subject, exchange)).turn.toolCalls.map(({ callId }) => callId);
      assert.equal(new Set(ids).size, ids.length, `these ids are not unique: ${ids.join(', ')}`);
      assert.ok(!ids.includes(''), 'a call has an empty id');
      const again = (await play(subject, exchange)).turn.toolCalls.map(({ callId }) => callId);
      assert.deepEqual(again, ids);
    },
  };
}

function asksOnce(subject: AdapterUnderTest, exchange: Exchange): AdapterCheck {
  return {
    name: `${exchange.name}: sends one request, and the same one when requested again`,
    async run() {
      const first = await send(subject, exchange, requestOf(exchange));
      assert.equal(first.length, 1);
      const { fetch, requests } = replayFetch(answerOf(exchange));
      const adapter = subject.open({ ...WIDE, baseURL: NOWHERE, fetch });
      await call(adapter, exchange);
      await call(adapter, exchange);
      assert.deepEqual(
        requests.map(({ body }) => body),
        [first[0]?.body, first[0]?.body],
      );
    },
  };
}
