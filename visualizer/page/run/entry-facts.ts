import { textOf } from '../../../protocol/message.ts';
import type { StreamedEvent } from '../data/request.ts';
import type { RunModel } from '../model/run-model.ts';
import {
  formatClock,
  formatCost,
  formatJson,
  formatNumber,
  formatOutput,
  formatReply,
  formatSpan,
  formatState,
} from '../render/format.ts';
import { shorten } from '../render/show-safely.ts';

const SHORT = 160;

/** Returns the facts of an entry, by name. */
export function listFacts(event: StreamedEvent, model: RunModel): [string, string][] {
  switch (event.type) {
    case 'turn.completed': {
      const { usage, calls, provider, model: name, finishReason, at, startedAt } = event;
      const cost = (model.shown.value.context?.cost ?? 0) - (model.before.value.context?.cost ?? 0);
      return [
        ['model', `${provider}:${name}`],
        ['took', formatSpan(at - startedAt)],
        ...(usage === null ? [] : [pair('tokens', describeTokens(usage))]),
        ...(cost > 0 ? [pair('cost', formatCost(cost))] : []),
        ...(calls.length === 0
          ? [pair('finish', finishReason)]
          : [pair('calls', calls.map(call => `${call.name}${call.gate ? ' (gated)' : ''}`).join(', '))]),
      ];
    }
    case 'turn.failed': {
      const { error, at, startedAt, retryAt } = event;
      return [
        ['failed', `${error.code}${error.status === undefined ? '' : ` (HTTP ${error.status})`}`],
        ['took', formatSpan(at - startedAt)],
        ['message', shorten(error.message, SHORT)],
        ...(retryAt === undefined ? [] : [pair('retry at', formatClock(retryAt))]),
      ];
    }
    default:
      return [
        ...('callId' in event ? [pair('tool', model.story.nameOf(event.callId))] : []),
        ...Object.entries(event).flatMap(([name, value]) =>
          HIDDEN.has(name)
            ? []
            : [pair(name, shorten(typeof value === 'string' ? value : formatState(value, 2), SHORT))],
        ),
      ];
  }
}

const HIDDEN = new Set([
  'type',
  'at',
  'seq',
  'runId',
  'generation',
  'config',
  'tools',
  'format',
  'chart',
  'requestId',
]);

const pair = (name: string, value: string): [string, string] => [name, value];

function describeTokens({
  inputTokens,
  outputTokens,
  cachedInputTokens,
}: {
  inputTokens: number;
  outputTokens: number;
  cachedInputTokens: number | null;
}): string {
  const cached = cachedInputTokens ? ` (${formatNumber(cachedInputTokens)} cached)` : '';
  return `${formatNumber(inputTokens)} in${cached} → ${formatNumber(outputTokens)}`;
}

/** Returns the text of an entry that is not a reply: a message, a result, a decision. */
export function readReply(event: StreamedEvent): string {
  switch (event.type) {
    case 'run.started':
      return event.input.map(textOf).join('\n\n');
    case 'message.received':
      return event.items.map(textOf).join('\n\n');
    case 'turn.edited':
      return formatReply(event.text, event.calls);
    case 'call.edited':
      return formatReply('', [event.call]);
    case 'turn.failed':
      return event.error.message;
    case 'tool.settled':
    case 'tool.late':
    case 'result.received':
      return formatOutput(event.output);
    case 'finishers.completed':
      return event.text ?? formatJson(event.output ?? null);
    case 'finishers.rejected':
      return event.feedback;
    case 'approval.decided':
      return formatJson(event.decision);
    case 'doubt.resolved':
      return formatJson(event.resolution);
    default:
      return 'This entry brought no text.';
  }
}
