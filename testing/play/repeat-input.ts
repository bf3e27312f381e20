import { repeatCommand } from '../../engine/log/command.ts';
import type { CommandResult } from '../../engine/log/refusal.ts';
import type { RecordedEvent } from '../../engine/replay/record-run.ts';
import type { Run } from '../../engine/run/run.ts';
import type { InputEvent } from '../../protocol/event.ts';
import { omitUndefined } from '../../protocol/json.ts';
import type { RunCommand } from '../../protocol/run-command.ts';

/** Submits a recorded input again. Throws an `Error` that says why it was refused. */
export async function repeatInput(run: Run, event: RecordedInput): Promise<void> {
  const result =
    event.type === 'transcript.edited' ? await edit(run, event) : await run.submit([commandOf(run, event)]);
  if (!result.accepted) throw new Error(`the command was refused: ${result.message}`);
}

/** A review has another id than in the recording. */
function commandOf(run: Run, event: Exclude<RecordedInput, { type: 'transcript.edited' }>): RunCommand {
  const command = repeatCommand(event);
  const id = run.context.review?.id;
  return event.type === 'review.decided' && 'callId' in command && id !== undefined
    ? { ...command, callId: id }
    : command;
}

/** What became of a call in the run itself: its result, its doubt, or that its work has begun in the background. */
export type OutcomeEvent = Extract<
  RecordedEvent,
  { type: 'tool.settled' | 'tool.doubted' | 'tool.suspended' }
>;

/** What a person or a client gave a recorded run, or work in the background. */
export type RecordedInput = Extract<RecordedEvent, { type: InputEvent['type'] }>;
type Edited = Extract<RecordedInput, { type: 'transcript.edited' }>;

/** An edit that drops the result of a known call was a `retry` of that call. */
async function edit(run: Run, { items, calls, results = [], by }: Edited): Promise<CommandResult> {
  const sender = omitUndefined({ by });
  const kept = new Set(results.map(({ callId }) => callId));
  const known = run.context.transcript.flatMap(item => (item.type === 'tool_result' ? [item.callId] : []));
  const again = calls.find(({ callId }) => !kept.has(callId) && known.includes(callId));
  return again === undefined
    ? await run.editTranscript(items, sender)
    : await run.retry(again.callId, sender);
}
