import { expect, test } from 'vitest';
import { type Host, systemHost } from '../../../engine/host/host.ts';
import type { InboxItem, RunSummary } from '../../../protocol/run-view.ts';
import type { Store } from '../../../protocol/store.ts';
import { memory } from '../../../stores/memory.ts';
import { EventReader } from '../../support/server/event-reader.ts';
import {
  DONE,
  errorOf,
  makeApp,
  REFUND,
  type SentEvent,
  type TestApp,
  until,
} from '../../support/server/runs-app.ts';

/** Polls every 10 ms instead of after a second. */
const host: Host = {
  ...systemHost,
  setTimer: (ms, wake, options) => systemHost.setTimer(Math.min(ms, 10), wake, options),
};

const open = async (desk: TestApp, query: string, headers = {}) =>
  new EventReader(await desk.send('GET', `/events${query}`, undefined, headers));

test('one stream has the journals of several runs, each entry with its run, until all have ended', async () => {
  const desk = makeApp({ turns: [DONE] });
  const [one, other] = [await desk.begin(), await desk.begin()];
  const reader = await open(desk, `?run=${one.runId}&run=${other.runId}:${other.seq - 1}`);
  const events = await reader.until(() => false);
  const seqs = (runId: string) =>
    events.flatMap(({ event, data }) => (event === 'journal' && data.runId === runId ? [data.seq] : []));
  expect(seqs(one.runId)).toEqual(Array.from({ length: one.seq }, (_, index) => index + 1));
  expect(seqs(other.runId)).toEqual([other.seq]);
  expect(
    events
      .filter(({ event }) => event === 'end')
      .map(({ data }) => data.runId)
      .sort(),
  ).toEqual([one.runId, other.runId].sort());
  expect(desk.app.countHeld()).toBe(0);
});

test('the id of an entry resumes every run of the stream', async () => {
  const desk = makeApp({ turns: [DONE] });
  const [one, other] = [await desk.begin(), await desk.begin()];
  const query = `?run=${one.runId}&run=${other.runId}`;
  const events = await (await open(desk, query)).until(() => false);
  const last = events.findLast(({ id }) => id !== undefined)?.id ?? '';
  const again = await (await open(desk, query, { 'last-event-id': last })).until(() => false);
  expect(again.map(({ event }) => event).sort()).toEqual(['end', 'end']);
  const bad = await desk.send('GET', `/events${query}`, undefined, { 'last-event-id': '%E0:1' });
  expect(bad.status).toBe(400);
});

test('a run that is not there is named, and does not end the stream of the others', async () => {
  const desk = makeApp();
  const { runId, seq } = await desk.begin();
  const reader = await open(desk, `?run=run_none&run=${runId}:${seq - 1}`);
  const events = await reader.until(found => found.some(({ event }) => event === 'journal'));
  expect(events[0]).toEqual({ event: 'gone', data: { runId: 'run_none' } });
  await reader.close();
  const many = Array.from({ length: 33 }, (_, index) => `run=run_${index}`).join('&');
  expect(await errorOf(await desk.send('GET', `/events?${many}`))).toMatchObject({ code: 'input-invalid' });
});

test.each([
  ['with a feed', memory()],
  ['without one', withoutFeed(memory())],
])('changes of the list and of the inbox arrive, from a store %s', async (_, store) => {
  const desk = makeApp({ store, host, turns: [REFUND, DONE] });
  const reader = await open(desk, '?summaries=1');
  await reader.until(events => events.some(({ event }) => event === 'ready'));
  const { runId, calls } = await desk.begin({
    input: 'go',
    title: '</script>\n\ndata: x'.replaceAll('\n', ' '),
  });
  const inboxOf = (events: readonly SentEvent[]) =>
    events.flatMap(({ event, data }) =>
      event === 'inbox' ? [data as { runId: string; items: InboxItem[] }] : [],
    );
  await reader.until(events => inboxOf(events).some(({ items }) => items.length === 1));
  expect(inboxOf(reader.events).at(-1)?.items[0]).toMatchObject({
    kind: 'approval',
    runId,
    rootId: runId,
    call: { callId: calls[0]?.callId, input: { orderId: 'A-1', cents: 4200 } },
  });
  await desk.send('POST', `/runs/${runId}/approve`, { callId: calls[0]?.callId });
  await reader.until(events => inboxOf(events).at(-1)?.items.length === 0);
  await reader.until(events =>
    events.some(({ event, data }) => event === 'summary' && (data as RunSummary).status === 'finished'),
  );
  expect((await desk.send('DELETE', `/runs/${runId}`)).status).toBe(204);
  await reader.until(events => events.some(({ event, data }) => event === 'removed' && data.runId === runId));
  await reader.close();
});

test('a stream of several resting runs has one keep-alive timer', async () => {
  let [waiting, most] = [0, 0];
  const counting: Host = {
    ...systemHost,
    setTimer(ms, wake, options) {
      if (ms !== 12) return systemHost.setTimer(ms, wake, options);
      waiting += 1;
      most = Math.max(most, waiting);
      const end = () => {
        waiting -= 1;
      };
      const cancel = systemHost.setTimer(1, () => [end(), wake()], options);
      return () => [end(), cancel()];
    },
  };
  const desk = makeApp({ host: counting, streamBounds: { keepAliveMs: 12 } });
  const runs = await Promise.all([1, 2, 3].map(() => desk.begin()));
  const { body } = await desk.send('GET', `/events?${runs.map(({ runId }) => `run=${runId}`).join('&')}`);
  let text = '';
  for await (const chunk of body?.pipeThrough(new TextDecoderStream()) ?? []) {
    text += chunk;
    if (text.includes(': here\n\n: here\n\n')) break;
  }
  expect(most).toBe(1);
});

test('many readers share one poller, and without readers nothing polls: a HEAD request is none', async () => {
  const waiting = new Set<() => void>();
  let most = 0;
  const polling: Host = {
    ...host,
    setTimer: (ms, wake, options) => {
      if (ms !== 200) return host.setTimer(ms, wake, options);
      const cancel = host.setTimer(ms, () => waiting.delete(end) && wake(), options);
      const end = () => {
        waiting.delete(end);
        cancel();
      };
      most = Math.max(most, waiting.add(end).size);
      return end;
    },
  };
  const desk = makeApp({ host: polling });
  const readers = await Promise.all(Array.from({ length: 20 }, () => open(desk, '?summaries=1')));
  for (const reader of readers) await reader.until(events => events.length > 0);
  const { runId } = await desk.begin();
  for (const reader of readers)
    await reader.until(events => events.some(({ event, data }) => event === 'inbox' && data.runId === runId));
  expect(most).toBe(1);
  expect((await desk.send('HEAD', '/events?summaries=1')).status).toBe(200);
  for (const reader of readers) await reader.close();
  await until(() => (waiting.size === 0 ? true : undefined));
});

test('a token with labels follows only what has them', async () => {
  const tokens = {
    ann: { token: 'the-token-of-ann-0000000', role: 'viewer', labels: { tenant: 'a' } },
    boss: { token: 'the-token-of-boss-000000', role: 'operator' },
  } as const;
  const as = (name: keyof typeof tokens) => ({ authorization: `Bearer ${tokens[name].token}` });
  const desk = makeApp({ tokens });
  const start = async (tenant: string) => {
    const started = await desk.send('POST', '/runs', { input: 'go', labels: { tenant } }, as('boss'));
    return ((await started.json()) as { runId: string }).runId;
  };
  const foreign = await start('b');
  const reader = await open(desk, `?summaries=1&run=${foreign}`, as('ann'));
  await reader.until(events => events.some(({ event }) => event === 'ready'));
  const [, own] = [await start('b'), await start('a')];
  await reader.until(events => events.some(({ event, data }) => event === 'inbox' && data.runId === own));
  expect(reader.events.filter(({ event }) => event === 'gone').map(({ data }) => data.runId)).toEqual([
    foreign,
  ]);
  const seen = reader.events.flatMap(({ event, data }) => (event === 'gone' ? [] : (data.runId ?? [])));
  expect(new Set(seen)).toEqual(new Set([own]));
  await reader.close();
  const inbox = async (name: keyof typeof tokens) =>
    (await (await desk.send('GET', '/inbox', undefined, as(name))).json()) as { items: InboxItem[] };
  await until(async () => ((await inbox('boss')).items.length === 3 ? true : undefined));
  expect((await inbox('ann')).items.map(({ runId }) => runId)).toEqual([own]);
});

function withoutFeed(store: Store): Store {
  return new Proxy(store, {
    get: (target, name) => {
      if (name === 'feed') return undefined;
      const value: unknown = Reflect.get(target, name);
      return typeof value === 'function' ? value.bind(target) : value;
    },
    has: (target, name) => name !== 'feed' && name in target,
  });
}
