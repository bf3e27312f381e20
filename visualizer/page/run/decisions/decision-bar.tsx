import { useEffect, useRef } from 'preact/hooks';
import type { JsonValue } from '../../../../protocol/json.ts';
import { useShortcuts } from '../../app/keyboard.ts';
import { later } from '../../app/later.tsx';
import { type JsonOpenItem, runPath } from '../../data/request.ts';
import { openDecisions, openSignIns } from '../../model/status-notices.ts';
import { subjectOf } from '../../model/subject-of.ts';
import { formatCount, formatTimeOfDay, showSafe } from '../../render/format.ts';
import { Button, Icon } from '../../ui/button.tsx';
import { SeenBox, seenPart } from '../../ui/scrolling.tsx';
import { isProse, Safe } from '../../ui/text.tsx';
import { ReadableValue } from '../../ui/value.tsx';
import { useDesk } from '../desk.ts';
import { heldAt } from '../steering/breakpoints.ts';
import { HoldBar } from '../steering/hold-bar.tsx';
import { DecisionForms, WhoMayDecide } from './decision-forms.tsx';
import { decisionKeyOf, OvertakenNotes, useOvertaken } from './open-decisions.tsx';

const SignInBar = later(async () => (await import('../../app/more-parts.ts')).SignInBar);

const TITLES = {
  approval: 'needs your approval',
  doubt: 'is in doubt',
  result: 'waits for a result',
  question: 'asks',
  review: 'needs your review',
} as const;

export function DecisionBar() {
  const desk = useDesk();
  const bar = useRef<HTMLElement>(null);
  const open = desk.source.live ? openDecisions(desk.model.view.value) : [];
  const place = Math.max(
    0,
    open.findIndex(call => decisionKeyOf(call) === desk.deciding.value),
  );
  const call = open[place];
  useOvertaken(open, call);
  const choose = (next: number): void => {
    const chosen = open[(next + open.length) % open.length];
    desk.deciding.value = chosen === undefined ? null : decisionKeyOf(chosen);
  };
  const focus = (): void => bar.current?.querySelector<HTMLElement>('h2')?.focus();
  useShortcuts('Decisions', [{ keys: ['d'], does: 'go to the open decision', run: focus }]);
  const held = heldAt(desk);
  useKeptFocus(bar, `${call === undefined ? '' : decisionKeyOf(call)} ${held?.key ?? ''}`);
  const notice = desk.notice.value;
  const signIns = desk.source.live ? openSignIns(desk.model.view.value) : [];
  return (
    <footer ref={bar} class={`decision-bar ${call === undefined ? '' : call.kind}`}>
      <p class={`problem ${notice?.tone ?? ''}`} role="alert">
        {notice === null ? '' : showSafe(notice.text)}
      </p>
      <OvertakenNotes />
      <HoldBar held={held} />
      {signIns.length > 0 && <SignInBar open={signIns} />}
      {call && (
        <Decision
          key={decisionKeyOf(call)}
          call={call}
          count={open.length}
          place={place}
          onMove={by => choose(place + by)}
        />
      )}
    </footer>
  );
}

/** Keeps the focus in the bar when a decision replaces the form that had it, or gives it to the run's title. */
function useKeptFocus(bar: { current: HTMLElement | null }, key: string): void {
  const had = useRef(false);
  useEffect(() => {
    const note = (): void => {
      const { activeElement } = document;
      if (activeElement !== null && activeElement !== document.body)
        had.current = bar.current?.contains(activeElement) === true;
    };
    document.addEventListener('focusin', note);
    return () => document.removeEventListener('focusin', note);
  }, [bar]);
  useEffect(() => {
    const { activeElement } = document;
    if (!had.current || (activeElement !== null && activeElement !== document.body)) return;
    const next =
      bar.current?.querySelector<HTMLElement>('h2') ?? document.querySelector<HTMLElement>('.run-header h1');
    next?.focus();
  }, [key, bar]);
}

type DecisionProps = { call: JsonOpenItem; count: number; place: number; onMove(by: number): void };

function Decision({ call, count, place, onMove }: DecisionProps) {
  const { model } = useDesk();
  const id = decisionKeyOf(call);
  const unseen = seenPart(id).value < 1;
  const { name, value, label } = subjectOf(call);
  return (
    <section class="decision" aria-labelledby="decision-title">
      <header>
        <h2 id="decision-title" tabIndex={-1}>
          <Safe text={name} class="mono" /> {TITLES[call.kind]}
        </h2>
        {call.kind !== 'question' && call.reason !== undefined && <Safe text={call.reason} class="reason" />}
        {call.runId !== model.runId && (
          <span class="muted">
            in the sub-agent's run <a href={runPath(call.runId)}>{showSafe(call.runId)}</a>
          </span>
        )}
        {call.expiresAt !== undefined && (
          <span class="muted">expires at {formatTimeOfDay(call.expiresAt)}</span>
        )}
        {mustNotRunTwice(call) && <span class="mark">must not run twice</span>}
        {count > 1 && (
          <span class="pager">
            <Button aria-label="Previous decision" label={<Icon name="left" />} onClick={() => onMove(-1)} />
            {`${place + 1} of ${formatCount(count, 'decision')}`}
            <Button aria-label="Next decision" label={<Icon name="right" />} onClick={() => onMove(1)} />
          </span>
        )}
      </header>
      <div class={`decision-body ${hasProse(value) ? 'with-prose' : ''}`}>
        <SeenBox id={id} label={`${label} of ${showSafe(name)}`}>
          <ReadableValue value={value} path={label.toLowerCase()} />
        </SeenBox>
        <WhoMayDecide call={call} />
        <DecisionForms call={call} unseen={unseen} />
      </div>
    </section>
  );
}

function mustNotRunTwice(open: JsonOpenItem): boolean {
  return (open.kind === 'approval' || open.kind === 'doubt') && open.sideEffect === 'once';
}

function hasProse(value: JsonValue): boolean {
  return isProse(value) || Object.values(value ?? {}).some(isProse);
}
