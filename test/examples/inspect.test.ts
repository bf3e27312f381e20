import { execFile } from 'node:child_process';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { createWebSocketInspector } from '@xstate/inspect';
import { afterEach, expect, test } from 'vitest';
import { type WebSocket, WebSocketServer } from 'ws';
import { createActor, type InspectionEvent, waitFor } from 'xstate';
import * as z from 'zod';
import { openaiResponses } from '../../adapters/openai-responses.ts';
import { createAgent, tool } from '../../agent/index.ts';
import {
  sanitizeContext,
  sanitizeEvent,
  sanitizeMessage,
} from '../../examples/inspect/sanitize-inspection.ts';

const example = fileURLToPath(new URL('../../examples/inspect.ts', import.meta.url));

/** Every secret of the run that must not leave the process; each text is unique. */
const PLANTED = {
  key: 'sk-planted-key-0123456789',
  instructions: 'planted-instructions',
  prompt: 'planted-prompt',
  preamble: 'planted-preamble',
  argument: 'planted-argument',
  output: 'planted-output',
  failure: 'planted-failure',
  reason: 'planted-reason',
  person: 'planted-person',
  answer: 'planted-answer',
};

const call = (callId: string, name: string, input: object) => ({
  type: 'function_call',
  id: `fc_${callId}`,
  call_id: callId,
  name,
  arguments: JSON.stringify(input),
});
const message = (text: string) => ({
  type: 'message',
  id: 'msg_1',
  role: 'assistant',
  content: [{ type: 'output_text', text }],
});

const TURNS = [
  [
    message(PLANTED.preamble),
    call('call_1', 'look_up', { city: PLANTED.argument }),
    call('call_2', 'break_down', { city: PLANTED.argument }),
    call('call_3', 'publish', { city: PLANTED.argument }),
    call('call_4', 'look_up', { wrong: PLANTED.argument }),
  ],
  [message(PLANTED.answer)],
];

/** The provider, in this process: it returns one response after another. */
function answerTurns(): typeof fetch {
  const turns = TURNS[Symbol.iterator]();
  return async () => {
    const output = turns.next().value ?? [];
    return Response.json({ id: 'resp_1', status: 'completed', model: 'gpt-4.1', output });
  };
}

function makeAgent() {
  const input = z.object({ city: z.string() });
  const look = { description: 'Looks.', input, sideEffect: 'none' as const };
  return createAgent({
    name: 'inspected',
    model: openaiResponses({ model: 'gpt-4.1', apiKey: PLANTED.key, fetch: answerTurns() }),
    instructions: PLANTED.instructions,
    tools: [
      tool({ ...look, name: 'look_up', run: () => ({ found: PLANTED.output }) }),
      tool({
        ...look,
        name: 'break_down',
        run: () => {
          throw new Error(PLANTED.failure);
        },
      }),
      tool({ ...look, name: 'publish', approval: { required: true, reason: PLANTED.reason }, run: () => '' }),
    ],
  });
}

/** Runs the agent on the live services with its gated call rejected, and returns the final text. */
async function runInspected(inspect: (event: InspectionEvent) => void) {
  const agent = makeAgent();
  const machine = agent.machine.provide({ actors: agent.services() });
  const actor = createActor(machine, { input: agent.input(PLANTED.prompt, { stream: false }), inspect });
  actor.start();
  const resting = await waitFor(actor, state => state.hasTag('rest'));
  const gated = resting.context.calls.find(({ status }) => status === 'gated');
  actor.send({
    type: 'approval.decided',
    at: Date.now(),
    callId: gated?.callId ?? '',
    digest: gated?.digest ?? '',
    decision: { type: 'reject', reason: PLANTED.reason },
    by: PLANTED.person,
  });
  const end = await waitFor(actor, state => state.status === 'done');
  return { text: end.context.answer?.text, sessionId: actor.sessionId };
}

const servers: WebSocketServer[] = [];

afterEach(() => {
  for (const server of servers.splice(0)) server.close();
});

async function receive() {
  const server = new WebSocketServer({ host: '127.0.0.1', port: 0 });
  servers.push(server);
  await once(server, 'listening');
  const frames: string[] = [];
  const arrived = new Set<() => void>();
  server.on('connection', (socket: WebSocket) => {
    socket.on('message', data => {
      frames.push(String(data));
      for (const look of arrived) look();
    });
  });
  const until = (fits: (frames: readonly string[]) => boolean) =>
    new Promise<void>(resolve => {
      const look = () => {
        if (fits(frames)) resolve();
      };
      arrived.add(look);
      look();
    });
  const { port } = server.address() as AddressInfo;
  return { url: `ws://127.0.0.1:${port}`, frames, until };
}

const frameSchema = z.looseObject({
  type: z.string(),
  name: z.string().optional(),
  definition: z.string().optional(),
  event: z.looseObject({ type: z.string() }).optional(),
  snapshot: z
    .looseObject({ value: z.unknown().optional(), context: z.looseObject({}).optional() })
    .optional(),
});
const parseFrame = (text: string) => frameSchema.parse(JSON.parse(text));

/** An actor message is serialized late and may already show the end; the snapshots arrive in order. */
function showsTheEnd(frame: string): boolean {
  const { type, snapshot } = parseFrame(frame);
  return type === '@xstate.snapshot' && snapshot?.value === 'finished';
}

test('the inspector gets the actors, events and snapshots of a run, and none of its contents', async () => {
  const { url, frames, until } = await receive();
  const inspector = createWebSocketInspector({
    url,
    sanitizeContext,
    sanitizeEvent,
    serialize: sanitizeMessage,
  });
  const { text } = await runInspected(event => inspector.inspect.next?.(event));
  await until(seen => seen.some(showsTheEnd));
  inspector.stop();

  expect(text).toBe(PLANTED.answer);
  for (const [what, planted] of Object.entries(PLANTED)) {
    const leaks = frames.filter(frame => frame.includes(planted));
    expect(leaks, `${what} is in a frame`).toEqual([]);
  }
  const parsed = frames.map(parseFrame);
  const actors = parsed.filter(({ type }) => type === '@xstate.actor').map(({ name }) => name);
  expect(actors).toEqual(expect.arrayContaining(['agent', 'modelTurn', 'toolBatch']));
  const events = parsed.filter(({ type }) => type === '@xstate.event').map(({ event }) => event?.type);
  expect(events).toEqual(
    expect.arrayContaining(['calls.started', 'turn.completed', 'tool.settled', 'approval.decided']),
  );
  const places = parsed
    .filter(({ type }) => type === '@xstate.snapshot')
    .map(({ snapshot }) => snapshot?.value);
  expect(places).toEqual(
    expect.arrayContaining(['executingTools', { resting: 'awaitingApproval' }, 'finished']),
  );
});

test('sanitized messages keep what an inspector shows: the chart, counters, ids and names', async () => {
  const { url, frames, until } = await receive();
  const inspector = createWebSocketInspector({
    url,
    sanitizeContext,
    sanitizeEvent,
    serialize: sanitizeMessage,
  });
  await runInspected(event => inspector.inspect.next?.(event));
  await until(seen => seen.some(showsTheEnd));
  inspector.stop();

  const parsed = frames.map(parseFrame);
  const machine = parsed.find(({ type, name }) => type === '@xstate.actor' && name === 'agent');
  expect(JSON.parse(machine?.definition ?? '{}').states).toHaveProperty('deciding');
  const resting = parsed.find(
    ({ type, snapshot }) =>
      type === '@xstate.snapshot' && JSON.stringify(snapshot?.value)?.includes('awaitingApproval'),
  );
  expect(resting?.snapshot?.context).toMatchObject({
    turns: 1,
    open: 1,
    calls: [
      { callId: 'call_1', name: 'look_up', status: 'settled' },
      { callId: 'call_2', name: 'break_down', status: 'settled' },
      { callId: 'call_3', name: 'publish', status: 'gated' },
      { callId: 'call_4', name: 'look_up', status: 'settled' },
    ],
    next: { type: 'interruptForApproval' },
  });
});

test("XState's own inspect sees the live services: actors, events, snapshots and microsteps", async () => {
  const seen: InspectionEvent[] = [];
  const { sessionId } = await runInspected(event => seen.push(event));
  const types = new Set(seen.filter(({ rootId }) => rootId === sessionId).map(({ type }) => type));
  expect([...types]).toEqual(
    expect.arrayContaining(['@xstate.actor', '@xstate.event', '@xstate.snapshot', '@xstate.microstep']),
  );
});

test('the example sends its run to the given address, and ends', async () => {
  const { url, frames } = await receive();
  const { stdout } = await promisify(execFile)(process.execPath, [example, url]);
  expect(stdout).toContain('The run ended: "finished"');
  const parsed = frames.map(parseFrame);
  expect(new Set(parsed.map(({ type }) => type))).toEqual(
    new Set(['@xstate.actor', '@xstate.event', '@xstate.snapshot']),
  );
  expect(frames.some(showsTheEnd)).toBe(true);
  for (const text of ['Bergen', 'umbrella', 'rain']) {
    expect(frames.filter(frame => frame.includes(text))).toEqual([]);
  }
});

test('the example without an address receives its own messages, says what to open, and ends', async () => {
  const { stdout } = await promisify(execFile)(process.execPath, [example]);
  expect(stdout).toMatch(/^actor {2}agent {2}/m);
  expect(stdout).toMatch(/^snapshot {2}turn\.completed {2}"finished"$/m);
  expect(stdout).toContain('open http://localhost:8080');
});

test('the example fails with an error if nothing listens at the address', async () => {
  const { url } = await receive();
  await new Promise(resolve => servers.pop()?.close(resolve));
  await expect(promisify(execFile)(process.execPath, [example, url])).rejects.toMatchObject({
    code: 1,
    stderr: expect.stringContaining(`Nothing listens at ${url}`),
  });
});
