import { expect, test } from 'vitest';
import { systemHost } from '../../../engine/host/host.ts';
import type { RunEvent } from '../../../protocol/event.ts';
import type { RunView } from '../../../protocol/run-view.ts';
import type { Store } from '../../../protocol/store.ts';
import { memory } from '../../../stores/memory.ts';
import { watchStore } from '../../support/engine/watched-store.ts';
import { DONE, errorOf, makeApp, REFUND, type TestApp } from '../../support/server/runs-app.ts';

const HOLD = { type: 'breakpoints', breakpoints: [{ id: 'pay', tool: 'refund' }] } as const;

async function entryOf({ store }: TestApp, runId: string, type: string): Promise<number> {
  return (await store.read(runId)).find(({ event }) => event.type === type)?.seq ?? 0;
}

/** A run that waits for an approval, and the request of each operation that takes a request id. */
async function setScene(store: Store) {
  const desk = makeApp({ store });
  const { runId, calls } = await desk.begin();
  const { callId } = calls[0] ?? {};
  const at = await entryOf(desk, runId, 'turn.completed');
  const requestId = 'req-1';
  const send = { type: 'send', message: 'hello' };
  const requests: Record<string, { path: string; body: object }> = {
    start: { path: '/runs', body: { input: 'go', labels: { user: '7' }, title: 'Mine', requestId } },
    fork: {
      path: `/runs/${runId}/fork`,
      body: { at, commands: [HOLD, { type: 'approve', callId }], requestId },
    },
    command: { path: `/runs/${runId}/approve`, body: { callId, sticky: true, requestId } },
    commands: {
      path: `/runs/${runId}/commands`,
      body: [{ ...send, requestId }, HOLD, { type: 'approve', callId }],
    },
    bulk: { path: '/runs/bulk', body: { runs: [runId], command: { ...send, requestId } } },
  };
  return { desk, runId, callId, requests };
}

/** What people asked for, as the types of events in each run. */
async function askedIn(store: Store): Promise<string[]> {
  const { runs } = await store.list();
  const journals = await Promise.all(runs.map(({ runId }) => store.read(runId)));
  const asked = journals.map(entries => entries.filter(({ event }) => isAsked(event)));
  return asked.map(entries => entries.map(({ event }) => event.type).join(' ')).sort();
}

const ASKED = ['run.started', 'approval.decided', 'message.received', 'breakpoints.set', 'run.cancelled'];
const isAsked = ({ type }: RunEvent) => ASKED.includes(type);

const POINTS = ['create.before', 'create.after', 'input.before', 'append.after', 'input.after'] as const;

test.each(['start', 'fork', 'command', 'commands', 'bulk'])(
  'a request that is sent again has all that it asked for, once, wherever its first server died: %s',
  async name => {
    const whole = memory();
    const scene = await setScene(whole);
    const { path = '', body } = scene.requests[name] ?? {};
    expect((await scene.desk.send('POST', path, body)).ok).toBe(true);
    const expected = await askedIn(whole);
    let deaths = 0;
    for (const point of POINTS) {
      const store = memory();
      const { requests } = await setScene(store);
      const request = requests[name];
      let isDead = false;
      const reach = (at: string) => {
        isDead ||= at === point;
        if (isDead) throw new Error('this process is dead');
      };
      const dying = makeApp({ store, agent: { host: { ...systemHost, reach } } });
      await dying.send('POST', request?.path ?? '', request?.body);
      if (isDead) deaths += 1;
      for (const server of [makeApp({ store }), makeApp({ store })]) {
        const again = await server.send('POST', request?.path ?? '', request?.body);
        expect([point, again.ok]).toEqual([point, true]);
        expect([point, await askedIn(store)]).toEqual([point, expected]);
      }
    }
    expect(deaths).toBeGreaterThan(1);
  },
);

test('a fork that a server died over has its breakpoint when it is asked for again, and pays nothing', async () => {
  const store = memory();
  let isDead = false;
  const assertAlive = () => {
    if (isDead) throw new Error('this process is dead');
  };
  const dying = watchStore(store, {
    before: assertAlive,
    afterAppend(_, [first]) {
      isDead = first?.type === 'run.started' && first.forkOf !== undefined;
      assertAlive();
    },
  });
  const turns = [REFUND, DONE];
  const [first, second] = [makeApp({ store: dying, turns }), makeApp({ store, turns })];
  const { runId, calls } = await second.begin();
  await second.send('POST', `/runs/${runId}/approve`, { callId: calls[0]?.callId });
  await second.rest(runId);
  const at = await entryOf(second, runId, 'turn.completed');
  const commands = [HOLD, { type: 'approve', callId: calls[0]?.callId }];
  const body = { at, commands, requestId: 'fork-1' };
  expect((await first.send('POST', `/runs/${runId}/fork`, body)).status).toBe(500);
  const again = await second.send('POST', `/runs/${runId}/fork`, body);
  expect(again.status).toBe(201);
  const { runId: forkId } = (await again.json()) as RunView;
  expect((await second.rest(forkId)).next).toMatchObject({ type: 'pause', breakpoint: 'pay' });
  const started = (await store.read(forkId)).filter(({ event }) => event.type === 'tool.started');
  expect(started).toEqual([]);
  expect((await store.list()).runs).toHaveLength(2);
});

test.each<[string, (body: never) => object, string[]]>([
  ['start', (body: object) => ({ ...body, labels: { user: '8' } }), ['labels']],
  ['start', (body: object) => ({ ...body, limits: { turns: 3 }, title: 'Yours' }), ['limits', 'title']],
  ['start', ({ title: _, ...body }: { title: string }) => body, ['title']],
  ['start', (body: object) => ({ ...body, stream: false }), ['stream']],
  ['start', (body: object) => ({ ...body, input: 'stop' }), ['input']],
  ['fork', (body: object) => ({ ...body, commands: [HOLD] }), ['commands']],
  ['fork', ({ commands: _, ...body }: { commands: object }) => body, ['commands']],
  ['fork', (body: object) => ({ ...body, at: 1, paused: true }), ['at', 'paused']],
  ['command', (body: object) => ({ ...body, sticky: false }), ['sticky']],
  ['command', (body: object) => ({ ...body, by: 'ann' }), ['as', 'by']],
  ['commands', (body: object[]) => body.slice(0, 2), ['commands.2']],
  ['commands', ([first, ...rest]: object[]) => [{ ...first, message: 'bye' }, ...rest], ['commands.0']],
  [
    'bulk',
    (body: { command: object }) => ({ ...body, command: { ...body.command, message: 'x' } }),
    ['message'],
  ],
])(
  'a request id that comes with something else is refused with what differs, here and in another process: %s %#',
  async (name, change, fields) => {
    const store = memory();
    const { desk, requests } = await setScene(store);
    const { path = '', body = {} } = requests[name] ?? {};
    expect((await desk.send('POST', path, body)).ok).toBe(true);
    const before = await askedIn(store);
    for (const server of [desk, makeApp({ store })]) {
      const answer = await server.send('POST', path, change(body as never));
      if (name === 'bulk') {
        const { results } = (await answer.json()) as { results: object[] };
        expect(results).toMatchObject([{ accepted: false, code: 'request-reused' }]);
        expect(JSON.stringify(results)).toContain(`differs in ${fields.join(', ')}.`);
      } else {
        const refused = await errorOf(answer);
        expect(refused).toMatchObject({ status: 409, code: 'request-reused', details: { fields } });
        expect(refused.message).toContain(fields.join(', '));
      }
    }
    expect(await askedIn(store)).toEqual(before);
  },
);

test('a changed command after a refused one with its id is decided for itself', async () => {
  const { desk, runId, callId } = await setScene(memory());
  const path = `/runs/${runId}/commands`;
  const note = { type: 'send', message: 'hello', requestId: 'one' };
  const refused = await errorOf(await desk.send('POST', path, [note, { type: 'unpause' }]));
  expect(refused).toMatchObject({ status: 409, code: 'refused' });
  expect((await desk.send('POST', path, [note, { type: 'approve', callId }])).status).toBe(200);
});
