/**
 * A worker that serves the agents of these tests on Restate. Environment: `PORT`, `INGRESS`, `ADMIN`, `LEDGER` (a file
 * with the begun and ended calls of tools), `TOOL_MS` (how long `refund` takes), `WITHOUT` (an agent not served), `GRACE_MS`
 * (how long calls may continue after SIGTERM).
 */
import { appendFileSync } from 'node:fs';
import { serve } from '@restatedev/restate-sdk';
import { restateWorker } from '../../hosts/restate/index.ts';
import { makeAgents } from './agents.ts';

const { PORT, INGRESS, ADMIN, LEDGER = '', TOOL_MS = '0', WITHOUT, GRACE_MS = '10000' } = process.env;
const note = (line: string) => appendFileSync(LEDGER, `${line} ${process.pid}\n`);
const agents = makeAgents({ note, toolMs: Number(TOOL_MS) }).filter(({ name }) => name !== WITHOUT);
const address = { ingress: String(INGRESS), admin: String(ADMIN) };
const worker = await restateWorker(agents, address);
await serve({ services: worker.services, port: Number(PORT) });
process.once('SIGTERM', () => worker.drain(Number(GRACE_MS)).then(kept => process.exit(kept)));
process.on('disconnect', () => process.exit(1));
process.send?.('ready');
