import { existsSync, rmSync } from 'node:fs';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import { EngineError } from '../../../protocol/error.ts';
import { sqlite } from '../../../stores/sqlite.ts';
import { calls, makeTool } from '../engine/agents.ts';

/**
 * A process for the tests: `FILE [BALLAST]` begins a run on FILE that writes half a megabyte, or continues
 * it. Prints a JSON line for each payment, for a failure of the store, and for the end. After a failure it
 * reads the run again; with BALLAST it removes that file to make room, and continues.
 */
const [file = '', ballast] = process.argv.slice(2);
const RUN = 'run_full';
const PAYMENTS = 12;

const print = (line: object): void => void process.stdout.write(`${JSON.stringify(line)}\n`);
const paid = new Set<string>((process.env.PAID ?? '').split(' '));

const store = sqlite(file);
const agent = createAgent({
  name: 'payer',
  store,
  model: scripted([...Array.from({ length: PAYMENTS }, () => calls('pay')), { text: 'done' }]),
  tools: [
    makeTool('pay', {
      run: (_: unknown, { callId, key }) => {
        paid.add(callId);
        print({ paid: key });
        return 'receipt '.repeat(5000);
      },
    }),
  ],
});

async function work(): Promise<void> {
  const run =
    existsSync(file) && (await store.get(RUN)) !== undefined
      ? await agent.open(RUN)
      : await agent.start('go', { runId: RUN });
  for (;;) {
    const settled = await run.settled();
    if (settled.status !== 'waiting') return print({ ended: settled.status });
    for (const { callId } of settled.doubts) {
      print({ doubted: callId });
      await run.resolve(callId, paid.has(callId) ? { happened: true, output: 'found' } : { retry: true });
    }
  }
}

async function tell(error: unknown): Promise<void> {
  if (!(error instanceof EngineError)) throw error;
  const read = await store.read(RUN).then(
    ({ length }) => length,
    () => 0,
  );
  const status = await store.get(RUN).then(
    record => record?.status,
    () => undefined,
  );
  print({ failed: error.code, message: error.message, status, read });
}

try {
  await work();
} catch (error) {
  await tell(error);
  if (ballast !== undefined) {
    rmSync(ballast);
    await work();
  }
}
await store.close().catch(tell);
