import type { RunEvent } from '../../../protocol/event.ts';
import type { Item } from '../../../protocol/item.ts';
import { textOf } from '../../../protocol/message.ts';
import { shortenOwnerName } from '../../../protocol/owner-name.ts';
import { formatNumber, formatSpan, formatValue } from './format.ts';
import { shorten } from './show-safely.ts';

const SHORT = 110;

/** The key facts of an event on one line, fit to be shown. `nameOf` gives a call's tool. */
export function describeEvent(event: RunEvent, nameOf: (callId: string) => string): string {
  switch (event.type) {
    case 'run.started':
      return `${shorten(event.agent.name, 40)}: ${describeItems(event.input)}`;
    case 'message.received':
      return `${describeItems(event.items)}${by(event)}`;
    case 'approval.decided':
      return `${nameOf(event.callId)} ${DECIDED[event.decision.type]}${event.sticky === true ? ', for later calls too' : ''}${by(event)}`;
    case 'result.received':
      return `${nameOf(event.callId)} ${formatValue(event.output, SHORT)}${by(event)}`;
    case 'doubt.resolved':
      return `${nameOf(event.callId)} ${event.resolution.type}${by(event)}`;
    case 'transcript.edited':
      return `${event.items.length} items${by(event)}`;
    case 'params.changed':
      return `${shorten(Object.keys(event.params).join(', '), SHORT)}${by(event)}`;
    case 'pause.requested':
    case 'step.requested':
    case 'run.unpaused':
      return by(event).trim();
    case 'cancel.requested':
      return [shorten(event.reason ?? '', SHORT), by(event).trim()].filter(Boolean).join(' ');
    case 'run.quarantined':
      return shorten(event.reason, SHORT);
    case 'run.cancelled':
      return [shorten(event.reason ?? '', SHORT), by(event).trim()].filter(Boolean).join(' ');
    case 'turn.completed':
      return describeTurn(event);
    case 'turn.failed':
      return `${event.error.code}${event.retryable ? ', may be tried again' : ''}`;
    case 'tool.started':
      return `${nameOf(event.callId)}${event.attempt > 1 ? `, attempt ${event.attempt}` : ''}`;
    case 'tool.settled':
      return `${nameOf(event.callId)} ${event.isError ? 'error ' : ''}${formatValue(event.output, SHORT)}`;
    case 'tool.late':
      return `${nameOf(event.callId)} ${event.isError ? 'error ' : ''}${formatValue(event.output, SHORT)}${event.contradicts === undefined ? '' : ` — contradicts what was recorded: ${shorten(event.contradicts, SHORT)}`}`;
    case 'tool.interrupted':
      return `${nameOf(event.callId)}, its process ended`;
    case 'tool.doubted':
      return `${nameOf(event.callId)} ${shorten(event.reason, SHORT)}`;
    case 'tool.suspended':
      return `${nameOf(event.callId)} waits for ${shorten(event.childRunId, 60)}`;
    case 'finishers.rejected':
      return shorten(event.feedback, SHORT);
    case 'run.claimed':
      return `epoch ${event.epoch}, ${shorten(shortenOwnerName(event.by), 60)}`;
    case 'run.noted':
      return shorten(event.by, 60);
    case 'run.redacted':
      return shorten(event.paths.join(', '), SHORT);
    case 'text.started':
    case 'calls.started':
    case 'timer.fired':
    case 'finishers.completed':
      return '';
  }
}

const DECIDED = { approve: 'approved', reject: 'rejected', answer: 'answered' } as const;

function describeTurn({
  finishReason,
  calls,
  usage,
  dropped,
  at,
  startedAt,
}: Extract<RunEvent, { type: 'turn.completed' }>): string {
  const names = [...new Set(calls.map(({ name }) => name))];
  return [
    finishReason,
    ...(names.length === 0 ? [] : [shorten(names.join(' '), 60)]),
    formatSpan(at - startedAt),
    ...(usage === null
      ? []
      : [`${formatNumber(usage.inputTokens)} → ${formatNumber(usage.outputTokens)} tokens`]),
    ...(dropped === undefined ? [] : [`without ${dropped.length} items of another provider`]),
  ].join(' · ');
}

function describeItems(items: readonly Item[]): string {
  return shorten(items.map(textOf).filter(Boolean).join(' '), SHORT);
}

function by(event: { by?: string }): string {
  return event.by === undefined ? '' : ` by ${shorten(event.by, 60)}`;
}
