import { expect, test } from 'vitest';
import { memory } from '../../../stores/memory.ts';
import { watchStore } from '../../support/engine/watched-store.ts';
import { DONE, makeApp, REFUND, type TestApp, until } from '../../support/server/runs-app.ts';

/** An app whose store records its calls and how many entries it returned. */
function makeWatched(inner = memory()): TestApp & { asked: string[]; read: () => number } {
  const asked: string[] = [];
  let entries = 0;
  const watched = watchStore(inner, { before: method => void asked.push(method) });
  watched.read = async (runId, after, page) => {
    const given = await inner.read(runId, after, page);
    asked.push('read');
    entries += given.length;
    return given;
  };
  watched.get = async runId => {
    asked.push('get');
    return await inner.get(runId);
  };
  return { ...makeApp({ turns: [REFUND, DONE], store: watched }), asked, read: () => entries };
}

/** A resting run that no process holds. `first` began it. */
async function restOne(desk: ReturnType<typeof makeWatched>, first: TestApp = desk) {
  const { runId, seq } = await first.begin();
  await until(() => (first.app.countHeld() === 0 ? true : undefined));
  const before = desk.read();
  desk.asked.length = 0;
  return { runId, seq, countRead: () => desk.read() - before };
}

const approval = { callId: 'call_0_0', by: 'ada' };

test('a decision reads the journal once before it is durable, and folds it once overall', async () => {
  const inner = memory();
  const desk = makeWatched(inner);
  const { runId, seq, countRead } = await restOne(desk, makeWatched(inner));
  let readBefore = 0;
  const append = desk.store.append;
  desk.store.append = async (...args) => {
    readBefore ||= countRead();
    return await append(...args);
  };
  const response = await desk.send('POST', `/runs/${runId}/approve`, approval);
  expect(response.status).toBe(200);
  const asked = desk.asked.slice(0, desk.asked.indexOf('append'));
  expect(asked).toEqual(['get', 'get', 'loadSnapshot', 'read']);
  expect(readBefore).toBe(seq);
  expect(desk.asked.filter(method => method === 'loadSnapshot').length).toBe(1);
  expect((await desk.rest(runId)).answer).toBe('Done.');
});

test('a decision by the process that began the run reads none of its entries before it is durable', async () => {
  const desk = makeWatched();
  const { runId } = await restOne(desk);
  expect((await desk.send('POST', `/runs/${runId}/approve`, approval)).status).toBe(200);
  expect(desk.asked.slice(0, desk.asked.indexOf('append'))).toEqual(['get', 'get']);
});

test('a decision about a watched run reads nothing before it is durable', async () => {
  const desk = makeWatched();
  const { runId } = await restOne(desk);
  const reader = (await desk.send('GET', `/runs/${runId}/events`)).body?.getReader();
  await reader?.read();
  await reader?.read();
  await until(() => (desk.app.countHeld() === 1 ? true : undefined));
  desk.asked.length = 0;
  expect((await desk.send('POST', `/runs/${runId}/approve`, approval)).status).toBe(200);
  expect(desk.asked.slice(0, desk.asked.indexOf('append'))).toEqual([]);
  expect(desk.asked).not.toContain('loadSnapshot');
  await reader?.cancel();
});
