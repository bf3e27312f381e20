/** A process that drives the runs of a store: `node bench/stores/worker.ts ADDRESS MODEL_MS SLOTS`. */
import { isOwnerDead } from '../../engine/driver/owner.ts';
import { AGENT, makeAgent } from './bench-agent.ts';
import { openStore } from './open-stores.ts';

const [address = '', modelMs = '0', slots = '32'] = process.argv.slice(2);
const store = openStore(address);
const { make } = makeAgent(store, Number(modelMs));
let driven = 0;
let isTaking = false;

/** Each run has an agent of its own: the answers of a scripted model come in the order of its calls. */
async function drive(runId: string): Promise<void> {
  await (await make().open(runId)).settled();
}

async function take(): Promise<void> {
  if (isTaking) return;
  isTaking = true;
  for (;;) {
    const limit = Number(slots) - driven;
    const request = { agents: [{ name: AGENT }], limit, reserveMs: 5_000, now: Date.now() };
    const work = limit === 0 ? [] : await store.takeWork?.({ ...request, isDead: isOwnerDead });
    if (work === undefined || work.length === 0) break;
    for (const { runId } of work) {
      driven += 1;
      void drive(runId).finally(() => {
        driven -= 1;
        void take();
      });
    }
  }
  isTaking = false;
}

store.watchWork?.(() => void take());
await store.get('none');
process.send?.('ready');
setInterval(() => void take(), 1_000);
