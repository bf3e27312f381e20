import { EngineError } from '../protocol/error.ts';
import type { RunRecord, Store } from '../protocol/store.ts';

const LISTED = 10;

/** The run with this id, or the only one whose id begins so. Throws `run-unknown`, also for an ambiguous beginning. */
export async function findRun(store: Store, id: string): Promise<RunRecord> {
  const exact = await store.get(id);
  if (exact !== undefined) return exact;
  const listed = id === '' ? [] : await store.list({ onDamaged: () => {} });
  const matches = listed.filter(({ runId }) => runId.startsWith(id));
  const [only, second] = matches;
  if (only !== undefined && second === undefined) return only;
  if (only === undefined) {
    throw new EngineError('run-unknown', `There is no run ${id}. \`agentchart runs\` lists those there are.`);
  }
  const ids = matches.slice(0, LISTED).map(({ runId, status }) => `  ${runId}  ${status}`);
  const rest = matches.length > LISTED ? [`  and ${matches.length - LISTED} more`] : [];
  throw new EngineError(
    'run-unknown',
    [`${matches.length} runs begin with ${id}; say more of the id:`, ...ids, ...rest].join('\n'),
  );
}
