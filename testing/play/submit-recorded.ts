import type { CommandResult } from '../../engine/log/refusal.ts';
import type { RecordedEvent } from '../../engine/replay/record-run.ts';
import type { Run } from '../../engine/run/run.ts';
import type { InputEvent } from '../../protocol/event.ts';
import { omitUndefined } from '../../protocol/json.ts';

/** A recorded event that came from a person or a client. */
export type RecordedInput = Extract<RecordedEvent, { type: InputEvent['type'] }>;
type Of<Type extends RecordedInput['type']> = Extract<RecordedInput, { type: Type }>;

/** Submits the command that a recorded event came from. */
export async function submitRecorded(run: Run, event: RecordedInput): Promise<CommandResult> {
  const by = omitUndefined({ by: event.by });
  switch (event.type) {
    case 'message.received':
      return await run.send(event.items, by);
    case 'approval.decided':
      return await decide(run, event, by);
    case 'result.received':
      return await run.answer(event.callId, { output: event.output, isError: event.isError, ...by });
    case 'doubt.resolved':
      return await resolve(run, event, by);
    case 'transcript.edited':
      return await edit(run, event, by);
    case 'turn.edited': {
      const calls = event.calls.map(({ callId, name, input }) => ({ callId, name, input }));
      return await run.editTurn({ text: event.text, calls, ...by });
    }
    case 'call.edited':
      return await run.editCall(event.callId, { input: event.call.input, ...by });
    case 'breakpoints.set':
      return await run.setBreakpoints(event.breakpoints, by);
    case 'params.changed':
      return await run.setParams(event.params, by);
    case 'pause.requested':
      return await run.pause(by);
    case 'step.requested':
      return await run.step(by);
    case 'run.unpaused':
      return await run.unpause(by);
    case 'run.cancelled':
      return await run.cancel({ ...by, ...omitUndefined({ reason: event.reason }) });
  }
}

type By = { by?: string };

async function decide(run: Run, { callId, decision, sticky }: Of<'approval.decided'>, by: By) {
  const options = { ...by, ...omitUndefined({ sticky }) };
  switch (decision.type) {
    case 'approve':
      return await run.approve(callId, { ...options, ...omitUndefined({ input: decision.input }) });
    case 'reject':
      return await run.reject(callId, { ...options, ...omitUndefined({ reason: decision.reason }) });
    case 'answer':
      return await run.answer(callId, { output: decision.output, ...by });
  }
}

async function resolve(run: Run, { callId, resolution }: Of<'doubt.resolved'>, by: By) {
  switch (resolution.type) {
    case 'retry':
      return await run.resolve(callId, { retry: true, force: true, ...by });
    case 'happened':
      return await run.resolve(callId, { happened: true, output: resolution.output, ...by });
    case 'failed':
      return await run.resolve(callId, { failed: resolution.reason, ...by });
  }
}

/** An edit that drops the result of a known call was a `retry` of that call. */
async function edit(run: Run, { items, calls, results = [] }: Of<'transcript.edited'>, by: By) {
  const kept = new Set(results.map(({ callId }) => callId));
  const known = run.context.transcript.flatMap(item => (item.type === 'tool_result' ? [item.callId] : []));
  const again = calls.find(({ callId }) => !kept.has(callId) && known.includes(callId));
  return again === undefined ? await run.editTranscript(items, by) : await run.retry(again.callId, by);
}
