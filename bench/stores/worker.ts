/** A process that drives the runs of a store as `agentchart worker` does: `node bench/stores/worker.ts ADDRESS MODEL_MS SLOTS`. */
import { systemHost } from '../../engine/host/host.ts';
import { createRunWorker } from '../../server/runs/run-worker.ts';
import { AGENT, makeAgent } from './bench-agent.ts';
import { openStore } from './open-stores.ts';

const [address = '', modelMs = '0', slots = '32'] = process.argv.slice(2);
const store = openStore(address);
const { make } = makeAgent(store, Number(modelMs));
const { taker } = createRunWorker({
  store,
  host: systemHost,
  slots: Number(slots),
  versions: 'own',
  log: line => console.error(line),
  agents: new Map(),
  // Each run has an agent of its own: the answers of a scripted model come in the order of its calls.
  agentsByRun: new Map([[AGENT, async () => make()]]),
});
await taker.start();
process.send?.('ready');
setInterval(() => {}, 60_000);
