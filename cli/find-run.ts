import { EngineError } from '../protocol/error.ts';
import { listAll, type RunRecord, type Store } from '../protocol/store.ts';

const MAX_LISTED = 10;

/** Finds a run by its id or a unique prefix of it. Throws `run-unknown` for no match and for several. */
export async function findRun(store: Store, id: string): Promise<RunRecord> {
  const exact = await store.get(id);
  if (exact !== undefined) return exact;
  const matches: RunRecord[] = [];
  for await (const record of listAll(store, { onDamaged: () => {} }))
    if (id !== '' && record.runId.startsWith(id)) matches.push(record);
  const [only, second] = matches;
  if (only !== undefined && second === undefined) return only;
  if (only === undefined) {
    throw new EngineError('run-unknown', `No run matches ${id}. \`agentchart runs\` lists the runs.`);
  }
  const ids = matches.slice(0, MAX_LISTED).map(({ runId, status }) => `  ${runId}  ${status}`);
  const rest = matches.length > MAX_LISTED ? [`  … and ${matches.length - MAX_LISTED} more`] : [];
  throw new EngineError(
    'run-unknown',
    [`${matches.length} runs match ${id}; give more of the id:`, ...ids, ...rest].join('\n'),
  );
}
