import { mkdirSync } from 'node:fs';
import { dirname } from 'node:path';
import { sqlite } from 'agentchart/stores/sqlite';

const file = process.env.AGENTCHART_DB ?? 'data/runs.db';
mkdirSync(dirname(file), { recursive: true });

/** One file, for all processes of this machine. */
export const store = sqlite(file);
