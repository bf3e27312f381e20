import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import { instrument } from '../../../fronts/otel/index.ts';
import type { RunSpan } from '../../../fronts/otel/run-span.ts';
import { memory } from '../../../stores/memory.ts';
import { sqlite } from '../../../stores/sqlite.ts';
import { mcp } from '../../../tools/mcp.ts';
import { calls } from '../../support/engine/agents.ts';
import { byId, recordSpans, tracedAfterwards, treeOf } from '../../support/fronts/otel/record-spans.ts';
import { makeTeam, RUN } from '../../support/fronts/otel/team.ts';
import { makeTemporaryFolder } from '../../support/temporary-folders.ts';

const FIXTURE = join(import.meta.dirname, '../../support/fronts/otel/killed-fixture.ts');

test('a run that was killed and continues elsewhere is one trace, with every span once', async () => {
  const folder = makeTemporaryFolder('traces');
  const child = spawn(process.execPath, ['--no-warnings', FIXTURE, folder], { stdio: 'inherit' });
  const [, signal] = await once(child, 'exit');
  expect(signal).toBe('SIGKILL');
  const lines = readFileSync(join(folder, 'spans'), 'utf8').trim().split('\n');
  const before: RunSpan[] = lines.map(line => JSON.parse(line));

  const store = sqlite(join(folder, 'runs.db'));
  const { tracerProvider, spans } = recordSpans();
  const team = instrument(
    makeTeam(store, () => 'acted'),
    { tracerProvider },
  );
  const run = await team.open(RUN);
  const waiting = await run.resume();
  if (waiting.status !== 'waiting') throw new Error(waiting.status);
  await run.approve(waiting.approvals[0] ?? '');
  expect((await run.settled()).status).toBe('finished');

  const all = [...before, ...spans()];
  expect(byId(all)).toEqual(byId(await tracedAfterwards(store, RUN)));
  expect(new Set(all.map(({ traceId }) => traceId)).size).toBe(1);
  const tree = treeOf(all);
  expect(tree.filter(name => name.startsWith('stray'))).toEqual([]);
  expect(tree.filter(name => !name.startsWith(' '))).toEqual(['invoke_agent team']);
  const interrupted = all.filter(span => span.attributes['error.type'] === 'interrupted');
  expect(interrupted.map(({ name }) => name).sort()).toEqual([
    'execute_tool act',
    'execute_tool ask',
    'invoke_agent clerk',
    'invoke_agent team',
  ]);
  await store.close();
});

test('a tool server gets the trace context of the call, and its calls are marked as such', async () => {
  const server = join(import.meta.dirname, '../../support/tools/fixture-server.ts');
  const source = mcp({ name: 'fixture', command: process.execPath, args: ['--no-warnings', server] });
  const { tracerProvider, spans } = recordSpans();
  const store = memory();
  const model = scripted({ turns: [calls('about', 'fail'), { text: 'done' }] });
  const agent = instrument(createAgent({ name: 'a', store, model, tools: [source] }), { tracerProvider });
  const run = await agent.start('go');
  const settled = await run.settled();
  await agent.close();
  if (settled.status !== 'finished') throw new Error(settled.status);
  const call = spans().find(({ name }) => name === 'execute_tool about');
  expect(call?.attributes).toMatchObject({
    'gen_ai.tool.type': 'extension',
    'mcp.method.name': 'tools/call',
    'agentchart.mcp.server': 'fixture',
  });
  const { traceparent } = JSON.parse(String(settled.results[0]?.output));
  expect(traceparent).toBe(`00-${call?.traceId}-${call?.spanId}-01`);
  const failed = spans().find(({ name }) => name === 'execute_tool fail');
  expect(failed?.attributes['error.type']).toBe('tool_error');
  expect(byId(spans())).toEqual(byId(await tracedAfterwards(store, run.id)));
});
