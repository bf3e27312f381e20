import { describeOutput } from '../protocol/content/read-content.ts';
import { describeBreakpoint } from '../protocol/debugger/describe-breakpoint.ts';
import type { CallVerdict, RunEvent } from '../protocol/event.ts';
import type { Item } from '../protocol/item.ts';
import type { JsonValue } from '../protocol/json.ts';
import { type BreakCost, formatCost } from '../protocol/listing/cost.ts';
import { formatNumber } from '../protocol/listing/format-number.ts';
import { textOf } from '../protocol/message.ts';
import { shortenOwnerName } from '../protocol/owner-name.ts';
import type { Broken } from '../protocol/sent.ts';
import type { Usage } from '../protocol/turn.ts';
import { nameModels } from './name-models.ts';

export type EventFormat = {
  shorten(text: string, length: number): string;
  nameCall(callId: string): string;
  formatSpan(ms: number): string;
  formatClock(at: number): string;
};

type Of<Type extends RunEvent['type']> = Extract<RunEvent, { type: Type }>;

const SHORT = 120;

/** The events whose content says who caused them. */
const SAYS_BY: ReadonlySet<string> = new Set(['run.claimed', 'cancel.requested', 'run.cancelled']);

export const INTERRUPTED = 'interrupted: its process stopped before the outcome was recorded';

/** `blocked by the rule "no leaks"` */
export function describeVerdicts(verdicts: readonly CallVerdict[]): string {
  return verdicts
    .map(({ rule, verdict, shadow }) => `${(shadow === true ? SHADOWED : SAID)[verdict]} the rule "${rule}"`)
    .join(', ');
}

const SAID = { block: 'blocked by', ask: 'needs an approval for', stop: 'stopped by' } as const;
const SHADOWED = {
  block: 'would be blocked by',
  ask: 'would need an approval for',
  stop: 'would be stopped by',
} as const;

/** An event in one line, in the words of terminal and page. The caller makes its texts safe to show. */
export function describeEvent(event: RunEvent, format: EventFormat): string {
  const content = describeContent(event, format);
  const line = 'callId' in event ? `${format.nameCall(event.callId)} ${content}` : content;
  if (SAYS_BY.has(event.type) || !('by' in event) || event.by === undefined) return line;
  return line === '' ? `by ${event.by}` : `${line} by ${event.by}`;
}

function describeContent(event: RunEvent, format: EventFormat): string {
  const short = (text: string) => format.shorten(text, SHORT);
  const value = (json: JsonValue) => describeValue(json, format);
  const outcome = ({ isError, output }: { isError: boolean; output: JsonValue }) =>
    `${isError ? 'error ' : ''}${value(output)}`;
  switch (event.type) {
    case 'run.started':
      return `agent ${event.agent.name} on ${nameModels(event.config.models)}${describeFork(event)}: ${describeItems(event.input, format)}`;
    case 'message.received':
      return describeItems(event.items, format);
    case 'approval.decided':
      return `${describeDecision(event, format)}${event.sticky === true ? ', including later calls' : ''}`;
    case 'review.decided':
      return describeReview(event, format);
    case 'result.received':
      return outcome(event);
    case 'question.asked':
      return event.questions.map(({ key, message }) => `${key}: ${short(message)}`).join('; ');
    case 'question.answered':
      return describeAnswers(event, format);
    case 'sign-in.requested':
    case 'sign-in.completed':
      return event.server;
    case 'tool.kept':
      return '';
    case 'doubt.resolved':
      return describeResolution(event, format);
    case 'transcript.edited':
      return `${event.items.length} items, ${event.calls.length} calls to run`;
    case 'turn.edited':
      return `turn ${event.turn}: ${event.calls.length} calls`;
    case 'call.edited':
      return value(event.call.input);
    case 'breakpoints.set':
      return event.breakpoints.map(one => `${one.id} ${describeBreakpoint(one)}`).join('; ') || 'none';
    case 'params.changed':
      return Object.keys(event.params).join(', ') || "reset to the agent's";
    case 'cancel.requested':
      return joinParts(event.reason, `deadline ${format.formatClock(event.deadline)}`, event.by);
    case 'run.quarantined':
    case 'tool.doubted':
      return short(event.reason);
    case 'run.cancelled': {
      const unsettled = event.unsettled.join(', ');
      return joinParts(event.reason, unsettled && `without a result: ${unsettled}`, event.by);
    }
    case 'pause.requested':
    case 'step.requested':
    case 'run.unpaused':
    case 'text.started':
    case 'calls.started':
    case 'timer.fired':
    case 'run.noted':
      return '';
    case 'turn.completed':
      return `${describeTurnEvent(event, format)}${event.broken === undefined ? '' : `, prefix ${describeBreak(event.broken)}`}`;
    case 'turn.failed':
      return `${describeFailedCall(event, format)}${event.retryAt === undefined ? '' : `; retry at ${format.formatClock(event.retryAt)}`}`;
    case 'transcript.compacted':
      return describeCompaction(event, format);
    case 'compaction.failed':
      return `${describeFailedCall(event, format)}; the transcript stays as it is`;
    case 'tool.started':
      return `attempt ${event.attempt}`;
    case 'tool.settled':
      return `${outcome(event)}${describePlayed(event)}`;
    case 'tool.late':
      return `${outcome(event)}${event.contradicts === undefined ? '' : `; CONTRADICTION: ${event.contradicts}`}`;
    case 'tool.interrupted':
      return INTERRUPTED;
    case 'call.judged':
      return describeVerdicts(event.verdicts);
    case 'tool.suspended':
      return event.background === undefined
        ? `waits for run ${event.childRunId}`
        : `works in the background, in run ${event.childRunId}`;
    case 'items.judged':
      return `${event.changes.length === 0 ? 'nothing' : event.changes.length} changed`;
    case 'answer.checked':
      return event.text === undefined ? '' : short(event.text);
    case 'answer.blocked':
    case 'review.requested':
      return short(event.reason);
    case 'run.claimed': {
      const before = event.replaces === undefined ? '' : `, replaces ${shortenOwnerName(event.replaces)}`;
      return `epoch ${event.epoch}, ${shortenOwnerName(event.by)}${before}`;
    }
    case 'run.redacted':
      return event.paths.join(', ');
  }
}

export function describeTurnEvent(
  event: Of<'turn.completed'>,
  format: Pick<EventFormat, 'formatSpan'>,
): string {
  const calls = event.calls.map(call => call.name);
  return [
    event.model,
    event.finishReason,
    ...(calls.length === 0 ? [] : [`calls ${countNames(calls)}`]),
    format.formatSpan(event.at - event.startedAt),
    ...(event.usage === null ? [] : [describeUsage(event.usage)]),
    ...(event.dropped === undefined ? [] : [`${event.dropped.length} items that the model was not given`]),
  ].join(', ');
}

/** `14 items replaced, 2 kept, 3 deeds, 812 ms, 9,000 tokens in, 400 out: They asked for …`. */
function describeCompaction(
  event: Of<'transcript.compacted'>,
  { shorten, formatSpan }: Pick<EventFormat, 'shorten' | 'formatSpan'>,
): string {
  const { summary, items = [], usage, at, startedAt } = event;
  const { deeds, stay } = countKept(event);
  const parts = [
    `${describeReplaced(event)} replaced`,
    ...(stay === 0 ? [] : [`${stay} kept`]),
    ...(deeds === 0 ? [] : [countOf(deeds, 'deed')]),
    formatSpan(at - startedAt),
    ...(usage === null ? [] : [describeUsage(usage)]),
  ].join(', ');
  const text =
    summary === '' ? `by ${countOf(items.length, 'item')} of the provider` : shorten(summary, SHORT);
  return `${parts}: ${text}`;
}

/** How many deeds a compaction recorded, and how many items stay beside its summary. */
export function countKept({
  ledger,
  kept,
  inherited,
}: Pick<Of<'transcript.compacted'>, 'ledger' | 'kept' | 'inherited'>): { deeds: number; stay: number } {
  const deeds = Object.values(ledger.others).reduce((sum, count) => sum + count, ledger.deeds.length);
  return { deeds, stay: kept.length + (inherited?.length ?? 0) };
}

/** What a summary replaces: items of the run, or all that it inherited. */
export function describeReplaced({ upTo, kept, inherited }: Of<'transcript.compacted'>): string {
  const own = countOf(upTo - kept.length, 'item');
  if (inherited === undefined && upTo > 0) return own;
  return upTo === kept.length ? 'the conversation before' : `the conversation before and ${own}`;
}

function countOf(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? '' : 's'}`;
}

export function describeFailedCall(
  { error, ...failed }: Of<'turn.failed'> | Of<'compaction.failed'>,
  { shorten }: Pick<EventFormat, 'shorten'>,
): string {
  const status = error.status === undefined ? '' : ` (HTTP ${error.status})`;
  const broken = 'broken' in failed ? failed.broken : undefined;
  const prefix = broken === undefined ? '' : `; prefix ${describeBreak(broken)}`;
  return `${error.code}${status}: ${shorten(error.message, 4 * SHORT)}${prefix}`;
}

/** `1,200 tokens in (1,000 cached, 150 written), 3 out`. */
export function describeUsage(usage: Usage): string {
  const { inputTokens, outputTokens, estimated } = usage;
  const cached = describeCached(usage);
  const read = `${formatNumber(inputTokens)} tokens in${cached && ` (${cached})`}`;
  return `${read}, ${formatNumber(outputTokens)} out${estimated === true ? ' (estimated)' : ''}`;
}

/** `1,000 cached, 150 written`: what the provider reports of its cache; empty if it reports nothing. */
export function describeCached({ cachedInputTokens, cacheWriteTokens }: Usage): string {
  const parts = [
    ...(cachedInputTokens === null ? [] : [`${formatNumber(cachedInputTokens)} cached`]),
    ...(cacheWriteTokens ? [`${formatNumber(cacheWriteTokens)} written`] : []),
  ];
  return parts.join(', ');
}

/** `broken by trim: 2 thoughts lost, 12,400 tokens read again ($0.0300)`; without `cost` what was lost only. */
export function describeBreak({ by, lost }: Broken, cost?: BreakCost): string {
  const thoughts = lost.length === 0 ? [] : [`${countOf(lost.length, 'thought')} lost`];
  const parts = [...thoughts, ...(cost === undefined ? [] : [describeReadAgain(cost)])];
  return parts.length === 0 ? `broken by ${by}` : `broken by ${by}: ${parts.join(', ')}`;
}

function describeReadAgain({ readAgain, cost }: BreakCost): string {
  if (readAgain === null) return 'an unknown number of tokens read again';
  const money = cost === null || cost === 0 ? '' : ` (${formatCost(cost)})`;
  return `${formatNumber(readAgain)} tokens read again${money}`;
}

/** A JSON value on one line; strings without quotes, images and files in a few words. */
export function describeValue(
  value: JsonValue,
  { shorten }: Pick<EventFormat, 'shorten'>,
  length = SHORT,
): string {
  return shorten(describeOutput(value), length);
}

/** Says that the tool was not executed, and where the result comes from. */
export function describePlayed({ played }: Pick<Of<'tool.settled'>, 'played'>): string {
  return played === undefined ? '' : `, replayed from entry ${played.seq} of ${played.runId}`;
}

function describeFork({ forkOf, config }: Of<'run.started'>): string {
  const plays = config.playsResultsOf === undefined ? '' : ', replaying its tools';
  return forkOf === undefined ? '' : `, fork of ${forkOf.runId} at ${forkOf.at}${plays}`;
}

function countNames(names: readonly string[]): string {
  const equal = Map.groupBy(names, name => name);
  return Array.from(equal, ([name, { length }]) => (length === 1 ? name : `${name} × ${length}`)).join(', ');
}

function describeItems(items: readonly Item[], { shorten }: EventFormat): string {
  return JSON.stringify(shorten(items.map(textOf).filter(Boolean).join(' '), SHORT));
}

function describeDecision({ decision }: Of<'approval.decided'>, format: EventFormat): string {
  switch (decision.type) {
    case 'approve':
      return `approved${decision.input === undefined ? '' : ` with ${describeValue(decision.input, format)}`}`;
    case 'reject':
      return because('rejected', decision.reason, format);
    case 'answer':
      return `answered ${describeValue(decision.output, format)}`;
  }
}

function describeReview({ decision }: Of<'review.decided'>, format: EventFormat): string {
  switch (decision.type) {
    case 'approve':
      return `approved${decision.text === undefined ? '' : ` as ${format.shorten(decision.text, SHORT)}`}`;
    case 'reject':
      return because('sent back', decision.reason, format);
    case 'withdraw':
      return "the original's approvals do not count";
  }
}

function describeAnswers({ answers }: Of<'question.answered'>, format: EventFormat): string {
  const words = Object.entries(answers).map(([key, answer]) =>
    answer.type === 'given'
      ? `${key}: ${describeValue(answer.value, format)}`
      : because(`${key} declined`, answer.reason || undefined, format),
  );
  return words.join('; ');
}

function describeResolution({ resolution }: Of<'doubt.resolved'>, format: EventFormat): string {
  switch (resolution.type) {
    case 'retry':
      return resolution.force === true ? 'retried, although an earlier attempt may still act' : 'retried';
    case 'happened':
      return `happened: ${describeValue(resolution.output, format)}`;
    case 'failed':
      return because('failed', resolution.reason, format);
  }
}

/** `rejected: too expensive` */
function because(what: string, reason: string | undefined, { shorten }: EventFormat): string {
  return reason === undefined ? what : `${what}: ${shorten(reason, SHORT)}`;
}

function joinParts(reason = '', what: string, by: string | undefined): string {
  const parts = [reason.trim(), what, by === undefined ? '' : `by ${by}`.trim()];
  return parts.filter(Boolean).join(', ');
}
