import { describe, expect, test } from 'vitest';
import type { ExploreAgent } from '../../../server/runs/explore-route.ts';
import { EventReader } from '../../support/server/event-reader.ts';
import { errorOf, makeApp } from '../../support/server/runs-app.ts';

test('an exploration tells its progress, then its report; one runs at a time, and a reader that leaves ends it', async () => {
  const { promise: go, resolve } = Promise.withResolvers<void>();
  let aborted = 0;
  const exploreAgent: ExploreAgent = async function* (agent, { maxStates, signal }) {
    signal.addEventListener('abort', () => {
      aborted += 1;
    });
    yield { type: 'progress', states: 10 };
    await go;
    yield { type: 'result', report: { agent, states: maxStates, text: '\n\nevent: x' } };
  };
  const desk = makeApp({ exploreAgent });
  const reader = new EventReader(await desk.send('GET', '/agents/desk/explore?maxStates=50'));
  await reader.until(events => events.length === 1);
  expect(reader.events).toEqual([{ event: 'progress', data: { states: 10 } }]);
  const busy = await desk.send('GET', '/agents/desk/explore');
  expect([busy.status, busy.headers.get('retry-after')]).toEqual([429, '5']);
  resolve();
  await reader.until(() => false);
  expect(reader.events.slice(1)).toEqual([
    { event: 'result', data: { report: { agent: 'desk', states: 50, text: '\n\nevent: x' } } },
  ]);
  const left = new EventReader(await desk.send('GET', '/agents/desk/explore'));
  await left.until(events => events.length === 1);
  const before = aborted;
  await left.close();
  expect(aborted).toBe(before + 1);
  const next = new EventReader(await desk.send('GET', '/agents/desk/explore'));
  expect(await next.until(() => false)).toHaveLength(2);
});

test('a HEAD request starts no exploration that others would wait for', async () => {
  const desk = makeApp({
    exploreAgent: async function* () {
      yield { type: 'result', report: {} };
    },
  });
  expect((await desk.send('HEAD', '/agents/desk/explore')).status).toBe(200);
  expect((await desk.send('GET', '/agents/desk/explore')).status).toBe(200);
});

test('a failed exploration says so without its cause, which is in the log', async () => {
  const desk = makeApp({
    // biome-ignore lint/correctness/useYield: it fails before it yields.
    exploreAgent: async function* () {
      throw new Error('secret path /home/ann');
    },
  });
  const events = await new EventReader(await desk.send('GET', '/agents/desk/explore')).until(() => false);
  expect(events).toEqual([{ event: 'failed', data: { message: expect.not.stringContaining('ann') } }]);
  expect(desk.log.join()).toContain('secret path');
});

test('unknown agents, wrong bounds and servers that do not explore are refused', async () => {
  const desk = makeApp({ exploreAgent: async function* () {} });
  const codeOf = async (path: string) => (await errorOf(await desk.send('GET', path))).code;
  expect(await codeOf('/agents/nobody/explore')).toBe('agent-unknown');
  for (const maxStates of ['0', 'x', '200001'])
    expect(await codeOf(`/agents/desk/explore?maxStates=${maxStates}`)).toBe('input-invalid');
  expect((await errorOf(await makeApp().send('GET', '/agents/desk/explore'))).code).toBe('not-found');
});

describe('the exploration of a run', () => {
  const told: unknown[] = [];
  const exploreAgent: ExploreAgent = async function* (agent, { signal: _, ...given }) {
    told.push({ agent, ...given });
    yield { type: 'result', report: { agent } };
  };

  test('starts at its last entry or at a given one, with the agent that serves it', async () => {
    const desk = makeApp({ exploreAgent });
    const { runId, seq: last } = await desk.begin();
    const explored = (query: string) => desk.send('GET', `/runs/${runId}/explore${query}`);
    const events = await new EventReader(await explored('?maxStates=9')).until(() => false);
    expect(events).toEqual([{ event: 'result', data: { report: { agent: 'desk' } } }]);
    await new EventReader(await explored('?at=2')).until(() => false);
    expect(told).toEqual([
      { agent: 'desk', maxStates: 9, run: { runId, at: last } },
      { agent: 'desk', maxStates: 40_000, run: { runId, at: 2 } },
    ]);
    for (const query of ['?at=0', '?at=x', `?at=${last + 1}`, '?maxStates=0', '?to=1'])
      expect((await errorOf(await explored(query))).code).toBe('input-invalid');
    expect((await errorOf(await desk.send('GET', '/runs/run_none/explore'))).code).toBe('run-unknown');
  });
});
