/**
 * A run in Stately's inspector, through XState's own `inspect`. All messages pass a sanitizer that removes
 * texts, inputs, outputs and keys.
 *
 *   node examples/inspect.ts                     receives and prints the messages itself
 *   node examples/inspect.ts ws://127.0.0.1:8080 sends the messages to an inspector at this address
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
import { createAgent, tool } from '../agent/index.ts';
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

const address = process.argv[2];
const receiver = address === undefined ? await receive() : undefined;
const url = address ?? receiver?.url ?? '';
const inspector = createWebSocketInspector({
  url,
  sanitizeContext,
  sanitizeEvent,
  serialize: sanitizeMessage,
});
await checkListening(url);

const machine = agent.machine.provide({ actors: agent.services() });
const actor = createActor(machine, {
  input: agent.input('What do I wear in Bergen?'),
  inspect: inspector.inspect,
});
actor.start();
const end = await waitFor(actor, state => state.status === 'done');
console.log(`The run ended: ${JSON.stringify(end.value)}: ${end.context.answer?.text}`);

// The inspector sends its messages after a timer.
await delay(10);
inspector.stop();
await receiver?.closed;
console.log(`The inspection messages were sent to ${url}, without contents.`);
if (address === undefined) console.log(explainViewer());

function explainViewer(): string {
  return [
    "To watch a run in Stately's inspector, start the inspector's server in another terminal:",
    `  node -e "import('@xstate/inspect/server').then(s => s.createInspectorServer({ port: 8080 }))"`,
    'open http://localhost:8080, and run this example again with ws://localhost:8080.',
    'The page is loaded from https://stately.ai; the messages are sent from this process to your browser.',
    "The inspector's server listens on all network interfaces: stop it when you are done.",
  ].join('\n');
}

/** Starts a WebSocket server on 127.0.0.1 that prints a line for each message. */
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

/** Exits with an error if nothing listens at the address. The inspector itself would retry forever. */
async function checkListening(target: string): Promise<void> {
  const probe = new WebSocket(target);
  try {
    await once(probe, 'open');
    probe.close();
  } catch (error) {
    console.error(`Nothing listens at ${target}: ${error instanceof Error ? error.message : error}`);
    process.exit(1);
  }
}
