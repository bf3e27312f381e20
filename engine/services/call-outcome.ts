import { InDoubt, isThrown, messageOf } from '../../protocol/error.ts';
import type { JsonValue } from '../../protocol/json.ts';
import type { Tool, ToolCallContext } from '../../protocol/tool.ts';
import { type Host, sleep } from '../driver/host.ts';
import { withinCall } from '../run/current-call.ts';
import type { ChildOutcome } from '../sub-agents/run-child.ts';
import { readOutput } from './read-output.ts';

/**
 * The end of one attempt of a tool's function. `lost`: it is unknown whether the side effect happened; unless
 * `returned`, the function may still be running.
 */
export type Outcome =
  | { type: 'returned'; output: unknown }
  | ChildOutcome
  | { type: 'threw'; error: unknown }
  | { type: 'lost'; reason: string; returned: boolean };

/** How long the function of a timed-out call may take to end, in ms, before the call becomes in doubt. */
const RETURN_GRACE_MS = 1_000;

/** A result before shortening. */
export type FullResult = { output: JsonValue; isError: boolean };

type Ended = Extract<Outcome, { type: 'returned' | 'threw' | 'lost' }>;

/** Whether the function has returned or thrown, so it can have no further side effect. */
export function hasReturned(outcome: Outcome): outcome is Ended {
  return (
    outcome.type === 'returned' || outcome.type === 'threw' || (outcome.type === 'lost' && outcome.returned)
  );
}

/** Returns the result of an attempt that ended late; `text` is the JSON of its output. */
export function describeLate(outcome: Ended): FullResult & { text: string } {
  if (outcome.type !== 'returned') {
    const output = outcome.type === 'threw' ? messageOf(outcome.error) : outcome.reason;
    return { output, isError: true, text: JSON.stringify(output) };
  }
  const read = readOutput(outcome.output);
  if ('fault' in read) return { output: read.fault, isError: false, text: JSON.stringify(read.fault) };
  return { output: read.value, isError: false, text: read.text };
}

/** Returns the outcome if the function ends within its grace time; otherwise `null`. */
export async function endWithin(
  called: Promise<Outcome>,
  host: Host,
  signal: AbortSignal,
): Promise<Outcome | null> {
  const stop = new AbortController();
  const late = sleep(host, RETURN_GRACE_MS, AbortSignal.any([signal, stop.signal])).then(() => null);
  const ended = await Promise.race([called, late]);
  stop.abort();
  return ended;
}

/** Runs a tool's function once. Never rejects. */
export async function callTool(tool: Tool, input: unknown, context: ToolCallContext): Promise<Outcome> {
  try {
    const { callId, runId } = context;
    const running = { runId, callId, tool: tool.name };
    return { type: 'returned', output: await withinCall(running, () => tool.run?.(input, context)) };
  } catch (error) {
    if (isThrown(error, InDoubt)) return { type: 'lost', reason: messageOf(error), returned: true };
    return context.signal.aborted
      ? { type: 'lost', reason: `The call was aborted: ${messageOf(error)}`, returned: true }
      : { type: 'threw', error };
  }
}
