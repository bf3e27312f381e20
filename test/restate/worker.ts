/**
 * A worker that serves the agents of these tests on Restate. Environment: `PORT`, `INGRESS`, `ADMIN`, `LEDGER` (a file
 * with the begun and ended calls of tools), `TOOL_MS` (how long `refund` takes), `WITHOUT` (an agent not served).
 */
import { appendFileSync } from 'node:fs';
import { serve } from '@restatedev/restate-sdk';
import { restateServices } from '../../hosts/restate/index.ts';
import { makeAgents } from './agents.ts';

const { PORT, INGRESS, ADMIN, LEDGER = '', TOOL_MS = '0', WITHOUT } = process.env;
const note = (line: string) => appendFileSync(LEDGER, `${line} ${process.pid}\n`);
const agents = makeAgents({ note, toolMs: Number(TOOL_MS) }).filter(({ name }) => name !== WITHOUT);
const address = { ingress: String(INGRESS), admin: String(ADMIN) };
await serve({ services: await restateServices(agents, address), port: Number(PORT) });
process.on('disconnect', () => process.exit(1));
process.send?.('ready');
