import { writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { parentPort, workerData } from 'node:worker_threads';
import * as z from 'zod';
import { scripted } from '../../../../adapters/scripted.ts';
import { createAgent } from '../../../../agent/agent.ts';
import { tool } from '../../../../agent/index.ts';
import { createRunsApp } from '../../../../server/app.ts';
import { gatewayConfigSchema } from '../../../../server/gateway/config/gateway-config.ts';
import { createGateway } from '../../../../server/gateway.ts';
import { serveRuns } from '../../../../server/serve.ts';
import { sqlite } from '../../../../stores/sqlite.ts';
import { BusyMeter } from '../busy-meter.ts';

/** A server in a thread, with an ended run of 600 KB, a run that is driven meanwhile, and a response whose events have that length. */
export type ReaderServerData = { folder: string; isCareless: boolean };

/** What the thread sends when it listens. */
export type Listening = { port: number; heldRunId: string; responseId: string };

/** What it sends when it has stopped: the longest that it blocked its event loop, and how the driven run ended. */
export type Stopped = { busyMs: number; heldStatus: string };

export const BIG_RUN = 'run_big';

const ROUNDS = 150;
const OUTPUT = 'All of this is in the journal. '.repeat(110);
const ANSWER = 'A long answer. '.repeat(8_000);

const { folder, isCareless }: ReaderServerData = workerData;
const store = sqlite(join(folder, 'runs.db'));

const look = tool({
  name: 'look',
  description: 'Looks.',
  input: z.object({}),
  run: () => OUTPUT,
  sideEffect: 'none',
});
const rounds = Array.from({ length: ROUNDS }, () => ({ toolCalls: [{ name: 'look' }] }));
const limits = { turns: ROUNDS + 1, toolCalls: ROUNDS };
const big = scripted([...rounds, { text: 'done' }]);
const writer = createAgent({ name: 'big', model: big, tools: [look], limits, store });
await (await writer.start('go', { runId: BIG_RUN })).settled();

const released = Promise.withResolvers<string>();
const hold = tool({
  name: 'hold',
  description: 'Holds.',
  input: z.object({}),
  sideEffect: 'once',
  run: () => released.promise,
});
const model = scripted([{ toolCalls: [{ name: 'hold' }] }, { text: 'done' }]);
const held = await createAgent({ name: 'held', model, tools: [hold], store }).start('go');

const script = join(folder, 'script.json');
writeFileSync(script, JSON.stringify([{ text: ANSWER }]));
const config = gatewayConfigSchema.parse({
  models: { big: `scripted:${script}` },
  limits: { open_streams: 2_000 },
});
const gateway = createGateway({ store, config });
const app = createRunsApp({
  store,
  agents: new Map(),
  mounted: [gateway.responses],
  admission: gateway.service.admission,
});
const created = await app.request('http://127.0.0.1:4100/v1/responses', {
  method: 'POST',
  headers: { host: '127.0.0.1:4100', 'content-type': 'application/json' },
  body: JSON.stringify({ model: 'big', input: 'go' }),
});
const { id: responseId } = (await created.json()) as { id: string };
const serving = isCareless ? await serveCarelessly() : await serveRuns(app, { host: '127.0.0.1', port: 0 });

await wait(100);
const meter = new BusyMeter();
const listening: Listening = { port: serving.port, heldRunId: held.id, responseId };
parentPort?.postMessage(listening);
parentPort?.once('message', async () => {
  const busyMs = meter.stop();
  released.resolve('held');
  const { status } = await held.settled();
  await serving.close();
  await store.close();
  const stopped: Stopped = { busyMs, heldStatus: status };
  parentPort?.postMessage(stopped);
});

/** Reads and writes the whole run for every reader, at once. */
async function serveCarelessly(): Promise<{ port: number; close(): Promise<void> }> {
  const server = createServer(async (request, response) => {
    if (request.url === '/healthz') return response.end('{}');
    const entries = await store.read(BIG_RUN);
    for (const entry of entries)
      response.write(`id: ${entry.seq}\nevent: journal\ndata: ${JSON.stringify(entry)}\n\n`);
    return response.end('event: end\ndata: {}\n\n');
  });
  const { promise, resolve } = Promise.withResolvers<void>();
  server.listen(0, '127.0.0.1', resolve);
  await promise;
  const { port } = server.address() as AddressInfo;
  return { port, close: async () => void server.closeAllConnections() };
}
