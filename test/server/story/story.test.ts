import type { AddressInfo } from 'node:net';
import { createAdaptorServer } from '@hono/node-server';
import { afterEach, describe, expect, test } from 'vitest';
import type { Authorize } from '../../../access/caller.ts';
import { ROLES } from '../../../access/role.ts';
import type { ScriptedTurn } from '../../../adapters/scripted/scripted-turns.ts';
import { scripted } from '../../../adapters/scripted.ts';
import { type Agent, createAgent } from '../../../agent/index.ts';
import { createStoryHandler, type StoryLine } from '../../../server/index.ts';
import { memory } from '../../../stores/memory.ts';
import { DONE, makeTools, REFUND } from '../../support/server/runs-app.ts';

const closing: (() => void)[] = [];
afterEach(() => {
  for (const close of closing.splice(0)) close();
});

function makeAgent(turns: readonly ScriptedTurn[], more: Partial<Agent['options']> = {}): Agent {
  return createAgent({ name: 'desk', model: scripted(turns), tools: makeTools(), store: memory(), ...more });
}

/** Serves stories on a port. */
async function listen(agent: Agent | readonly Agent[], authorize?: Authorize): Promise<string> {
  const handler = createStoryHandler(agent, { ...(authorize && { authorize }), log: () => {} });
  const server = createAdaptorServer({ fetch: handler });
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
  closing.push(() => {
    handler.close();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/api/story`;
}

type Sent = { body?: object; user?: string; signal?: AbortSignal };

const send = async (url: string, { body, user = 'operator', signal }: Sent = {}): Promise<Response> =>
  await fetch(url, {
    headers: { 'content-type': 'application/json', 'x-user': user },
    ...(body && { method: 'POST', body: JSON.stringify(body) }),
    ...(signal && { signal }),
  });

/** The lines of an answer, each parsed by itself. */
async function linesIn(response: Response): Promise<StoryLine[]> {
  expect(response.headers.get('content-type')).toBe('application/x-ndjson; charset=utf-8');
  const text = await response.text();
  expect(text.endsWith('\n')).toBe(true);
  return text.split('\n').flatMap(line => (line === '' ? [] : [JSON.parse(line) as StoryLine]));
}

const read = async (url: string, sent: Sent = {}) => await linesIn(await send(url, sent));

type Of<Type extends StoryLine['type']> = Extract<StoryLine, { type: Type }>;
const only = <Type extends StoryLine['type']>(lines: readonly StoryLine[], type: Type) =>
  lines.filter((line): line is Of<Type> => line.type === type);
const textIn = (lines: readonly StoryLine[]) =>
  only(lines, 'text')
    .map(({ text }) => text)
    .join('');
const idIn = (lines: readonly StoryLine[]) => only(lines, 'call.asked')[0]?.open.id ?? '';
const runIn = (lines: readonly StoryLine[]) => only(lines, 'run')[0]?.runId ?? '';

describe('a story over HTTP', () => {
  test('starts with the run, tells its text, and ends when the run has ended', async () => {
    const url = await listen(makeAgent([{ text: 'Hello there.' }]));
    const lines = await read(url, { body: { input: 'Hi.' } });
    expect(lines[0]).toEqual({ type: 'run', runId: expect.stringMatching(/^run_/), agent: 'desk' });
    expect(lines[1]).toMatchObject({ type: 'message', messages: [{ role: 'user', text: 'Hi.' }] });
    expect(textIn(lines)).toBe('Hello there.');
    expect(lines.at(-1)).toMatchObject({ type: 'settled', status: 'finished', text: 'Hello there.' });
  });

  test('asks for an approval, which is answered by its id, and tells what follows', async () => {
    const url = await listen(makeAgent([REFUND, DONE]));
    const asked = await read(url, { body: { input: 'Pay back.' } });
    const [{ open } = { open: undefined }] = only(asked, 'call.asked');
    expect(open).toMatchObject({ kind: 'approval', name: 'refund' });
    expect(asked.at(-1)).toMatchObject({ type: 'settled', status: 'waiting', open: [open] });
    const runUrl = `${url}/${runIn(asked)}`;
    const rest = await read(runUrl, { body: { answers: [{ id: open?.id, approved: true }] } });
    expect(only(rest, 'call.decided')).toMatchObject([{ callId: open?.callId, approved: true }]);
    expect(only(rest, 'call.settled')).toMatchObject([{ name: 'refund', output: { refunded: 4200 } }]);
    expect(rest.at(-1)).toMatchObject({ type: 'settled', status: 'finished', text: 'Done.' });
    const whole = await read(runUrl);
    expect(whole.slice(1).filter(l => 'seq' in l)).toEqual(
      [...asked.slice(1), ...rest.slice(1)].filter(l => 'seq' in l),
    );
  });

  test('tells the usage of each turn, and why its request did not begin with the one before it', async () => {
    const usage = {
      inputTokens: 20,
      outputTokens: 2,
      cachedInputTokens: 12,
      cacheWriteTokens: 8,
      reasoningTokens: null,
    };
    const prepareTurn: Agent['options']['prepareTurn'] = ({ turns }) =>
      turns < 1 ? {} : { tools: ['lookup'] };
    const turns = [{ ...REFUND, usage }, DONE];
    const url = await listen(makeAgent(turns, { prepareTurn }));
    const asked = await read(url, { body: { input: 'Pay back.' } });
    const answers = [{ id: idIn(asked), approved: true }];
    const rest = await read(`${url}/${runIn(asked)}`, { body: { answers } });
    expect(only(asked, 'turn.closed')).toEqual([expect.objectContaining({ usage })]);
    expect(only(asked, 'turn.closed')[0]).not.toHaveProperty('broken');
    expect(only(rest, 'turn.closed')).toMatchObject([{ broken: { by: 'tools', lost: [] } }]);
  });

  test('tells that the transcript was compacted', async () => {
    const usage = { inputTokens: 3000, outputTokens: 2 };
    const compaction = { at: 2000, summarize: () => 'They asked to be paid.' };
    const turns = [{ ...REFUND, usage: { inputTokens: 100, outputTokens: 2 } }, { ...REFUND, usage }, DONE];
    const url = await listen(makeAgent(turns, { compaction }));
    let lines = await read(url, { body: { input: 'Pay back.' } });
    const runUrl = `${url}/${runIn(lines)}`;
    for (let refund = 0; refund < 2; refund += 1)
      lines = await read(runUrl, { body: { answers: [{ id: idIn(lines), approved: true }] } });
    expect(only(lines, 'note')).toMatchObject([{ event: 'transcript.compacted' }]);
    expect(only(lines, 'turn.closed')).toMatchObject([{ broken: { by: 'compaction' } }]);
  });

  test('without authorize, an answer has no sender', async () => {
    const url = await listen(makeAgent([REFUND, DONE]));
    const asked = await read(url, { body: { input: 'Pay back.' } });
    const answers = [{ id: idIn(asked), approved: true }];
    const rest = await read(`${url}/${runIn(asked)}`, { body: { answers } });
    expect(only(rest, 'call.decided')).toEqual([expect.not.objectContaining({ by: expect.anything() })]);
  });

  test('after every line with a seq, a reader that connects again gets the rest', async () => {
    const url = await listen(makeAgent([REFUND, { ...DONE, reasoning: 'I think.' }]));
    const asked = await read(url, { body: { input: 'Pay back.' } });
    const runUrl = `${url}/${runIn(asked)}`;
    await read(runUrl, { body: { answers: [{ id: idIn(asked), approved: true }] } });
    const whole = (await read(runUrl)).slice(1);
    const places = whole.flatMap((line, place) => ('seq' in line ? [{ seq: line.seq, place }] : []));
    expect(places.length).toBeGreaterThan(5);
    for (const { seq, place } of places)
      expect((await read(`${runUrl}?after=${seq}`)).slice(1)).toEqual(whole.slice(place + 1));
  });

  test('a second decision is a 409, and among others a line that names it', async () => {
    const two = { toolCalls: [...(REFUND.toolCalls ?? []), ...(REFUND.toolCalls ?? [])] };
    const url = await listen(makeAgent([two, DONE]), ({ headers }) => ({
      name: headers.get('x-user') ?? '',
      role: 'operator',
    }));
    const asked = await read(url, { body: { input: 'Pay back.' } });
    const runUrl = `${url}/${runIn(asked)}`;
    const [one, other] = only(asked, 'call.asked').map(({ open }) => open.id);
    const first = await read(runUrl, { user: 'ann', body: { answers: [{ id: one, approved: false }] } });
    expect(first.at(-1)).toMatchObject({ type: 'settled', status: 'waiting', open: [{ id: other }] });
    const second = await send(runUrl, { user: 'bob', body: { answers: [{ id: one, approved: true }] } });
    expect([second.status, await second.json()]).toMatchObject([409, { error: { code: 'call-not-open' } }]);
    const wrong = await send(runUrl, { body: { answers: [{ id: other, output: undefined }] } });
    expect([wrong.status, await wrong.text()]).toEqual([400, expect.stringContaining('\\"approved\\":true')]);
  });

  test('both of two approvals in one request are given at once, or neither', async () => {
    const two = { toolCalls: [...(REFUND.toolCalls ?? []), ...(REFUND.toolCalls ?? [])] };
    const agent = makeAgent([two, DONE]);
    const url = await listen(agent);
    const asked = await read(url, { body: { input: 'Pay back.' } });
    const answers = only(asked, 'call.asked').map(({ open: { id } }) => ({ id, approved: true }));
    const rest = await read(`${url}/${runIn(asked)}`, { body: { answers } });
    const types = rest.map(({ type }) => type);
    expect(types.lastIndexOf('call.decided')).toBeLessThan(types.indexOf('call.started'));
    expect(rest.at(-1)).toMatchObject({ type: 'settled', status: 'finished' });
  });

  test('each role does what it may; a caller finds only runs with its labels', async () => {
    const url = await listen(makeAgent([REFUND, DONE]), ({ headers }) => {
      const [role = '', user = 'ann'] = (headers.get('x-user') ?? '').split(' ');
      const known = ROLES.find(each => each === role);
      return known === undefined ? null : { name: user, role: known, labels: { user } };
    });
    const asked = await read(url, { body: { input: 'Pay back.' } });
    const runUrl = `${url}/${runIn(asked)}`;
    const answers = [{ id: idIn(asked), approved: true }];
    const status = async (user: string, body?: object, path = runUrl) => {
      const response = await send(path, { user, ...(body && { body }) });
      await response.body?.cancel();
      return response.status;
    };
    expect(await status('nobody')).toBe(401);
    expect(await status('client')).toBe(403);
    expect(await status('viewer')).toBe(200);
    expect(await status('viewer', { answers })).toBe(403);
    expect(await status('approver', { message: 'More.' })).toBe(403);
    expect(await status('approver', { input: 'Hi.' }, url)).toBe(403);
    expect(await status('operator bert')).toBe(404);
    expect(await status('operator bert', { answers })).toBe(404);
    const rest = await read(runUrl, { user: 'approver', body: { answers } });
    expect(rest.at(-1)).toMatchObject({ type: 'settled', status: 'finished' });
    expect(only(rest, 'call.decided')).toMatchObject([{ by: 'ann' }]);
    const put = await fetch(runUrl, { method: 'DELETE', headers: { 'x-user': 'operator' } });
    expect([put.status, put.headers.get('allow')]).toEqual([405, 'GET, POST']);
  });

  test.each([
    ['', { input: 'Hi.', undeclared: 1 }],
    ['/RUN', { message: 'Hi.', undeclared: 1 }],
    ['/RUN', { answers: [], undeclared: 1 }],
    ['/RUN', {}],
    ['?undeclared=1', undefined],
    ['/RUN?undeclared=1', { message: 'Hi.' }],
    ['/RUN?after=-1', undefined],
  ])('refuses what it does not know: %s %j', async (path, body) => {
    const url = await listen(makeAgent([DONE]));
    const runId = runIn(await read(url, { body: { input: 'Hi.' } }));
    const at = `${url}${path.startsWith('?') ? `/${runId}` : ''}${path.replace('RUN', runId)}`;
    const response = await send(at, { ...(body && { body }) });
    expect([response.status, await response.json()]).toMatchObject([
      400,
      { error: { code: 'input-invalid' } },
    ]);
  });

  test('tells the lines of a sub-agent with its run, and gives it answers', async () => {
    const clerk = makeAgent([REFUND, { text: 'Paid.' }], { name: 'clerk' });
    const call = { toolCalls: [{ name: 'ask_clerk', arguments: { input: 'pay' } }] };
    const tools = [clerk.asTool({ name: 'ask_clerk', description: 'Pays.' })];
    const url = await listen(makeAgent([call, { text: 'All paid.' }], { tools }));
    const asked = await read(url, { body: { input: 'Pay back.' } });
    const [opened] = only(asked, 'agent.opened');
    expect(opened).toMatchObject({ name: 'clerk', parent: runIn(asked) });
    expect(only(asked, 'call.asked')).toMatchObject([{ runId: opened?.runId, open: { name: 'refund' } }]);
    const rest = await read(`${url}/${runIn(asked)}`, {
      body: { answers: [{ id: idIn(asked), approved: true }] },
    });
    expect(rest.at(-1)).toMatchObject({ type: 'settled', status: 'finished', text: 'All paid.' });
  });

  test('a slow reader gets every line of a long text', async () => {
    const words = 'word '.repeat(20_000);
    const url = await listen(makeAgent([{ text: words }]));
    const response = await send(url, { body: { input: 'Hi.' } });
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
    let text = '';
    for (;;) {
      await new Promise(resolve => setImmediate(resolve));
      const step = await reader?.read();
      if (step === undefined || step.done) break;
      text += step.value;
    }
    const lines = text.split('\n').flatMap(line => (line === '' ? [] : [JSON.parse(line) as StoryLine]));
    expect(textIn(lines)).toBe(words);
  });

  test('shows nothing that providers seal, no keys and no files', async () => {
    const url = await listen(makeAgent([REFUND], { capture: 'requests' }));
    const lines = await read(url, { body: { input: 'Hi.' } });
    const names = new Set(JSON.stringify(lines).match(/"(\w+)":/g));
    for (const name of ['opaque', 'call', 'captured', 'completed', 'continuation', 'key', 'items'])
      expect(names).not.toContain(`"${name}":`);
  });
});
