// visualizer/page/inbox: the open decisions of all runs.

import { useSignal } from '@preact/signals';
import { useEffect, useMemo, useRef } from 'preact/hooks';
import { describeApprovals, describeDuties, hasDuties } from '../../../machines/duties.ts';
import { shortenOwnerName } from '../../../protocol/owner-name.ts';
import type { InboxItem } from '../../../protocol/run-view.ts';
import { useShortcuts } from '../app/keyboard.ts';
import { navigate, useTitle } from '../app/router.ts';
import { isMine } from '../data/caller.ts';
import { type RunView, requestServer, runPath, type StreamedEvent } from '../data/request.ts';
import { sendCommand } from '../data/send-command.ts';
import { readListPages, useNews, useRead } from '../data/server-watch.ts';
import type { EntriesPage, PageSource } from '../data/source.ts';
import { subjectOf } from '../model/subject-of.ts';
import { formatAgo, formatDay, formatDuration, formatMoment, joinFacts, showSafe } from '../render/format.ts';
import { DecisionForms, WhoMayDecide } from '../run/decisions/decision-forms.tsx';
import {
  type Act,
  ActContext,
  decisionKeyOf as decisionKey,
  OvertakenNotes,
  useOvertaken,
} from '../run/decisions/open-decisions.tsx';
import { SeenBox, seenPart } from '../ui/scrolling.tsx';
import { ProblemText, ReadableValue, Safe } from '../ui/text.tsx';
import { ActionButton } from '../ui/two-presses.tsx';

const KINDS = {
  approval: 'approve',
  result: 'answer',
  doubt: 'in doubt',
  question: 'question',
  review: 'review',
} as const;

export function InboxView({ source }: { source: PageSource }) {
  const pages = useMemo(() => ({ read: 1 }), []);
  const { answer, problem, again } = useRead(
    () => readListPages<'items', InboxItem>(`/inbox?limit=${ITEMS}`, pages.read, 'items'),
    [],
  );
  useNews(source, ['ready', 'inbox', 'removed'], again);
  const readMore = (): Promise<void> => {
    pages.read += 1;
    return again();
  };
  const chosen = useSignal<string | null>(null);
  const notice = useSignal('');
  const list = useRef<HTMLUListElement>(null);
  const items = (answer?.found ?? []).toSorted(
    (left, right) => Number(isMine(right.call)) - Number(isMine(left.call)) || right.since - left.since,
  );
  const place = useRef(0);
  const found = items.findIndex(item => keyOf(item) === chosen.value);
  const at = found < 0 ? Math.max(0, Math.min(place.current, items.length - 1)) : found;
  if (items.length > 0) place.current = at;
  const item = items[at];
  useEffect(() => {
    const key = chosen.peek();
    if (items.some(one => keyOf(one) === key)) return;
    if (key !== null) notice.value = 'Resolved elsewhere.';
    chosen.value = item === undefined ? null : keyOf(item);
  }, [answer, item]);
  useOvertaken(
    items.map(({ call }) => call),
    item?.call,
  );
  useTitle(`${items.length === 0 ? '' : `(${items.length}) `}Inbox`);
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
  const taken = async (message: string): Promise<void> => {
    const next = items[at + 1] ?? items[at - 1];
    notice.value = message;
    chosen.value = next === undefined ? null : keyOf(next);
    await again();
    requestAnimationFrame(() => {
      const row = list.current?.querySelector<HTMLElement>('[aria-current]');
      (row ?? document.querySelector<HTMLElement>('main h1'))?.focus();
    });
  };
  return (
    <main class="inbox">
      <div class="inbox-list">
        <h1 tabIndex={-1}>Inbox</h1>
        <p class="notice" role="status">
          {showSafe(notice.value)}
        </p>
        <OvertakenNotes />
        <ProblemText text={problem} />
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
        {items.length === 0 && (answer !== null || problem !== '') && (
          <p class="empty">Nothing to decide. Runs that need a person appear here.</p>
        )}
        {answer?.next !== undefined && <ActionButton label="Show more" act={readMore} />}
      </div>
      {item && <Decision key={decisionKey(item.call)} item={item} onTaken={taken} />}
    </main>
  );
}

const ITEMS = 100;

function keyOf({ runId, call }: InboxItem): string {
  return `${runId}/${call.callId}`;
}

function focusRow(list: HTMLElement | null, key: string): void {
  const buttons = [...(list?.querySelectorAll<HTMLElement>('button[data-key]') ?? [])];
  buttons.find(one => one.dataset.key === key)?.focus();
}

function InboxRow({ item, isChosen, onChoose }: { item: InboxItem; isChosen: boolean; onChoose(): void }) {
  const { kind, call, title, agent, since } = item;
  const isLimited = kind !== 'result' && hasDuties(call);
  const facts = joinFacts(
    !isMine(call) && 'for others',
    isLimited && `needs ${describeDuties(call)}`,
    describeApprovals(call),
  );
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
        <Safe text={subjectOf(call).name} class="mono tool" />
        <time title={formatDay(since)}>{formatAgo(since, Date.now())}</time>
        <Safe text={title || agent} class="title" />
        {facts !== '' && <Safe text={facts} class="title who" />}
      </button>
    </li>
  );
}

const DONE: Readonly<Record<string, string>> = {
  approve: 'Approved',
  reject: 'Rejected',
  answer: 'Answered',
  resolve: 'Resolved',
};

function Decision({ item, onTaken }: { item: InboxItem; onTaken(message: string): Promise<void> }) {
  const { kind, call, title, agent, since, rootId, runId } = item;
  const problem = useSignal('');
  const { name, value, label } = subjectOf(call);
  const act: Act = async ({ type, runId: run = runId, ...body }) => {
    problem.value = '';
    const onLost = (message: string) => (problem.value = message);
    const outcome = await sendCommand(type, body, { runId: run, after: 0, onLost });
    const done = kind === 'review' && type === 'reject' ? 'Sent back' : (DONE[type] ?? type);
    if (outcome.type === 'taken') await onTaken(outcome.message ?? `${done}: ${name}.`);
    else problem.value = outcome.message;
    return outcome.type === 'taken' ? null : outcome.message;
  };
  const facts = joinFacts(
    showSafe(agent),
    `waits since ${formatMoment(since)}`,
    call.expiresAt !== undefined && `expires in ${formatDuration(Math.max(0, call.expiresAt - Date.now()))}`,
  );
  return (
    <article class="decision" aria-label={`${KINDS[kind]}: ${showSafe(name)}`}>
      <header>
        <h2>
          <Safe text={name} class="mono" />
        </h2>
        <Safe in="p" text={title || agent} />
        <p class="muted">
          <a href={runPath(item.runId)}>Open the run</a>
          {rootId !== runId && (
            <>
              {' · '}
              <a href={runPath(rootId)}>Its parent</a>
            </>
          )}
          {' · '}
          <Safe text={facts} />
        </p>
      </header>
      <div class="inbox-body">
        {call.reason !== undefined && <Safe in="p" class="reason" text={call.reason} />}
        {kind === 'doubt' && <WhyInDoubt runId={call.runId} callId={call.callId} />}
        {'sideEffect' in call && call.sideEffect === 'once' && (
          <p class="muted">This call must not run twice.</p>
        )}
        <h3>{label}</h3>
        <SeenBox id={keyOf(item)} label={`${label} of ${showSafe(name)}`}>
          <ReadableValue value={value} />
        </SeenBox>
      </div>
      <footer>
        <ProblemText text={problem.value} />
        <WhoMayDecide call={call} />
        <ActContext.Provider value={act}>
          <DecisionForms call={call} unseen={seenPart(keyOf(item)).value < 1} isKeyed />
        </ActContext.Provider>
      </footer>
    </article>
  );
}

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

type Fact = { seq: number; text: string };

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
  const { seq } = await requestServer<RunView>(path);
  let events: StreamedEvent[] = [];
  for (let before = seq + 1, pages = 0; before > 1 && pages < MOST_PAGES; pages += 1) {
    const page = await requestServer<EntriesPage>(`${path}/entries?before=${before}&limit=${PAGE}`);
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
  if (event.type === 'tool.started') {
    const by = owner === undefined ? 'a process' : shortenOwnerName(owner);
    return fact(`${by} started the tool, attempt ${event.attempt}, with the key ${event.key}.`);
  }
  if (event.type === 'tool.interrupted')
    return fact('the journal had a start and no result: the process ended in between.');
  return event.type === 'tool.doubted' ? fact(`in doubt: ${event.reason}`) : [];
}
