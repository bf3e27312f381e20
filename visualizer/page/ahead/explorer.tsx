// visualizer/page/ahead: what may still happen to a run, explored on the server, with examples to play.

import { useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { describeUnfinished, NOT_PROVED } from '../../describe-exploration.ts';
import {
  type Exploration,
  explorationOf,
  explore,
  type PathEntry,
  type Report,
} from '../data/exploration.ts';
import { formatCount, formatNumber } from '../render/format.ts';
import { Details } from '../ui/details.tsx';
import { Safe } from '../ui/text.tsx';

/** Plays a path; `invariant` is the one that breaks at its end. */
export type Play = (
  path: readonly PathEntry[],
  told: { title: string; message: string; invariant?: string },
) => void;

type ExplorerProps = {
  /** The path of the agent or the run in the API. */
  path: string;
  query?: string;
  /** The maximum of states of the first exploration. */
  maxStates: number;
  /** What the button does. */
  label: string;
  onPlay: Play;
  /** What the report says beyond breaches. */
  children?(report: Report): ComponentChildren;
};

/** Explores on the server, and shows the progress and the report. */
export function Explorer({ path, query = '', maxStates, label, onPlay, children }: ExplorerProps) {
  const most = useSignal(maxStates);
  const exploration = explorationOf(path);
  const report = exploration?.report ?? null;
  const start = (states: number) => {
    most.value = states;
    void explore(path, `${query}&maxStates=${states}`);
  };
  return (
    <div class="explorer">
      <Start exploration={exploration} label={label} onStart={() => start(maxStates)} />
      <p class="problem" role="alert">
        {exploration?.problem}
      </p>
      {report === null ? null : (
        <>
          <Breaches report={report} onPlay={onPlay} />
          <Unfinished
            report={report}
            states={Math.min(most.value * FURTHER, MOST_STATES)}
            onExplore={most.value < MOST_STATES ? start : null}
          />
          {children?.(report)}
          <Details
            summary={`${formatCount(report.states, 'state')} explored${report.complete ? ', all there are' : ', not all there are'}`}
          >
            {() => (
              <ul class="notes muted">
                <li>{`${formatCount(report.invariants.length, 'invariant')} checked at each step`}</li>
                {report.notes.map(note => (
                  <li key={note}>
                    <Safe text={note} />
                  </li>
                ))}
              </ul>
            )}
          </Details>
        </>
      )}
    </div>
  );
}

type StartProps = { exploration: Exploration | undefined; label: string; onStart(): void };

function Start({ exploration, label, onStart }: StartProps) {
  const states = exploration?.states ?? null;
  return (
    <p class="buttons" role="status">
      {states === null || exploration === undefined ? (
        <button type="button" onClick={onStart}>
          {label}
        </button>
      ) : (
        <>
          <button type="button" onClick={exploration.stop}>
            Stop
          </button>
          <span class="muted">{`${formatNumber(states)} states…`}</span>
        </>
      )}
    </p>
  );
}

/** The most states that the server explores. */
const MOST_STATES = 200_000;

/** How many times as many states the next exploration walks. */
const FURTHER = 4;

type UnfinishedProps = { report: Report; states: number; onExplore: ((states: number) => void) | null };

/** What was not walked to its end, and what would complete it. */
function Unfinished({ report: { unfinished }, states, onExplore }: UnfinishedProps) {
  if (unfinished.length === 0) return null;
  return (
    <div class="unfinished">
      <p>Not walked to the end:</p>
      <ul class="notes">
        {unfinished.map(walks => (
          <li key={walks.paths}>
            <Safe text={describeUnfinished(walks)} />
          </li>
        ))}
      </ul>
      {onExplore === null ? null : (
        <p class="buttons">
          <button type="button" onClick={() => onExplore(states)}>
            {`Explore ${formatNumber(states)} states`}
          </button>
        </p>
      )}
    </div>
  );
}

function Breaches({ report: { breaches, complete }, onPlay }: { report: Report; onPlay: Play }) {
  if (breaches.length === 0)
    return complete ? <p class="holds">No invariant breaks.</p> : <p>{NOT_PROVED}</p>;
  return (
    <ul class="breaches">
      {breaches.map(({ invariant, message, path }) => (
        <li key={invariant}>
          <strong>
            <Safe text={invariant} />
          </strong>
          <Safe text={message} />
          <button
            type="button"
            onClick={() => onPlay(path, { title: `Counterexample: ${invariant}`, message, invariant })}
          >
            {`Play ${formatCount(path.length, 'entry', 'entries')}`}
          </button>
        </li>
      ))}
    </ul>
  );
}
