import type { Run, RunEvent, Settled } from '../../agent/index.ts';
import type { Lab } from './lab.ts';

/** What is tried on the real server, by name. Each returns what it found; an assertion fails it. */
export type Scenarios = Readonly<Record<string, (lab: Lab) => Promise<string>>>;

export const INPUT = 'Refund order A-1001.';

export function waitingOf(settled: Settled | undefined): Extract<Settled, { status: 'waiting' }> {
  if (settled?.status === 'waiting') return settled;
  throw new Error(`expected a run that waits: ${JSON.stringify(settled)}`);
}

export async function journalOf(run: Run): Promise<RunEvent['type'][]> {
  return (await run.source.store.read(run.id)).map(({ event }) => event.type);
}
