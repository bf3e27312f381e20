import type { Item } from '../protocol/item.ts';
import type { Store } from '../protocol/store.ts';
import { loadRun } from './load-run.ts';

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
  const { continues, transcript, inbox } = state.context;
  const older =
    inherited ??
    (continues === null ? [] : await (known(continues) ?? loadInherited(store, continues, known)));
  return [...older, ...closeTranscript(transcript), ...inbox];
}

/** A transcript in which every call has a result: a run may end with calls that have none. */
export function closeTranscript(transcript: readonly Item[]): readonly Item[] {
  const settled = new Set(transcript.flatMap(item => (item.type === 'tool_result' ? [item.callId] : [])));
  const open = transcript.flatMap(item =>
    item.type === 'tool_call' && !settled.has(item.callId) ? [item.callId] : [],
  );
  const output = 'The run ended before this call had a result: it may or may not have happened.';
  return [
    ...transcript,
    ...open.map((callId): Item => ({ type: 'tool_result', callId, output, isError: true })),
  ];
}
