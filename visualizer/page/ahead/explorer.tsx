// visualizer/page/ahead: what may still happen to a run, explored on the server, with examples to play.

import { signal, useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import type { ChartEvent, RunStarted } from '../../../protocol/event.ts';
import type { JsonValue } from '../../../protocol/json.ts';
import { describeUnfinished, NOT_PROVED } from '../../describe-exploration.ts';
import { readError } from '../data/request.ts';
import { describeRefusal } from '../data/send-command.ts';
import { formatCount, formatNumber } from '../render/format.ts';
import { Details, Problem, Safe } from '../ui/text.tsx';

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
      <Problem text={exploration?.problem} />
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

/** An event of a path, and the state that it leads to. */
export type PathEntry = { event: RunStarted | ChartEvent; state: string; why: string | null };

type Breach = { invariant: string; message: string; path: PathEntry[] };
type Spending = { spent: number; most: number | null };

/** The report of an exploration; the members after `notes` are those of a run. */
export type Report = {
  complete: boolean;
  unfinished: { paths: string; stoppedBy: string; states: number; open: number; advice: string }[];
  states: number;
  edges: { taken: number; total: number };
  invariants: string[];
  breaches: Breach[];
  notes: string[];
  at?: number;
  ahead?: { state: string; path: PathEntry[] }[];
  starts?: { tool: string; freely?: JsonValue; approved?: JsonValue }[];
  approvals?: { callId: string; name: string }[];
  left?: Record<'turns' | 'toolCalls' | 'tokens' | 'cost' | 'activeMs', Spending>;
};

/** An exploration: its progress, and then its report or its problem. */
export type Exploration = {
  states: number | null;
  report: Report | null;
  problem: string;
  stop(): void;
};

const explorations = signal<Readonly<Record<string, Exploration>>>({});

/** The latest exploration of an agent or a run, by its path; they outlive the views. */
export function explorationOf(path: string): Exploration | undefined {
  return explorations.value[path];
}

/** Explores what is at a path of the API, such as `/runs/ID`, on the server. */
async function explore(path: string, query: string): Promise<void> {
  const stopped = new AbortController();
  const begun: Exploration = { states: 0, report: null, problem: '', stop: () => stopped.abort() };
  const tell = (news: Partial<Exploration>): void => {
    explorations.value = { ...explorations.peek(), [path]: { ...begun, ...news } };
  };
  tell({});
  try {
    const report = await readReport(`${path}/explore?${query}`, stopped.signal, states => tell({ states }));
    tell({ states: null, report });
  } catch (error) {
    const problem = stopped.signal.aborted ? 'Stopped.' : describeRefusal(error);
    tell({ states: null, problem });
  }
}

async function readReport(
  path: string,
  stopped: AbortSignal,
  onStates: (states: number) => void,
): Promise<Report> {
  const response = await fetch(path, { credentials: 'same-origin', signal: stopped });
  if (!response.ok || response.body === null) throw await readError(response);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) throw new Error('The exploration ended without a report.');
    text += value;
    const frames = text.split('\n\n');
    text = frames.pop() ?? '';
    for (const frame of frames) {
      const [, name, data = ''] = /^event: (\w+)\ndata: (.*)$/m.exec(frame) ?? [];
      if (name === 'progress') onStates(JSON.parse(data).states);
      if (name === 'result') return JSON.parse(data).report;
      if (name === 'failed') throw new Error(JSON.parse(data).message);
    }
  }
}
