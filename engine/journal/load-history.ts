import type { Call, CallResult, Context } from '../../machines/context.ts';
import { EngineError } from '../../protocol/error.ts';
import type { Item } from '../../protocol/item.ts';
import type { Store } from '../../protocol/store.ts';
import { loadRun } from './load-run.ts';

type Known = (runId: string) => Promise<readonly Item[]> | undefined;

/**
 * The transcripts that runs of a store begin with when they continue others. Each is read once for as long as no run
 * of its chain has another entry: an ended run gets one when something of it is redacted.
 */
export class InheritedTranscripts {
  readonly #store: Store;
  readonly #read = new Map<string, { ends: string; items: Promise<readonly Item[]> }>();

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

  /** Of the chain up to `continues`, oldest first; of `null` none. Throws `run-unknown` for a link that is missing. */
  async load(continues: string | null): Promise<readonly Item[]> {
    if (continues === null) return [];
    const ends = new Map<string, string>();
    let end = '';
    for (const { runId, seq } of await this.#store.chain(continues)) {
      end += `${runId} ${seq}\n`;
      ends.set(runId, end);
    }
    const known = (runId: string) => {
      const found = this.#read.get(runId);
      return found?.ends === ends.get(runId) ? found?.items : undefined;
    };
    const items = known(continues) ?? loadInherited(this.#store, continues, known);
    this.#read.set(continues, { ends: end, items });
    items.catch(() => this.#read.delete(continues));
    return await items;
  }
}

/** The transcript of the chain up to `runId`; `known` gives that of its older runs where it has been read already. */
async function loadInherited(store: Store, runId: string, known: Known): Promise<readonly Item[]> {
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
