import { afterEach, expect, test } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { type Agent, createAgent } from '../../../agent/agent.ts';
import { memory } from '../../../stores/memory.ts';
import { calls, makeGate, makeTool } from '../../support/engine/agents.ts';
import { AgUiDesk } from '../../support/fronts/ag-ui-desk.ts';
import { until } from '../../support/server/runs-app.ts';

const desks: AgUiDesk[] = [];
afterEach(() => {
  for (const desk of desks.splice(0)) desk.close();
});

async function openDesk(...[agent, options]: Parameters<typeof AgUiDesk.open>): Promise<AgUiDesk> {
  const desk = await AgUiDesk.open(agent, options);
  desks.push(desk);
  return desk;
}

const store = memory();
let threads = 0;
const newThread = () => `thread-${++threads}`;

function payingAgent(): Agent {
  return createAgent({
    name: 'payer',
    store,
    model: scripted([calls('pay'), { text: 'Paid.' }]),
    tools: [makeTool('pay', { approval: true })],
  });
}

/** An agent whose tool waits until the gate opens. */
function waitingAgent() {
  const gate = makeGate();
  const agent = createAgent({
    name: 'slow',
    store,
    model: scripted([calls('wait'), { text: 'Done.' }]),
    tools: [makeTool('wait', { run: () => gate.promise.then(() => 'waited') })],
  });
  return { agent, open: () => gate.open() };
}

test('a client that knows only the thread gets its messages, its state and its interrupts', async () => {
  const thread = newThread();
  await (await openDesk(payingAgent())).client(thread).say('pay');
  const other = (await openDesk(payingAgent())).client(thread);
  await other.run();
  expect(other.types.slice(0, 3)).toEqual(['RUN_STARTED', 'MESSAGES_SNAPSHOT', 'STATE_SNAPSHOT']);
  expect(other.agent.messages).toMatchObject([
    { role: 'user', content: 'pay' },
    { role: 'assistant', toolCalls: [{ id: 'call_0_0', function: { name: 'pay' } }] },
  ]);
  await other.resume({ approved: true });
  expect(other.texts).toEqual(['Paid.']);
  const third = (await openDesk(payingAgent())).client(thread);
  await third.run();
  expect(third.agent.messages).toEqual(other.agent.messages);
  expect(third.state).toEqual(other.state);
});

test('of two clients that decide at once one wins, and both get the outcome', async () => {
  const thread = newThread();
  const desk = await openDesk(payingAgent());
  const [one, other] = [desk.client(thread), (await openDesk(payingAgent())).client(thread)];
  await one.say('pay');
  await other.run();
  await Promise.all([one.resume({ approved: true }), other.resume({ approved: false })]);
  expect([...one.of('CUSTOM'), ...other.of('CUSTOM')]).toMatchObject([{ name: 'agentchart.refused' }]);
  for (const client of [one, other]) expect(client.texts).toEqual(['Paid.']);
  expect(one.results).toEqual(other.results);
});

test('a thread without runs is empty', async () => {
  const client = (await openDesk(payingAgent())).client(newThread());
  await client.run();
  expect(client.types).toEqual(['RUN_STARTED', 'RUN_FINISHED']);
});

test('a closed request does not end its run, and the next one follows it', async () => {
  const { agent, open } = waitingAgent();
  const thread = newThread();
  const client = (await openDesk(agent)).client(thread);
  await client.say('go', {}, type => type === 'TOOL_CALL_END' && client.agent.abortRun()).catch(() => {});
  await client.run({}, type => type === 'STATE_SNAPSHOT' && open());
  expect(client.texts).toEqual(['Done.']);
  expect(client.results).toEqual(['waited']);
  const { runs } = await store.list({ thread });
  expect(runs.map(({ status }) => status)).toEqual(['finished']);
});

test('a run whose request was closed finishes without a reader', async () => {
  const { agent, open } = waitingAgent();
  const thread = newThread();
  const client = (await openDesk(agent)).client(thread);
  await client.say('go', {}, type => type === 'TOOL_CALL_END' && client.agent.abortRun()).catch(() => {});
  open();
  const statusOf = async () => (await store.list({ thread })).runs[0]?.status;
  await until(async () => ((await statusOf()) === 'finished' ? true : undefined));
});

test("a sub-agent's run is shown as such, and its approval is an interrupt of it", async () => {
  const researcher = createAgent({
    name: 'researcher',
    model: scripted([{ ...calls('search'), text: 'I search.' }, { text: 'Found.' }]),
    tools: [makeTool('search', { approval: true })],
  });
  const writer = createAgent({
    name: 'writer',
    store,
    model: scripted([calls(['research', { input: 'find' }]), { text: 'Told.' }]),
    tools: [researcher.asTool({ name: 'research', description: 'Finds.' })],
  });
  const client = (await openDesk(writer)).client(newThread());
  await client.say('go');
  const [started] = client.of('SUBAGENT_STARTED');
  expect(started).toMatchObject({ name: 'researcher', parentToolCallId: 'call_0_0' });
  const { subagentRunId } = started as { subagentRunId: string };
  const [interrupt] = client.interrupts;
  expect(interrupt).toMatchObject({ subagentRunId, reason: 'tool_call' });
  const [call] = client.of('TOOL_CALL_START').filter(event => event.subagentRunId === subagentRunId);
  expect(call?.toolCallId).toBe(interrupt?.toolCallId);
  expect(client.of('SUBAGENT_FINISHED')).toMatchObject([
    { subagentRunId, outcome: { type: 'suspended', interruptIds: [interrupt?.id] } },
  ]);
  await client.resume({ approved: true });
  expect(client.of('SUBAGENT_FINISHED')).toMatchObject([{ subagentRunId, outcome: { type: 'success' } }]);
  expect(client.texts).toEqual(['I search.', 'Found.', 'Told.']);
  expect(client.results).toEqual(expect.arrayContaining(['search ran', 'Found.']));
  const other = (await openDesk(writer)).client(client.agent.threadId);
  await other.run();
  expect(new Set(other.texts)).toEqual(new Set(client.texts));
});

test("a sub-agent's call that gets no run has its result", async () => {
  const researcher = createAgent({ name: 'researcher', model: scripted([{ text: 'Found.' }]) });
  const writer = createAgent({
    name: 'writer',
    store,
    limits: { turns: 1 },
    model: scripted([calls(['research', { input: 'find' }]), { text: 'Told.' }]),
    tools: [researcher.asTool({ name: 'research', description: 'Finds.' })],
  });
  const client = (await openDesk(writer)).client(newThread());
  await client.say('go');
  expect(client.error).toBeUndefined();
  expect(client.results).toEqual([expect.stringContaining('Not run: the limit turns')]);
  expect(client.texts).toEqual(['Told.']);
});

test('a caller reaches only its own threads, and its runs get its labels', async () => {
  const authorize = (request: Request) => {
    const name = request.headers.get('authorization');
    return name === null ? null : { name, role: 'operator' as const, labels: { user: name } };
  };
  const desk = await openDesk(payingAgent(), { authorize });
  const thread = newThread();
  const ann = desk.client(thread, { authorization: 'ann' });
  await ann.say('pay');
  const { runs } = await store.list({ thread });
  expect(runs[0]?.labels).toEqual({ user: 'ann' });
  const bob = desk.client(thread, { authorization: 'bob' });
  const decide = (payload: unknown) =>
    ann.interrupts.map(({ id }) => ({ interruptId: id, status: 'resolved' as const, payload }));
  await bob.run({ resume: decide({ approved: true }) });
  expect(bob.agent.messages).toEqual([]);
  await ann.run({ resume: decide({}) });
  expect(ann.interrupts).toHaveLength(1);
  expect((await fetch(desk.url, { method: 'POST', body: '{}' })).status).toBe(401);
});

test('a client, who may use /v1 alone, reads no thread', async () => {
  const authorize = () => ({ name: 'shop', role: 'client' as const, labels: {} });
  const desk = await openDesk(payingAgent(), { authorize });
  const body = { threadId: newThread(), runId: 'r', messages: [], tools: [], context: [], state: {} };
  const headers = { 'content-type': 'application/json' };
  const response = await fetch(desk.url, { method: 'POST', headers, body: JSON.stringify(body) });
  expect([response.status, await response.json()]).toMatchObject([403, { error: { code: 'forbidden' } }]);
});

test('a body that is no input of a run is refused by name', async () => {
  const desk = await openDesk(payingAgent());
  const headers = { 'content-type': 'application/json' };
  const response = await fetch(desk.url, { method: 'POST', headers, body: '{"threadId":"t"}' });
  expect(response.status).toBe(400);
  const message = expect.stringContaining('runId');
  expect(await response.json()).toMatchObject({ error: { code: 'input-invalid', message } });
  expect((await fetch(desk.url)).status).toBe(405);
});

test('a request on a long thread reads the journals of its last runs alone, and what was redacted since', async () => {
  const own = memory();
  const read: string[] = [];
  const reading = own.read.bind(own);
  own.read = async (runId, after, page) => {
    if (!after) read.push(runId);
    return await reading(runId, after, page);
  };
  const turns = Array.from({ length: 12 }, (_, index) => ({ text: `Answer ${index}.` }));
  const desk = await openDesk(createAgent({ name: 'talker', store: own, model: scripted(turns) }));
  const client = desk.client('long');
  for (let index = 0; index < 10; index += 1) await client.say(`question ${index}`);
  read.length = 0;
  await client.say('another');
  expect(new Set(read).size).toBe(2);
  expect(client.texts).toHaveLength(11);
  const first = (await own.list()).runs.find(({ continues }) => continues === undefined);
  await own.redact(first?.runId ?? '', { paths: ['/1/input/0/content/0/text'] });
  read.length = 0;
  const other = desk.client('long');
  await other.run();
  expect(new Set(read)).toContain(first?.runId);
  expect(JSON.stringify(other.agent.messages)).not.toContain('question 0');
  expect(other.texts).toEqual(client.texts);
});

test('a thread of several megabytes continues', async () => {
  const agent = createAgent({
    name: 'reader',
    store: memory(),
    model: scripted([{ text: 'Read.' }, { text: 'Read too.' }]),
  });
  const client = (await openDesk(agent)).client(newThread());
  await client.say('é'.repeat(1_000_000));
  await client.say('more');
  expect(client.texts).toEqual(['Read.', 'Read too.']);
});
