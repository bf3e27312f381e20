import { useSignal } from '@preact/signals';
import { useRef } from 'preact/hooks';
import type { Context } from '../../../machines/context.ts';
import type { Effect } from '../../../protocol/effect.ts';
import type { JsonValue } from '../../../protocol/json.ts';
import { formatCost } from '../../../protocol/listing/cost.ts';
import { formatDuration } from '../../../protocol/listing/format-duration.ts';
import { formatNumber } from '../../../protocol/listing/format-number.ts';
import { textOf } from '../../../protocol/message.ts';
import { countKept, describeBreak, describeCached, describeReplaced } from '../../describe-event.ts';
import { useShortcuts } from '../app/keyboard.ts';
import { later } from '../app/later.tsx';
import { mayOperate } from '../data/caller.ts';
import { runPath, type StreamedEvent } from '../data/request.ts';
import { reasonOf } from '../model/journal-fold.ts';
import type { RunModel } from '../model/run-model.ts';
import { tellSummary } from '../model/run-story.ts';
import {
  formatCount,
  formatJson,
  formatLength,
  formatPreview,
  formatReply,
  formatTimeOfDay,
  formatUsage,
  showSafe,
} from '../render/format.ts';
import { Button } from '../ui/button.tsx';
import { useCopy } from '../ui/copy-menu.tsx';
import { type Fact, Facts, LongText, Safe } from '../ui/text.tsx';
import { ActionButton } from '../ui/two-presses.tsx';
import { ReadableValue, Value } from '../ui/value.tsx';
import { useDesk } from './desk.ts';
import { breakpointBeforeNext } from './steering/breakpoints.ts';

export function Inspector() {
  const { model, source, tab } = useDesk();
  const chosen = useSignal<(typeof VIEWS)[number]>('Reply');
  const at = model.at.value;
  const event = model.entry(at);
  if (event === undefined) return <aside class="pane inspector" aria-label="Inspector" />;
  const { taken, context } = model.shown.value;
  return (
    <aside class="pane inspector" aria-label="Inspector">
      <h2>
        Entry {at} · <span class="mono">{event.type}</span> · <time>{formatTimeOfDay(event.at)}</time>
      </h2>
      {taken.decisions.map(next => (
        <p key={next.why} class="decided">
          → <strong class="mono">{next.type}</strong> <Safe text={reasonOf(next, context)} />
        </p>
      ))}
      <Facts of={listFacts(event, model)} />
      <fieldset class="tabs small" aria-label="Part of the entry">
        {VIEWS.map(name => (
          <Button
            key={name}
            label={name}
            aria-pressed={chosen.value === name}
            onClick={() => (chosen.value = name)}
          />
        ))}
      </fieldset>
      <section
        class="inspected"
        aria-label={`${chosen.value} of entry ${at}`}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls has to be reachable by keyboard.
        tabIndex={0}
      >
        <Part
          key={`${at} ${chosen.value}`}
          view={chosen.value}
          event={event}
          isToldBeside={tab.value === 'conversation'}
        />
      </section>
      {'captured' in event && source.live && (
        <p>
          <a href={`${runPath(model.runId)}/entries/${at}/requests`}>Request to the provider and its reply</a>
        </p>
      )}
      <EntryActions event={event} />
    </aside>
  );
}

type ReplyProps = { event: StreamedEvent; isToldBeside: boolean };

function Part({ view, event, isToldBeside }: ReplyProps & { view: (typeof VIEWS)[number] }) {
  const { model } = useDesk();
  switch (view) {
    case 'Reply':
      return <Reply event={event} isToldBeside={isToldBeside} />;
    case 'Request':
      return <LongText text={describeRequest(model.before.value.context)} kind="mono" />;
    case 'Effects': {
      const effects = model.shown.value.taken.effects.map(describeEffect).join('\n');
      return <LongText text={effects || 'The chart requested no effects.'} kind="mono" />;
    }
    case 'Raw event':
      return <Value value={event as JsonValue} path="" />;
  }
}

function Reply({ event, isToldBeside }: ReplyProps) {
  if ('output' in event && event.output !== undefined)
    return <ReadableValue value={event.output} path="output" />;
  if (event.type !== 'turn.completed') return <LongText text={readReply(event)} kind="mono" />;
  const { text, calls } = event;
  const told = isToldBeside ? `The text of ${formatLength(text.length)} is in the conversation.` : text;
  return (
    <>
      {text !== '' && <LongText text={told} kind={isToldBeside ? 'mono' : 'prose'} />}
      {calls.map(({ callId, name, input }, index) => (
        <section key={callId} class="replied">
          <Safe in="h3" text={name} class="mono" />
          <ReadableValue value={input} path={`calls[${index}].input`} />
        </section>
      ))}
    </>
  );
}

const VIEWS = ['Reply', 'Request', 'Effects', 'Raw event'] as const;

function describeEffect(effect: Effect): string {
  if (effect.type === 'stop') return `stop ${effect.id}`;
  if (effect.type === 'start')
    return `start ${effect.service} ${formatJson(effect.input).replace(/\s+/g, ' ')}`;
  const { notice } = effect;
  return `publish ${notice.type}${notice.type === 'decided' ? `: ${notice.next.type}` : ''}`;
}

function describeRequest(context: Context | null): string {
  if (context === null) return 'Before this entry there was no run.';
  const { config, params, turn, transcript, inbox } = context;
  const model = config.models[turn.model];
  return [
    `model ${model === undefined ? 'unknown' : `${model.provider}:${model.model}`}, turn ${turn.number}, attempt ${turn.attempt}`,
    `${transcript.length} items${inbox.length === 0 ? '' : `, and ${inbox.length} messages`}`,
    ...(Object.keys(params).length === 0 ? [] : [`parameters ${formatJson(params)}`]),
    '',
    ...transcript.slice(-12).map(item => showSafe(formatJson(item))),
  ].join('\n');
}

const ForkPanel = later(async () => (await import('../app/more-parts.ts')).ForkPanel);

function EntryActions({ event }: { event: StreamedEvent }) {
  const desk = useDesk();
  const mayFork = desk.source.live && mayOperate();
  const isForking = desk.forking;
  const buttons = useRef<HTMLDivElement>(null);
  const leave = (): void => {
    isForking.value = false;
    buttons.current?.querySelector('button')?.focus();
  };
  const next = desk.isSteered ? breakpointBeforeNext(desk) : undefined;
  const [copyLabel, copy] = useCopy('Copy link', () => {
    const url = new URL(location.href);
    url.searchParams.set('at', String(event.seq));
    return url.href;
  });
  const fork = async () => (isForking.value = !isForking.peek());
  const breakHere = async () => (desk.breaking.value = next ?? null);
  const actions = [
    mayFork && (['f', 'fork here', 'Fork here…', fork] as const),
    next && (['b', 'break before the next action', 'Break before this', breakHere] as const),
    ['y', 'copy a link to this entry', copyLabel, copy] as const,
  ].filter(action => action !== false && action !== undefined);
  useShortcuts(
    'Entry',
    actions.map(([key, does, , act]) => ({ keys: [key], does, run: () => void act() })),
  );
  return (
    <>
      {mayFork && isForking.value && <ForkPanel key={event.seq} at={event.seq} onLeave={leave} />}
      <div class="buttons entry-actions" ref={buttons}>
        {actions.map(([key, , label, act]) => (
          <ActionButton key={key} label={label} act={act} keys={key} />
        ))}
      </div>
    </>
  );
}

const SHORT = 160;

function listFacts(event: StreamedEvent, model: RunModel): Fact[] {
  if ('startedAt' in event) return listRequestFacts(event, model);
  return [
    'callId' in event && ['tool', model.story.nameOf(event.callId)],
    ...Object.entries(event).map(
      ([name, value]): Fact => !HIDDEN.has(name) && [name, formatPreview((value ?? '') as JsonValue, SHORT)],
    ),
  ];
}

/** What is known of a request to a model, with any outcome. */
function listRequestFacts(
  event: Extract<StreamedEvent, { startedAt: number }>,
  { story, shown, before }: RunModel,
): Fact[] {
  const rows = story.rows.filter(({ seq }) => seq === event.seq);
  const completed = event.type === 'turn.completed' && event;
  const compacted = event.type === 'transcript.compacted' && event;
  const error = 'error' in event && event.error;
  const usage = 'usage' in event && event.usage;
  const cached = usage ? describeCached(usage) : '';
  const tokens = rows.find(row => 'compaction' in row)?.tokens ?? 0;
  const broken = rows.find(row => 'broken' in row);
  const cost = (shown.value.context?.cost ?? 0) - (before.value.context?.cost ?? 0);
  return [
    completed && ['model', `${completed.provider}:${completed.model}`],
    error && ['failed', `${error.code}${error.status === undefined ? '' : ` (HTTP ${error.status})`}`],
    ...(compacted ? compactionFacts(compacted) : []),
    ['took', formatDuration(event.at - event.startedAt)],
    tokens > 0 && ['before', `${formatNumber(tokens)} tokens`],
    usage && ['tokens', formatUsage(usage, 'tokens')],
    cached !== '' && ['cache', cached],
    broken
      ? ['prefix', describeBreak(broken.broken, broken.cost)]
      : 'broken' in event && ['prefix', describeBreak(event.broken)],
    cost > 0 && ['cost', formatCost(cost)],
    'retryAt' in event && ['retry at', formatTimeOfDay(event.retryAt)],
    completed && finishOf(completed),
  ];
}

function finishOf({ calls, finishReason }: Extract<StreamedEvent, { type: 'turn.completed' }>): Fact {
  if (calls.length === 0) return ['finish', finishReason];
  return ['calls', calls.map(({ name, gate }) => `${name}${gate ? ' (needs approval)' : ''}`).join(', ')];
}

function compactionFacts(compacted: Extract<StreamedEvent, { type: 'transcript.compacted' }>): Fact[] {
  const { deeds, stay } = countKept(compacted);
  return [
    ['replaced', describeReplaced(compacted)],
    stay > 0 && ['kept', formatCount(stay, 'item')],
    deeds > 0 && ['deeds', formatNumber(deeds)],
  ];
}

/** The members of entries that are shown elsewhere, or say nothing to a person. */
const HIDDEN = new Set('type at seq runId generation config tools format chart requestId'.split(' '));

function readReply(event: StreamedEvent): string {
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
    case 'compaction.failed':
      return event.error.message;
    case 'transcript.compacted':
      return tellSummary(event);
    case 'answer.checked':
      return event.text ?? formatJson(event.output ?? null);
    case 'answer.blocked':
      return event.reason;
    case 'approval.decided':
      return formatJson(event.decision);
    case 'doubt.resolved':
      return formatJson(event.resolution);
    default:
      return 'This entry brought no text.';
  }
}
