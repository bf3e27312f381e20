/**
 * A run in Stately's inspector: the live host is an ordinary actor, so XState's own `inspect` works on
 * it. What leaves the process goes through a sanitiser first: no texts, inputs, outputs or keys.
 *
 *   node examples/inspect.ts                     receives the messages itself and prints them
 *   node examples/inspect.ts ws://127.0.0.1:8080 sends them to an inspector there
 */
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { createWebSocketInspector } from '@xstate/inspect';
import { WebSocket, WebSocketServer } from 'ws';
import { createActor, waitFor } from 'xstate';
import * as z from 'zod';
// In a project of your own: from 'agentchart' and 'agentchart/adapters/scripted'.
import { scripted } from '../adapters/scripted.ts';
import { createAgent, tool } from '../tools/agent/index.ts';
import { sanitizeContext, sanitizeEvent, sanitizeMessage } from './inspect/sanitize-inspection.ts';

const agent = createAgent({
  name: 'weather',
  model: scripted([
    { toolCalls: [{ name: 'forecast', arguments: { city: 'Bergen' } }], delayMs: 200 },
    { text: 'Take an umbrella to Bergen.', delayMs: 200 },
  ]),
  tools: [
    tool({
      name: 'forecast',
      description: 'The weather of tomorrow.',
      input: z.object({ city: z.string() }),
      sideEffect: 'none',
      run: ({ city }) => `${city}: rain, 9 °C`,
    }),
  ],
});

const given = process.argv[2];
const receiver = given === undefined ? await receive() : undefined;
const url = given ?? receiver?.url ?? '';
const inspector = createWebSocketInspector({
  url,
  sanitizeContext,
  sanitizeEvent,
  serialize: sanitizeMessage,
});
await reach(url);

const machine = agent.machine.provide({ actors: agent.services() });
const actor = createActor(machine, {
  input: agent.input('What do I wear in Bergen?'),
  inspect: inspector.inspect,
});
actor.start();
const end = await waitFor(actor, state => state.status === 'done');
console.log(`The run is over: ${JSON.stringify(end.value)}: ${end.context.answer?.text}`);

// The inspector sends what it is told behind a timer of its own.
await delay(10);
inspector.stop();
await receiver?.closed;
console.log(`Its messages went to ${url}, without contents.`);
if (given === undefined) console.log(explainViewer());

function explainViewer(): string {
  return [
    "To watch it in Stately's inspector, start the inspector's own server in another terminal:",
    `  node -e "import('@xstate/inspect/server').then(s => s.createInspectorServer({ port: 8080 }))"`,
    'open http://localhost:8080, and run this again with ws://localhost:8080.',
    'That page is loaded from https://stately.ai; the messages go from this process to your browser.',
    "The inspector's server listens on every interface: stop it when you are done.",
  ].join('\n');
}

/** A receiver on loopback that prints a line for each message. */
async function receive() {
  const server = new WebSocketServer({ host: '127.0.0.1', port: 0 });
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const closed = new Promise<void>(resolve => {
    server.on('connection', socket => {
      let messages = 0;
      socket.on('message', data => {
        messages += 1;
        console.log(describeMessage(String(data)));
      });
      socket.on('close', () => {
        if (messages === 0) return;
        server.close();
        resolve();
      });
    });
  });
  return { url: `ws://127.0.0.1:${port}`, closed };
}

function describeMessage(text: string): string {
  const { type, name, event, snapshot } = JSON.parse(text);
  const place = snapshot?.value === undefined ? snapshot?.status : JSON.stringify(snapshot.value);
  return [type.slice('@xstate.'.length), name, event?.type, place].filter(Boolean).join('  ');
}

/** The inspector tries again for ever where nobody listens; this says so and ends. */
async function reach(address: string): Promise<void> {
  const probe = new WebSocket(address);
  try {
    await once(probe, 'open');
    probe.close();
  } catch (error) {
    console.error(`Nothing listens at ${address}: ${error instanceof Error ? error.message : error}`);
    process.exit(1);
  }
}
