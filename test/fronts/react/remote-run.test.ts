import { useSelector } from '@xstate/react';
import { build } from 'esbuild';
import { createElement } from 'react';
import { renderToString } from 'react-dom/server';
import { afterEach, expect, test, vi } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import { remoteRun, useRun } from '../../../fronts/react/index.ts';
import { localRun } from '../../../fronts/react/local-run.ts';
import type { ObservedRun, RunSnapshot } from '../../../fronts/react/run-snapshot.ts';
import { calls, makeTool } from '../../support/engine/agents.ts';
import { makeApp, type TestApp } from '../../support/server/runs-app.ts';

const stops: (() => void)[] = [];
afterEach(() => {
  for (const stop of stops.splice(0)) stop();
});

type Watched<Run extends ObservedRun> = {
  run: Run;
  seen: RunSnapshot[];
  until(holds: (now: RunSnapshot) => boolean): Promise<RunSnapshot>;
};

/** Subscribes, and keeps every snapshot. */
function watch<Run extends ObservedRun>(run: Run): Watched<Run> {
  const seen: RunSnapshot[] = [];
  let notice = () => {};
  const unsubscribe = run.subscribe(snapshot => {
    seen.push(snapshot);
    notice();
  });
  stops.push(unsubscribe);
  const until = (holds: (now: RunSnapshot) => boolean) =>
    new Promise<RunSnapshot>(resolve => {
      notice = () => {
        if (holds(run.getSnapshot())) resolve(run.getSnapshot());
      };
      notice();
    });
  return { run, seen, until };
}

/** `fetch` that reaches the app in this process. */
function fetchOf({ send }: TestApp, sent: Request[] = []): typeof fetch {
  return async (url, init) => {
    const request = new Request(`http://localhost${url}`, init as RequestInit);
    sent.push(request);
    const headers = Object.fromEntries(new Headers(init?.headers));
    return await send(request.method, String(url), init?.body ?? undefined, headers);
  };
}

async function watchRemote(app: TestApp) {
  const { runId } = await app.begin();
  return watch(remoteRun(`/runs/${runId}`, { fetch: fetchOf(app) }));
}

test('a remote run has state, status, context, calls and text, and takes commands', async () => {
  const { run, until, seen } = await watchRemote(makeApp());
  expect(run.getSnapshot()).toMatchObject({ status: 'connecting', state: '', calls: [], context: null });
  const waiting = await until(({ status }) => status === 'waiting');
  expect(waiting).toMatchObject({
    state: 'resting.awaitingApproval',
    calls: [{ name: 'refund', kind: 'approval' }],
  });
  const [call] = waiting.calls;
  expect(await run.approve(call ?? '', { input: { orderId: 'A-1', cents: 1 }, by: 'ann' })).toEqual({
    accepted: true,
  });
  const finished = await until(({ status }) => status === 'finished');
  expect(finished).toMatchObject({ state: 'finished', text: 'Done.', calls: [], context: { turns: 2 } });
  expect(new Set(seen).size).toBe(seen.length);
});

test('refused commands resolve with the reason, and who decided', async () => {
  const app = makeApp();
  const { run, until } = await watchRemote(app);
  const { calls: open } = await until(({ status }) => status === 'waiting');
  await app.send('POST', `/runs/${run.getSnapshot().runId}/approve`, { callId: open[0]?.callId, by: 'bob' });
  expect(await run.approve(open[0] ?? '')).toMatchObject({
    accepted: false,
    code: 'already-decided',
    by: 'bob',
  });
  expect(await run.approve('nothing')).toMatchObject({ accepted: false, code: 'call-unknown' });
  expect(await run.reject({ callId: open[0]?.callId ?? '', runId: 'run_0', digest: '' })).toMatchObject({
    accepted: false,
  });
});

test('the snapshot is the same object until something changes', async () => {
  const { run, until } = await watchRemote(makeApp());
  const waiting = await until(({ status }) => status === 'waiting');
  expect(run.getSnapshot()).toBe(waiting);
  await run.approve('nothing');
  expect(run.getSnapshot()).toBe(waiting);
});

test('a lost story is asked for again after the last entry', async () => {
  const app = makeApp();
  const { runId } = await app.begin();
  const sent: Request[] = [];
  const inner = fetchOf(app, sent);
  let cut = () => {};
  let arrived = '';
  const cutting: typeof fetch = async (url, init) => {
    const response = await inner(url, init);
    if (!String(url).includes('/story/') || response.body === null) return response;
    const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>({
      transform(chunk, controller) {
        controller.enqueue(chunk);
        arrived += new TextDecoder().decode(chunk);
      },
    });
    const stop = new AbortController();
    cut = () => stop.abort();
    response.body.pipeTo(writable, { signal: stop.signal }).catch(() => {});
    return new Response(readable);
  };
  const { run, until } = watch(remoteRun(`/runs/${runId}`, { fetch: cutting }));
  const streams = () =>
    sent.flatMap(({ url }) => (url.includes('/story/') ? [new URL(url).searchParams.get('after')] : []));
  await until(({ status }) => status === 'waiting');
  await expect.poll(() => arrived).toContain('"run"');
  const had = [...arrived.matchAll(/"seq":(\d+)/g)].at(-1)?.[1];
  cut();
  await expect.poll(streams).toHaveLength(2);
  await app.send('POST', `/runs/${runId}/approve`, { callId: run.getSnapshot().calls[0]?.callId });
  expect(await until(({ status }) => status === 'finished')).toMatchObject({ text: 'Done.' });
  expect(streams()[1]).toBe(had ?? streams()[0]);
  expect(Number(streams()[1])).toBeGreaterThan(0);
});

test('an unknown run is an error, and a token is sent', async () => {
  const app = makeApp();
  const sent: Request[] = [];
  const { until } = watch(remoteRun('/runs/run_0', { token: 'secret', fetch: fetchOf(app, sent) }));
  expect((await until(({ error }) => error !== undefined)).error).toMatchObject({ code: 'run-unknown' });
  expect(sent.map(({ headers }) => headers.get('authorization'))).toEqual(['Bearer secret']);
});

test('without subscribers nothing is connected', async () => {
  const app = makeApp();
  const { runId } = await app.begin();
  const sent: Request[] = [];
  const run = remoteRun(`/runs/${runId}`, { fetch: fetchOf(app, sent) });
  expect(sent).toEqual([]);
  const { until } = watch(run);
  await until(({ status }) => status === 'waiting');
  for (const stop of stops.splice(0)) stop();
  await expect
    .poll(() => sent.filter(({ signal }) => !signal.aborted).every(({ url }) => !url.includes('/story/')))
    .toBe(true);
});

test('a failed run has its error', async () => {
  const app = makeApp({ turns: [{ error: { code: 'authentication' } }] });
  const { until } = await watchRemote(app);
  expect(await until(({ status }) => status === 'failed')).toMatchObject({
    error: { message: expect.any(String) },
  });
});

test('a run of this process has the same snapshot and commands', async () => {
  const model = scripted([calls('pay'), { text: 'Paid.' }]);
  const agent = createAgent({ name: 'a', model, tools: [makeTool('pay', { approval: true })] });
  const { run, until } = watch(localRun(await agent.start('go')));
  const waiting = await until(({ calls: open }) => open.length > 0);
  expect(waiting).toMatchObject({ state: 'resting.awaitingApproval', status: 'waiting' });
  expect(await run.approve(waiting.calls[0] ?? '')).toEqual({ accepted: true });
  const finished = await until(({ status, text }) => status === 'finished' && text !== '');
  expect(finished).toMatchObject({ state: 'finished', text: 'Paid.', calls: [] });
  expect(await run.approve('call_0_0')).toMatchObject({ accepted: false });
});

test('a command that is accepted while a waiting run is described leaves no snapshot that waits', async () => {
  const model = scripted([calls('pay'), { text: 'Paid.' }]);
  const agent = createAgent({ name: 'a', model, tools: [makeTool('pay', { approval: true })] });
  const started = await agent.start('go');
  const settled = await started.settled();
  const gate = Promise.withResolvers<void>();
  vi.spyOn(started, 'settled').mockImplementationOnce(async () => {
    await gate.promise;
    return settled;
  });
  const { run, seen, until } = watch(localRun(started));
  expect(await run.approve('call_0_0')).toEqual({ accepted: true });
  gate.resolve();
  await until(({ text }) => text === 'Paid.');
  expect(seen.map(({ status }) => status)).not.toContain('waiting');
});

test('components render on a server, with useRun and with useSelector of @xstate/react', async () => {
  const remote = remoteRun('/runs/run_1');
  const Hook = () => {
    const { status, state, approve } = useRun('/runs/run_1', { token: 't' });
    return createElement('p', null, `${status} ${state} ${typeof approve}`);
  };
  const Selected = () =>
    createElement(
      'p',
      null,
      useSelector(remote, snapshot => snapshot.status),
    );
  expect(renderToString(createElement(Hook))).toBe('<p>connecting  function</p>');
  expect(renderToString(createElement(Selected))).toBe('<p>connecting</p>');
});

test('a page that imports it gets no engine, nothing of Node, and less than 12 kB', async () => {
  const { outputFiles, metafile } = await build({
    entryPoints: ['fronts/react/index.ts'],
    bundle: true,
    minify: true,
    platform: 'browser',
    format: 'esm',
    external: ['react'],
    write: false,
    metafile: true,
    logLevel: 'silent',
  });
  const rooms = Object.keys(metafile.inputs).map(file => file.split('/').slice(0, 2).join('/'));
  expect([...new Set(rooms)].sort()).toEqual(['fronts/react', 'protocol/back-off.ts']);
  expect(outputFiles[0]?.text).not.toMatch(/["'`]node:/);
  expect(outputFiles[0]?.contents.length).toBeLessThan(12_000);
});
