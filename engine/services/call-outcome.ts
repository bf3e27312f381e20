import { InDoubt, isThrown, messageOf } from '../../protocol/error.ts';
import { type JsonValue, toBoundedText } from '../../protocol/json.ts';
import type { Tool, ToolCallContext } from '../../protocol/tool.ts';
import { type Host, sleep } from '../driver/host.ts';
import { withinCall } from '../run/current-call.ts';
import type { ChildOutcome } from '../sub-agents/run-child.ts';

/** How one attempt of a tool's function ended; `lost`: whether it acted is unknown, and it may still act until it has `returned`. */
export type Outcome =
  | { type: 'returned'; output: unknown }
  | ChildOutcome
  | { type: 'threw'; error: unknown }
  | { type: 'lost'; reason: string; returned: boolean };

/** How long the function of a call that timed out may take to end, in ms, before the call is put in doubt. */
const RETURN_GRACE_MS = 1_000;

/** A result before it is cut. */
export type Whole = { output: JsonValue; isError: boolean };

/** What a tool gave, as JSON and its text. */
export function readOutput(output: unknown): { value: JsonValue; text: string } | { fault: string } {
  try {
    const text = toBoundedText(output);
    return { value: JSON.parse(text), text };
  } catch (error) {
    return { fault: `The tool ran, but what it returned could not be recorded: ${messageOf(error)}` };
  }
}

type Ended = Extract<Outcome, { type: 'returned' | 'threw' | 'lost' }>;

/** Whether the function has returned or thrown: it acts no more. */
export function hasReturned(outcome: Outcome): outcome is Ended {
  return (
    outcome.type === 'returned' || outcome.type === 'threw' || (outcome.type === 'lost' && outcome.returned)
  );
}

/** `text` is the output's JSON. */
export function describeLate(outcome: Ended): Whole & { text: string } {
  if (outcome.type !== 'returned') {
    const output = outcome.type === 'threw' ? messageOf(outcome.error) : outcome.reason;
    return { output, isError: true, text: JSON.stringify(output) };
  }
  const read = readOutput(outcome.output);
  if ('fault' in read) return { output: read.fault, isError: false, text: JSON.stringify(read.fault) };
  return { output: read.value, isError: false, text: read.text };
}

/** How the function ended, if it does within its grace time; `null` otherwise. */
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
