import { useSignal } from '@preact/signals';
import type { Context } from '../../../machines/context.ts';
import { readContent } from '../../../protocol/content/read-content.ts';
import type { Effect } from '../../../protocol/effect.ts';
import type { StreamedEvent } from '../data/request.ts';
import { formatClock, formatEvent, formatJson, formatLength } from '../render/format.ts';
import { showSafely } from '../render/show-safely.ts';
import { ReadableValue } from '../ui/readable-value.tsx';
import { LongText, Safe } from '../ui/text.tsx';
import { useDesk } from './desk.ts';
import { EntryActions } from './entry-actions.tsx';
import { listFacts, readReply } from './entry-facts.ts';

const VIEWS = ['Reply', 'Request', 'Effects', 'Raw event'] as const;

/** One entry: its facts, the reason for the chart's decision, and the effects that the chart requested. */
export function Inspector() {
  const { model, source, tab } = useDesk();
  const chosen = useSignal<(typeof VIEWS)[number]>('Reply');
  const at = model.at.value;
  const event = model.entry(at);
  if (event === undefined) return <aside class="pane inspector" aria-label="Inspector" />;
  const { taken } = model.shown.value;
  return (
    <aside class="pane inspector" aria-label="Inspector">
      <h2>
        Entry {at} · <span class="mono">{event.type}</span> · <time>{formatClock(event.at)}</time>
      </h2>
      {taken.decisions.map(({ type, why }) => (
        <p key={`${type} ${why}`} class="decided">
          → <strong class="mono">{type}</strong> <Safe text={why} />
        </p>
      ))}
      <dl class="facts-table">
        {listFacts(event, model).map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>
              <Safe text={value} />
            </dd>
          </div>
        ))}
      </dl>
      <fieldset class="tabs small" aria-label="Part of the entry">
        {VIEWS.map(name => (
          <button
            key={name}
            type="button"
            aria-pressed={chosen.value === name}
            onClick={() => {
              chosen.value = name;
            }}
          >
            {name}
          </button>
        ))}
      </fieldset>
      <section
        class="inspected"
        aria-label={`${chosen.value} of entry ${at}`}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls has to be reachable by keyboard.
        tabIndex={0}
      >
        {chosen.value === 'Reply' ? (
          <Reply key={at} event={event} isToldBeside={tab.value === 'conversation'} />
        ) : (
          <LongText
            key={`${at} ${chosen.value}`}
            text={readPart(chosen.value, event, taken.effects, model.before.value.context)}
            kind="mono"
          />
        )}
      </section>
      {'captured' in event && source.live ? (
        <p>
          <a href={`/runs/${encodeURIComponent(model.runId)}/entries/${at}/requests`}>
            Request to the provider and its reply
          </a>
        </p>
      ) : null}
      <EntryActions event={event} />
    </aside>
  );
}

/** What an entry brought: a text, the calls of a reply, a result. The conversation has a reply's text in full. */
function Reply({ event, isToldBeside }: { event: StreamedEvent; isToldBeside: boolean }) {
  if ('output' in event && event.output !== undefined && readContent(event.output) === undefined)
    return <ReadableValue value={event.output} />;
  if (event.type !== 'turn.completed') return <LongText text={readReply(event)} kind="mono" />;
  const { text, calls } = event;
  const told = isToldBeside ? `The text of ${formatLength(text.length)} is in the conversation.` : text;
  return (
    <>
      {text === '' ? null : <LongText text={told} kind={isToldBeside ? 'mono' : 'prose'} />}
      {calls.map(({ callId, name, input }) => (
        <section key={callId} class="replied">
          <h3>
            <Safe text={name} class="mono" />
          </h3>
          <ReadableValue value={input} />
        </section>
      ))}
    </>
  );
}

function readPart(
  part: Exclude<(typeof VIEWS)[number], 'Reply'>,
  event: StreamedEvent,
  effects: readonly Effect[],
  before: Context | null,
): string {
  switch (part) {
    case 'Request':
      return before === null ? 'Before this entry there was no run.' : describeRequest(before);
    case 'Effects':
      return effects.length === 0
        ? 'The chart requested no effects.'
        : effects.map(describeEffect).join('\n');
    case 'Raw event':
      return formatEvent(event);
  }
}

function describeEffect(effect: Effect): string {
  switch (effect.type) {
    case 'start':
      return `start ${effect.service} ${formatJson(effect.input).replace(/\s+/g, ' ')}`;
    case 'stop':
      return `stop ${effect.id}`;
    case 'publish':
      return effect.notice.type === 'decided'
        ? `publish decided: ${effect.notice.next.type}`
        : `publish ${effect.notice.type}`;
  }
}

/** Describes the request of a model call at this position. */
function describeRequest({ config, params, turn, transcript, inbox }: Context): string {
  const model = config.models[turn.model];
  return [
    `model ${model === undefined ? 'unknown' : `${model.provider}:${model.model}`}, turn ${turn.number}, attempt ${turn.attempt}`,
    `${transcript.length} items${inbox.length === 0 ? '' : `, and ${inbox.length} messages`}`,
    ...(Object.keys(params).length === 0 ? [] : [`parameters ${formatJson(params)}`]),
    '',
    ...transcript.slice(-12).map(item => showSafely(formatJson(item))),
  ].join('\n');
}
