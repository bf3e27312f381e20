import type { Call } from '../../machines/context.ts';
import { statusOf } from '../../machines/status.ts';
import type { ChartState } from '../../machines/step.ts';
import { toolResults } from '../../machines/tool-results.ts';
import type { BlobReference, Item } from '../../protocol/item.ts';
import { type JsonValue, omitUndefined } from '../../protocol/json.ts';
import type { FinishedRun } from '../../protocol/run-view.ts';
import type { RunStatus } from '../../protocol/store.ts';
import type { ToolResult } from '../../protocol/tool-result.ts';
import { describeSettled, listUnsettled } from '../log/settled.ts';

/** The outcome of a run so far: everything that must be the same when a recording of it is played. */
export type Outcome = {
  status: RunStatus;
  /** The raw answer of a finished run. */
  text?: string;
  output?: JsonValue;
  incomplete?: string;
  error?: { code: string; message: string };
  paused: boolean;
  /** The ids of the calls that have no result. */
  open: string[];
  /** In transcript order, followed by those of the open round. */
  results: ToolResult[];
  transcript: Item[];
  /** Messages that no model call has read yet. */
  unread: Item[];
};

export function describeOutcome(state: ChartState): Outcome {
  const { context } = state;
  const settled = describeSettled(state, text => text);
  const { text, output, incomplete }: Partial<FinishedRun> = settled?.status === 'finished' ? settled : {};
  // Quarantine is about processes that died; a recording has none.
  const isQuarantined = context.quarantined !== null;
  return {
    status: isQuarantined ? 'running' : statusOf(state),
    ...omitUndefined({ text, output: output as JsonValue | undefined, incomplete: incomplete?.reason }),
    ...omitUndefined({ error: settled?.status === 'failed' ? settled.error : undefined }),
    paused: context.paused && !isQuarantined,
    open: listUnsettled(context).map(({ callId }) => callId),
    results: [...toolResults(context), ...context.calls.flatMap(resultOf)].map(withoutBlob),
    transcript: context.transcript.map(item => (item.type === 'tool_result' ? withoutBlob(item) : item)),
    unread: context.inbox,
  };
}

/** A recording has only the head and tail of a large result. */
function withoutBlob<Result extends { blob?: BlobReference }>({
  blob: _,
  ...result
}: Result): Omit<Result, 'blob'> {
  return result;
}

function resultOf({ callId, name, input, result }: Call): ToolResult[] {
  if (result === undefined) return [];
  return [{ callId, name, input, output: result.output, isError: result.isError }];
}
