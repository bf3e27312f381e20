import type { Call } from '../../machines/context.ts';
import type { ChartState } from '../../machines/step.ts';
import { toolResults } from '../../machines/tool-results.ts';
import type { ToolResult } from '../../protocol/finisher.ts';
import type { BlobReference, Item } from '../../protocol/item.ts';
import { given, type JsonValue } from '../../protocol/json.ts';
import type { RunStatus } from '../../protocol/store.ts';
import { statusOf } from '../journal/load-run.ts';
import { describeSettled, listOpenCalls } from './settled.ts';

/** What came of a run, or has come of it so far: what has to be the same when it is played again. */
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
  /** In transcript order, then those of the round that is not over. */
  results: ToolResult[];
  transcript: Item[];
  /** Messages that no model call has read. */
  unread: Item[];
};

export function describeOutcome(state: ChartState): Outcome {
  const { context } = state;
  const settled = describeSettled(state, text => text);
  // The engine's own pause is about processes that died: played again, the work just stands where it was left.
  const isQuarantined = context.quarantined !== null;
  return {
    status: isQuarantined ? 'running' : statusOf(state),
    ...(settled?.status === 'finished' ? describeAnswer(settled) : {}),
    ...(settled?.status === 'failed' ? { error: settled.error } : {}),
    paused: context.paused && !isQuarantined,
    open: listOpenCalls(context).map(({ callId }) => callId),
    results: [...toolResults(context), ...context.calls.flatMap(resultOf)].map(asPlayed),
    transcript: context.transcript.map(item => (item.type === 'tool_result' ? asPlayed(item) : item)),
    unread: context.inbox,
  };
}

/** Played again, a large result is its head and its tail: what the journal has of it. */
function asPlayed<Result extends { blob?: BlobReference }>({
  blob: _,
  ...result
}: Result): Omit<Result, 'blob'> {
  return result;
}

function resultOf({ callId, name, input, result }: Call): ToolResult[] {
  if (result === undefined) return [];
  return [{ callId, name, input, output: result.output, isError: result.isError }];
}

type Finished = Extract<NonNullable<ReturnType<typeof describeSettled>>, { status: 'finished' }>;

function describeAnswer({
  text,
  output,
  incomplete,
}: Finished): Pick<Outcome, 'text' | 'output' | 'incomplete'> {
  return { text, ...given({ output, incomplete: incomplete?.reason }) };
}
