// visualizer/page/ahead: what may still happen to a run, explored on the server, with examples to play.

import type { ComponentChildren } from 'preact';
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
  query: string;
  /** What the button does. */
  label: string;
  onPlay: Play;
  /** What the report says beyond breaches. */
  children?(report: Report): ComponentChildren;
};

/** Explores on the server, and shows the progress and the report. */
export function Explorer({ path, query, label, onPlay, children }: ExplorerProps) {
  const exploration = explorationOf(path);
  const report = exploration?.report ?? null;
  return (
    <div class="explorer">
      <Start exploration={exploration} label={label} onStart={() => void explore(path, query)} />
      <p class="problem" role="alert">
        {exploration?.problem}
      </p>
      {report === null ? null : (
        <>
          <Breaches report={report} onPlay={onPlay} />
          {children?.(report)}
          <Details
            summary={`${formatCount(report.states, 'state')} explored${report.complete ? ', all there are' : '; there are more'}`}
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

function Breaches({ report: { breaches }, onPlay }: { report: Report; onPlay: Play }) {
  if (breaches.length === 0) return <p class="holds">No invariant breaks.</p>;
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
