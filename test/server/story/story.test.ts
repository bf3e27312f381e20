import type { AddressInfo } from 'node:net';
import { createAdaptorServer } from '@hono/node-server';
import { afterEach, describe, expect, test } from 'vitest';
import type { Authorize } from '../../../access/caller.ts';
import type { ScriptedTurn } from '../../../adapters/scripted/scripted-turns.ts';
import { scripted } from '../../../adapters/scripted.ts';
import { createStoryHandler, type StoryLine } from '../../../server/index.ts';
import { memory } from '../../../stores/memory.ts';
import { type Agent, createAgent } from '../../../tools/agent/index.ts';
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
});
