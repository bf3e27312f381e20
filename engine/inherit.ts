import type { Call, CallResult, Context } from '../machines/context.ts';
import { EngineError } from '../protocol/error.ts';
import type { Item } from '../protocol/item.ts';
import type { Store } from '../protocol/store.ts';
import { loadRun } from './load-run.ts';

/** What the runs of an agent inherit: an ended run never changes, so it is read once. */
export class InheritedTranscripts {
  readonly #store: Store;
  readonly #known = new Map<string, Promise<readonly Item[]>>();

  constructor(store: Store) {
    this.#store = store;
  }

  /** Of a run that continues this one. Throws `run-unknown`, and `refused` for a run that has not ended. */
  async assertEnded(runId: string): Promise<void> {
    const record = await this.#store.get(runId);
    if (record === undefined)
      throw new EngineError('run-unknown', `The store has no run ${runId} to continue.`);
    if (record.status !== 'running' && record.status !== 'waiting') return;
    throw new EngineError(
      'refused',
      `Run ${runId} has not ended yet (${record.status}): send it the message instead.`,
    );
  }

  load(continues: string | null): Promise<readonly Item[]> {
    if (continues === null) return Promise.resolve([]);
    const known = this.#known.get(continues);
    if (known !== undefined) return known;
    const loading = loadInherited(this.#store, continues, id => this.#known.get(id));
    this.#known.set(continues, loading);
    loading.catch(() => this.#known.delete(continues));
    return loading;
  }
}

/**
 * The transcript a run begins with when it continues `runId`: that of the whole chain, oldest first.
 * `known` gives the chain up to a run where it has been read already.
 */
export async function loadInherited(
  store: Store,
  runId: string,
  known: (runId: string) => Promise<readonly Item[]> | undefined,
): Promise<readonly Item[]> {
  const { state, inherited } = await loadRun(store, runId);
  const { continues, inbox } = state.context;
  const older =
    inherited ??
    (continues === null ? [] : await (known(continues) ?? loadInherited(store, continues, known)));
  return [...older, ...closeTranscript(state.context), ...inbox];
}

/** The transcript of an ended run, in which every call has a result: a run may end in the middle of a round. */
function closeTranscript({ transcript, calls }: Context): readonly Item[] {
  const answered = new Set(transcript.flatMap(item => (item.type === 'tool_result' ? [item.callId] : [])));
  const missing = transcript.flatMap((item): Item[] => {
    if (item.type !== 'tool_call' || answered.has(item.callId)) return [];
    const call = calls.find(({ callId }) => callId === item.callId);
    return [{ type: 'tool_result', callId: item.callId, ...resultOf(call) }];
  });
  return missing.length === 0 ? transcript : [...transcript, ...missing];
}

function resultOf(call: Call | undefined): CallResult {
  if (call?.result !== undefined) return call.result;
  const output =
    call?.attempt === 0
      ? 'Not run: the run ended first.'
      : 'The run ended before this call had a result: it may or may not have happened.';
  return { output, isError: true };
}
