// visualizer/page/inbox: the open decisions of all runs.

import { useComputed, useSignal } from '@preact/signals';
import { useEffect, useLayoutEffect, useMemo, useRef } from 'preact/hooks';
import { shortenOwnerName } from '../../../protocol/owner-name.ts';
import type { InboxItem } from '../../../protocol/run-view.ts';
import { useShortcuts } from '../app/keyboard.ts';
import { navigate } from '../app/router.ts';
import { mayDecide, mayOnlyRead } from '../data/caller.ts';
import { type RunView, request, runPath, type StreamedEvent } from '../data/request.ts';
import { sendCommand } from '../data/send-command.ts';
import { useRead } from '../data/server-watch.ts';
import type { EntriesPage, Source } from '../data/source.ts';
import { formatAgo, formatDay, formatMoment, formatSpan } from '../render/format.ts';
import { showSafely } from '../render/show-safely.ts';
import { ActContext } from '../run/decisions/act-context.ts';
import { DecisionForms } from '../run/decisions/decision-forms.tsx';
import { type Act, keyOf as decisionKey } from '../run/decisions/open-decisions.ts';
import { OvertakenNotes, useOvertaken } from '../run/decisions/overtaken.tsx';
import { SeenBox, seenPart } from '../ui/scrolling.tsx';
import { Problem, ReadableValue, Safe } from '../ui/text.tsx';
import { InboxModel, keyOf } from './inbox-model.ts';

const KINDS = { approval: 'approve', result: 'answer', doubt: 'in doubt' } as const;

/** Every open decision of all runs, decided in place. */
export function InboxView({ source }: { source: Source }) {
  const model = useMemo(() => new InboxModel(source), [source]);
  useLayoutEffect(() => model.follow(), [model]);
  const chosen = useSignal<string | null>(null);
  const notice = useSignal('');
  const list = useRef<HTMLUListElement>(null);
  const items = model.items.value;
  const place = useRef(0);
  const found = items.findIndex(item => keyOf(item) === chosen.value);
  const at = found < 0 ? Math.max(0, Math.min(place.current, items.length - 1)) : found;
  if (items.length > 0) place.current = at;
  const item = items[at];
  useFollowChoice(chosen, item, items, notice);
  useOvertaken(
    items.map(({ call }) => call),
    item?.call,
  );
  useEffect(() => {
    document.title = items.length === 0 ? 'Inbox · Agentchart' : `(${items.length}) Inbox · Agentchart`;
  }, [items.length]);
  const choose = (place: number): void => {
    const next = items[Math.min(Math.max(0, place), items.length - 1)];
    if (next === undefined) return;
    chosen.value = keyOf(next);
    focusRow(list.current, keyOf(next));
  };
  useShortcuts('Inbox', [
    { keys: ['j', 'ArrowDown'], does: 'Next decision', repeats: true, run: () => choose(at + 1) },
    { keys: ['k', 'ArrowUp'], does: 'Previous decision', repeats: true, run: () => choose(at - 1) },
    { keys: ['o'], does: 'Open the run', run: () => item !== undefined && navigate(runPath(item.runId)) },
  ]);
  const taken = (done: InboxItem, message: string): void => {
    const next = items[at + 1] ?? items[at - 1];
    notice.value = message;
    chosen.value = next === undefined ? null : keyOf(next);
    model.forget(done);
    requestAnimationFrame(() => {
      if (!focusRow(list.current, chosen.peek())) document.querySelector<HTMLElement>('main h1')?.focus();
    });
  };
  return (
    <main class="inbox">
      <div class="inbox-list">
        <h1 tabIndex={-1}>Inbox</h1>
        <p class="notice" role="status">
          {showSafely(notice.value)}
        </p>
        <OvertakenNotes />
        <Problem text={model.problem.value} />
        <ul ref={list} aria-label="Open decisions">
          {items.map(one => (
            <InboxRow
              key={keyOf(one)}
              item={one}
              isChosen={one === item}
              onChoose={() => (chosen.value = keyOf(one))}
            />
          ))}
        </ul>
        {items.length === 0 && model.isRead.value ? (
          <p class="empty">Nothing to decide. Runs that need a person appear here.</p>
        ) : null}
        {model.next.value === null ? null : (
          <button type="button" onClick={() => void model.read(model.next.peek())}>
            Show more
          </button>
        )}
      </div>
      {item === undefined ? null : (
        <Decision key={decisionKey(item.call)} item={item} onTaken={message => taken(item, message)} />
      )}
    </main>
  );
}

/** Shows a notice when the selected decision was made elsewhere. The next decision takes its place. */
function useFollowChoice(
  chosen: { value: string | null; peek(): string | null },
  item: InboxItem | undefined,
  items: readonly InboxItem[],
  notice: { value: string },
): void {
  useEffect(() => {
    const key = chosen.peek();
    if (key !== null && !items.some(one => keyOf(one) === key)) notice.value = 'Resolved elsewhere.';
    chosen.value = item === undefined ? null : keyOf(item);
  }, [item, items, chosen, notice]);
}

function focusRow(list: HTMLElement | null, key: string | null): boolean {
  const buttons = [...(list?.querySelectorAll<HTMLElement>('button[data-key]') ?? [])];
  const button = buttons.find(one => one.dataset.key === key);
  button?.focus();
  return button !== undefined;
}

function InboxRow({ item, isChosen, onChoose }: { item: InboxItem; isChosen: boolean; onChoose(): void }) {
  const { kind, call, title, agent, since } = item;
  return (
    <li>
      <button
        type="button"
        class="inbox-row"
        data-key={keyOf(item)}
        aria-current={isChosen ? 'true' : undefined}
        onClick={onChoose}
        onFocus={onChoose}
      >
        <span class={`kind is-${kind}`}>{KINDS[kind]}</span>
        <Safe text={call.name} class="mono tool" />
        <time title={formatDay(since)}>{formatAgo(since, Date.now())}</time>
        <Safe text={title || agent} class="title" />
      </button>
    </li>
  );
}

/** The effect of each command, in words. */
const DONE: Readonly<Record<string, string>> = {
  approve: 'Approved',
  reject: 'Rejected',
  answer: 'Answered',
  resolve: 'Resolved',
};

type DecisionProps = { item: InboxItem; onTaken(message: string): void };

function Decision({ item, onTaken }: DecisionProps) {
  const { kind, call, title, agent, since, rootId, runId } = item;
  const problem = useSignal('');
  const act: Act = async ({ type, runId: run = runId, ...body }) => {
    problem.value = '';
    const onLost = (message: string) => (problem.value = message);
    const outcome = await sendCommand(type, body, { runId: run, after: 0, onLost });
    if (outcome.type === 'taken') onTaken(outcome.message ?? `${DONE[type] ?? type}: ${call.name}.`);
    else problem.value = outcome.message;
    return outcome.type === 'taken' ? null : outcome.message;
  };
  const left = useComputed(() => (call.expiresAt === undefined ? null : call.expiresAt - Date.now()));
  return (
    <article class="decision" aria-label={`${KINDS[kind]}: ${showSafely(call.name)}`}>
      <header>
        <h2>
          <Safe text={call.name} class="mono" />
        </h2>
        <p>
          <Safe text={title || agent} />
        </p>
        <p class="muted">
          <a href={runPath(item.runId)}>Open the run</a>
          {rootId === runId ? null : (
            <>
              {' · '}
              <a href={runPath(rootId)}>Its parent</a>
            </>
          )}
          {' · '}
          <Safe text={agent} />
          {` · waits since ${formatMoment(since)}`}
          {left.value === null ? '' : ` · expires in ${formatSpan(Math.max(0, left.value))}`}
        </p>
      </header>
      <div class="inbox-body">
        {call.reason === undefined ? null : (
          <p class="reason">
            <Safe text={call.reason} />
          </p>
        )}
        {kind === 'doubt' ? <WhyInDoubt runId={call.runId} callId={call.callId} /> : null}
        {call.sideEffect === 'once' ? <p class="muted">This call must not run twice.</p> : null}
        <h3>Input</h3>
        <SeenBox id={keyOf(item)} label={`Input of ${showSafely(call.name)}`}>
          <ReadableValue value={call.input} />
        </SeenBox>
      </div>
      <footer>
        <Problem text={problem.value} />
        {mayDecide() ? (
          <ActContext.Provider value={act}>
            <DecisionForms call={call} unseen={seenPart(keyOf(item)).value < 1} isKeyed />
          </ActContext.Provider>
        ) : null}
        {mayOnlyRead() ? <p class="muted">Read-only: you cannot decide here.</p> : null}
      </footer>
    </article>
  );
}

/** The journal's facts about a call in doubt. */
function WhyInDoubt({ runId, callId }: { runId: string; callId: string }) {
  const { answer: facts } = useRead(() => explainDoubt(runId, callId), [runId, callId]);
  return (
    <section class="why-doubt">
      <h3>Why it is in doubt</h3>
      <p>
        The tool was started, and the journal has no result. It may have acted or not. Check where it acts,
        for example at the payment provider by the key below; then decide.
      </p>
      <ol>
        {facts?.map(({ seq, text }) => (
          <li key={seq}>
            <a href={`${runPath(runId)}?at=${seq}`}>{`Entry ${seq}`}</a> <Safe text={text} />
          </li>
        ))}
      </ol>
    </section>
  );
}

const PAGE = 1_000;
const MOST_PAGES = 10;

/** An entry of the journal and what it means, for a person. */
type Fact = { seq: number; text: string };

/** Explains why a call is in doubt: the entries about its start and later events, oldest first. */
async function explainDoubt(runId: string, callId: string): Promise<Fact[]> {
  const events = await readSinceStart(runId, callId);
  const started = events.findIndex(event => event.type === 'tool.started' && event.callId === callId);
  if (started < 0) return [];
  const owner = events.slice(0, started).findLast(event => event.type === 'run.claimed');
  return events.slice(started).flatMap(event => explain(event, callId, owner?.by));
}

/** The newest entries, back to the first start of the call and the claim before it. */
async function readSinceStart(runId: string, callId: string): Promise<StreamedEvent[]> {
  const path = runPath(runId);
  const { seq } = await request<RunView>(path);
  let events: StreamedEvent[] = [];
  for (let before = seq + 1, pages = 0; before > 1 && pages < MOST_PAGES; pages += 1) {
    const page = await request<EntriesPage>(`${path}/entries?before=${before}&limit=${PAGE}`);
    events = [...page.entries, ...events];
    before = page.entries[0]?.seq ?? 1;
    const started = events.findIndex(event => event.type === 'tool.started' && event.callId === callId);
    if (events.slice(0, Math.max(0, started)).some(event => event.type === 'run.claimed')) break;
  }
  return events;
}

function explain(event: StreamedEvent, callId: string, owner: string | undefined): Fact[] {
  const fact = (text: string): Fact[] => [{ seq: event.seq, text: `${formatMoment(event.at)}: ${text}` }];
  if (event.type === 'run.claimed') {
    if (event.replaces === undefined) return [];
    return fact(`${shortenOwnerName(event.replaces)} was gone; ${shortenOwnerName(event.by)} took over.`);
  }
  if (!('callId' in event) || event.callId !== callId) return [];
  switch (event.type) {
    case 'tool.started': {
      const by = owner === undefined ? 'a process' : shortenOwnerName(owner);
      return fact(`${by} started the tool, attempt ${event.attempt}, with the key ${event.key}.`);
    }
    case 'tool.interrupted':
      return fact('the journal had a start and no result: the process ended in between.');
    case 'tool.doubted':
      return fact(`in doubt: ${event.reason}`);
    default:
      return [];
  }
}
