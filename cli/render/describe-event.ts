import type { RunEvent } from '../../protocol/event.ts';
import type { Item } from '../../protocol/item.ts';
import type { JsonValue } from '../../protocol/json.ts';
import { textOf } from '../../protocol/message.ts';
import { shortenOwnerName } from '../../protocol/owner-name.ts';
import type { Usage } from '../../protocol/turn.ts';
import { formatClock, formatSpan } from './format-time.ts';
import { shorten } from './show-safely.ts';

const MAX_LENGTH = 120;

/** Why a call was interrupted. */
export const INTERRUPTED = 'interrupted: its process stopped before the outcome was recorded';

/** Describes the main facts of an event on one line. */
export function describeEvent(event: RunEvent): string {
  switch (event.type) {
    case 'run.started':
      return `agent ${event.agent.name} on ${nameModels(event.config.models)}${describeFork(event)}: ${describeItems(event.input)}`;
    case 'message.received':
      return `${describeItems(event.items)}${by(event)}`;
    case 'approval.decided':
      return `${event.callId} ${describeDecision(event)}${event.sticky === true ? ', including later calls' : ''}${by(event)}`;
    case 'result.received':
      return `${event.callId} ${event.isError ? 'error ' : ''}${showValue(event.output)}${by(event)}`;
    case 'doubt.resolved':
      return `${event.callId} ${describeResolution(event.resolution)}${by(event)}`;
    case 'transcript.edited':
      return `${event.items.length} items, ${event.calls.length} calls to run${by(event)}`;
    case 'params.changed':
      return `${Object.keys(event.params).join(', ') || "reset to the agent's"}${by(event)}`;
    case 'pause.requested':
    case 'step.requested':
    case 'run.unpaused':
      return by(event).trim();
    case 'cancel.requested':
      return [event.reason ?? '', `deadline ${formatClock(event.deadline)}`, by(event).trim()]
        .filter(Boolean)
        .join(', ');
    case 'run.quarantined':
      return shorten(event.reason, MAX_LENGTH);
    case 'run.cancelled':
      return [event.reason ?? '', describeUnsettled(event.unsettled), by(event).trim()]
        .filter(Boolean)
        .join(', ');
    case 'text.started':
    case 'calls.started':
    case 'timer.fired':
      return '';
    case 'turn.completed':
      return describeTurn(event);
    case 'turn.failed':
      return `${describeFailedTurn(event)}${event.retryAt === undefined ? '' : `; retry at ${formatClock(event.retryAt)}`}`;
    case 'tool.started':
      return `${event.callId} attempt ${event.attempt}`;
    case 'tool.settled':
      return `${event.callId} ${event.isError ? 'error ' : ''}${showValue(event.output)}`;
    case 'tool.late':
      return `${event.callId} ${event.isError ? 'error ' : ''}${showValue(event.output)}${event.contradicts === undefined ? '' : `; CONTRADICTION: ${event.contradicts}`}`;
    case 'tool.interrupted':
      return `${event.callId} ${INTERRUPTED}`;
    case 'tool.doubted':
      return `${event.callId} ${shorten(event.reason, MAX_LENGTH)}`;
    case 'tool.suspended':
      return `${event.callId} waits for run ${event.childRunId}`;
    case 'finishers.completed':
      return event.text === undefined ? '' : shorten(event.text, MAX_LENGTH);
    case 'finishers.rejected':
      return shorten(event.feedback, MAX_LENGTH);
    case 'run.claimed':
      return describeClaim(event);
    case 'run.noted':
      return `by ${event.by}`;
    case 'run.redacted':
      return `${event.paths.join(', ')}${by(event)}`;
  }
}

function describeClaim({ epoch, by, replaces }: Extract<RunEvent, { type: 'run.claimed' }>): string {
  const place = replaces === undefined ? '' : `, replaces ${shortenOwnerName(replaces)}`;
  return `epoch ${epoch}, ${shortenOwnerName(by)}${place}`;
}

function describeFork({ forkOf }: Extract<RunEvent, { type: 'run.started' }>): string {
  return forkOf === undefined ? '' : `, fork of ${forkOf.runId} at ${forkOf.at}`;
}

/** Describes a completed turn: model, finish reason, calls, duration and tokens. */
export function describeTurn(event: Extract<RunEvent, { type: 'turn.completed' }>): string {
  const calls = event.calls.map(call => call.name);
  return [
    event.model,
    event.finishReason,
    ...(calls.length === 0 ? [] : [`calls ${countNames(calls)}`]),
    formatSpan(event.at - event.startedAt),
    ...(event.usage === null ? [] : [describeUsage(event.usage)]),
    ...(event.dropped === undefined ? [] : [`${event.dropped.length} items of another provider dropped`]),
  ].join(', ');
}

function countNames(names: readonly string[]): string {
  const counts = new Map<string, number>();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  return [...counts].map(([name, count]) => (count === 1 ? name : `${name} × ${count}`)).join(', ');
}

/** Describes the error of a failed turn. */
export function describeFailedTurn({ error }: Extract<RunEvent, { type: 'turn.failed' }>): string {
  const status = error.status === undefined ? '' : ` (HTTP ${error.status})`;
  return `${error.code}${status}: ${shorten(error.message, 4 * MAX_LENGTH)}`;
}

/** Describes token usage: `1200 tokens in, 80 out`. */
export function describeUsage({ inputTokens, outputTokens }: Usage): string {
  return `${inputTokens} tokens in, ${outputTokens} out`;
}

/** Lists models as `provider:model`, in order of preference. */
export function nameModels(models: readonly { provider: string; model: string }[]): string {
  return models.map(({ provider, model }) => `${provider}:${model}`).join(', then ');
}

/** Returns a value on one line, cut to `length` characters. */
export function showValue(value: JsonValue, length = MAX_LENGTH): string {
  return shorten(typeof value === 'string' ? value : JSON.stringify(value), length);
}

function describeItems(items: readonly Item[]): string {
  return JSON.stringify(shorten(items.map(textOf).filter(Boolean).join(' '), MAX_LENGTH));
}

function describeDecision({ decision }: Extract<RunEvent, { type: 'approval.decided' }>): string {
  switch (decision.type) {
    case 'approve':
      return decision.input === undefined ? 'approved' : `approved with ${showValue(decision.input)}`;
    case 'reject':
      return decision.reason === undefined ? 'rejected' : `rejected: ${shorten(decision.reason, MAX_LENGTH)}`;
    case 'answer':
      return `answered ${showValue(decision.output)}`;
  }
}

function describeResolution(resolution: Extract<RunEvent, { type: 'doubt.resolved' }>['resolution']): string {
  switch (resolution.type) {
    case 'retry':
      return resolution.force === true ? 'retry forced; an earlier attempt may still take effect' : 'retry';
    case 'happened':
      return `happened: ${showValue(resolution.output)}`;
    case 'failed':
      return `failed: ${shorten(resolution.reason, MAX_LENGTH)}`;
  }
}

function describeUnsettled(unsettled: readonly string[]): string {
  return unsettled.length === 0 ? '' : `without a result: ${unsettled.join(', ')}`;
}

function by(event: { by?: string }): string {
  return event.by === undefined ? '' : ` by ${event.by}`;
}
