import type { Call, CallResult, Context } from '../machines/context.ts';
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
