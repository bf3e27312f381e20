import type { Task } from '@a2a-js/sdk';
import { afterEach, expect, test } from 'vitest';
import { scripted } from '../../adapters/scripted.ts';
import { createAgent } from '../../agent/agent.ts';
import { instrument } from '../../fronts/otel/index.ts';
import { remoteRun } from '../../fronts/react/index.ts';
import { memory } from '../../stores/memory.ts';
import { calls, makeTool } from '../support/engine/agents.ts';
import { a2aClient, a2aServer, seen, sending } from '../support/fronts/a2a.ts';
import { AgUiDesk } from '../support/fronts/ag-ui-desk.ts';
import { ChatPage } from '../support/fronts/ai-sdk-ui/chat-page.ts';
import { recordSpans } from '../support/fronts/otel/record-spans.ts';

const closing: (() => void)[] = [];
afterEach(() => {
  for (const close of closing.splice(0)) close();
});

/** One waiting run, seen by the real clients of AI SDK UI, AG-UI, A2A and the runs API, and by a tracer. */
async function openRun() {
  const paid: string[] = [];
  const pay = makeTool('pay', { approval: true, run: async (_, { key }) => void paid.push(key) });
  const model = scripted([calls('pay'), { text: 'All is done.' }]);
  const { tracerProvider, spans } = recordSpans();
  const agent = instrument(createAgent({ name: 'payer', store: memory(), model, tools: [pay] }), {
    tracerProvider,
  });
  const page = new ChatPage(agent, { id: 'thread' });
  await page.chat.sendMessage({ text: 'Pay, please.' });
  const [record] = (await agent.store.list({ thread: 'thread' })).runs;
  const runId = record?.runId ?? '';
  const desk = await AgUiDesk.open(agent);
  const server = a2aServer([agent]);
  const remote = remoteRun(`http://127.0.0.1:4100/runs/${runId}`, { fetch: server.send });
  closing.push(
    desk.close.bind(desk),
    server.close,
    remote.subscribe(() => {}),
  );
  const agUi = desk.client('thread');
  await agUi.run();
  const task = await a2aClient(server, 'JSONRPC');
  const readTask = async () => seen((await task.getTask({ tenant: '', id: runId })) as Task);
  await expect.poll(() => remote.getSnapshot().calls.length).toBe(1);
  return { agent, runId, page, agUi, task, readTask, remote, spans, paid };
}

test.each([0, 1, 2, 3])(
  'one run, watched and decided through five projections at once, agrees with itself (%i)',
  async first => {
    const { agent, runId, page, agUi, task, readTask, remote, spans, paid } = await openRun();
    const [call] = remote.getSnapshot().calls;
    const approval = page.open()[0];
    expect({
      page: page.tools(),
      agUi: agUi.interrupts.map(({ toolCallId }) => toolCallId),
      task: (await readTask()).state,
    }).toEqual({
      page: [expect.stringContaining('pay: approval-requested')],
      agUi: [call?.callId],
      task: 'TASK_STATE_INPUT_REQUIRED',
    });

    const decisions: (() => Promise<unknown>)[] = [
      () => page.decide(approval, true),
      () => agUi.resume({ approved: false }),
      () => task.sendMessage(sending({ data: { callId: call?.callId, approved: false }, taskId: runId })),
      () => remote.approve(call ?? '', { by: 'ann' }),
    ];
    await Promise.allSettled(
      [...decisions.slice(first), ...decisions.slice(0, first)].map(decide => decide()),
    );
    const settled = await (await agent.open(runId)).settled();
    const decided = await decisionsOf(agent, runId);
    expect(decided).toHaveLength(1);
    expect(paid).toHaveLength(decided[0] === 'approve' ? 1 : 0);
    expect(settled).toMatchObject({ status: 'finished', text: 'All is done.' });

    await agUi.run();
    await expect.poll(() => remote.getSnapshot().status).toBe('finished');
    await expect
      .poll(() => spans().filter(({ name }) => name.startsWith('invoke_agent')).length)
      .toBeGreaterThan(1);
    expect({
      page: page.text,
      agUi: [agUi.texts.at(-1), agUi.state.status],
      task: await readTask(),
      remote: remote.getSnapshot().text,
      called: spans().filter(({ name }) => name === 'execute_tool pay').length,
    }).toEqual({
      page: 'All is done.',
      agUi: ['All is done.', 'finished'],
      task: { state: 'TASK_STATE_COMPLETED', answer: ['All is done.'], asked: [] },
      remote: 'All is done.',
      called: paid.length,
    });
  },
);

type Pages = Awaited<ReturnType<typeof openRun>>;

/** How a front end decides; whether it was told that someone else was faster. */
const DECIDE = {
  page: async ({ page, agent, runId }: Pages, approved: boolean) => {
    await page.decide(page.open()[0], approved);
    const [won] = await decisionsOf(agent, runId);
    expect(page.tools()).toEqual([`tool-pay: ${won === 'approve' ? 'output-available' : 'output-denied'}`]);
    expect(page.text).toBe('All is done.');
    return (won === 'approve') !== approved;
  },
  agUi: async ({ agUi }: Pages, approved: boolean) => {
    await agUi.resume({ approved });
    expect(agUi.results).toHaveLength(1);
    expect(agUi.texts).toEqual(['All is done.']);
    return agUi.of('CUSTOM').some(({ name }) => name === 'agentchart.refused');
  },
  remote: async ({ remote }: Pages, approved: boolean) => {
    const [call] = remote.getSnapshot().calls;
    const answer = await (approved ? remote.approve(call ?? '') : remote.reject(call ?? ''));
    if (!answer.accepted) expect(answer.code).toBe('already-decided');
    return !answer.accepted;
  },
};

async function decisionsOf({ store }: Pages['agent'], runId: string): Promise<string[]> {
  return (await store.read(runId)).flatMap(({ event }) =>
    event.type === 'approval.decided' ? [event.decision.type] : [],
  );
}

test.each([
  ['page', 'agUi'],
  ['agUi', 'remote'],
  ['remote', 'page'],
] as const)(
  'approvals from two front ends at once: one wins, both get the outcome (%s and %s)',
  async (one, other) => {
    const pages = await openRun();
    const told = await Promise.all([DECIDE[one](pages, true), DECIDE[other](pages, false)]);
    const decided = await decisionsOf(pages.agent, pages.runId);
    expect(decided).toHaveLength(1);
    expect(told).toEqual(decided[0] === 'approve' ? [false, true] : [true, false]);
    await (await pages.agent.open(pages.runId)).settled();
    expect(pages.paid).toHaveLength(decided[0] === 'approve' ? 1 : 0);
  },
);
