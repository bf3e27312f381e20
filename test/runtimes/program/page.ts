import { runChecks } from './checks.ts';

/** The program of a page: its outcome is `globalThis.outcome`. */
const provider = new URL('.', import.meta.url).origin;
Object.assign(globalThis, { outcome: runChecks(provider) });
