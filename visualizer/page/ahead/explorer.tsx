// visualizer/page/ahead: what may still happen to a run, explored on the server, with examples to play.

import { signal, useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import type { ChartEvent, RunStarted } from '../../../protocol/event.ts';
import { formatNumber } from '../../../protocol/listing/format-number.ts';
import { NOT_PROVED } from '../../describe-exploration.ts';
import { readError } from '../data/request.ts';
import { describeRefusal } from '../data/send-command.ts';
import { formatCount } from '../render/format.ts';
import { Button } from '../ui/button.tsx';
import { Details, ProblemText, Safe } from '../ui/text.tsx';

/** Plays a path; `invariant` is the one that breaks at its end. */
export type Play = (
  path: readonly ShownPathEntry[],
  told: { title: string; message: string; invariant?: string },
) => void;

type ExplorerProps = {
  path: string;
  query?: string;
  maxStates: number;
  label: string;
  onPlay: Play;
  children?(report: ShownReport): ComponentChildren;
};

export function ExplorerPane({ path, query = '', maxStates, label, onPlay, children }: ExplorerProps) {
  const most = useSignal(maxStates);
  const exploration = explorationOf(path);
  const { report = null, states = null } = exploration ?? {};
  const rules = report?.rules.flatMap(describeRule) ?? [];
  const further = Math.min(most.value * FURTHER, MOST_STATES);
  const start = (states: number) => {
    most.value = states;
    void explore(path, `${query}&maxStates=${states}`);
  };
  return (
    <div class="explorer">
      <p class="buttons" role="status">
        {states === null ? (
          <Button label={label} onClick={() => start(maxStates)} />
        ) : (
          <>
            <Button label="Stop" onClick={exploration?.stop} />
            <span class="muted">{`${formatNumber(states)} states…`}</span>
          </>
        )}
      </p>
      <ProblemText text={exploration?.problem} />
      {report && (
        <>
          <Breaches report={report} onPlay={onPlay} />
          {rules.length > 0 && (
            <ul class="notes">
              {rules.map(rule => (
                <Safe key={rule} in="li" text={rule} />
              ))}
            </ul>
          )}
          {report.unfinished.length > 0 && (
            <div class="unfinished">
              <p>Not walked to the end:</p>
              <ul class="notes">
                {report.unfinished.map(walks => (
                  <Safe key={walks.paths} in="li" text={walks.says} />
                ))}
              </ul>
              {most.value < MOST_STATES && (
                <p class="buttons">
                  <Button label={`Explore ${formatNumber(further)} states`} onClick={() => start(further)} />
                </p>
              )}
            </div>
          )}
          {children?.(report)}
          <Details
            summary={`${formatCount(report.states, 'state')} explored${report.complete ? ', all there are' : ', not all there are'}`}
          >
            {() => (
              <ul class="notes muted">
                <li>{`${formatCount(report.invariants.length, 'invariant')} checked at each step`}</li>
                {report.notes.map(note => (
                  <Safe key={note} in="li" text={note} />
                ))}
              </ul>
            )}
          </Details>
        </>
      )}
    </div>
  );
}

const MOST_STATES = 200_000;
const FURTHER = 4;

/** One that is broken is among the breaches. */
function describeRule({ name, verdict, says, warns = [] }: Rule): string[] {
  const said = verdict === 'broken' ? warns : [says, ...warns];
  return said.map(text => `rule ${name}: ${text}`);
}

function Breaches({ report, onPlay }: { report: ShownReport; onPlay: Play }) {
  const { complete } = report;
  const broken = report.rules.flatMap(({ name, message = '', path, only }): Breach[] => {
    if (path === undefined) return [];
    const text = only === 'shadow' ? `in the shadow; ${message}` : message;
    return [{ invariant: `rule ${name}`, message: text, path }];
  });
  const breaches = [...report.breaches, ...broken];
  if (breaches.length === 0)
    return complete ? <p class="holds">No invariant breaks.</p> : <p>{NOT_PROVED}</p>;
  return (
    <ul class="breaches">
      {breaches.map(({ invariant, message, path }) => (
        <li key={invariant}>
          <Safe in="strong" text={invariant} />
          <Safe text={message} />
          <Button
            label={`Play ${formatCount(path.length, 'entry', 'entries')}`}
            onClick={() => onPlay(path, { title: `Counterexample: ${invariant}`, message, invariant })}
          />
        </li>
      ))}
    </ul>
  );
}

export type ShownPathEntry = { event: RunStarted | ChartEvent; state: string; why: string | null };

type Breach = { invariant: string; message: string; path: ShownPathEntry[] };
type Rule = Partial<Pick<Breach, 'message' | 'path'>> & {
  name: string;
  verdict: 'proved' | 'broken' | 'not-proved';
  says: string;
  only?: 'shadow' | 'function';
  warns?: string[];
};
type Spending = { spent: number; most: number | null };

/** The report of an exploration; the members after `notes` are those of a run. */
export type ShownReport = {
  complete: boolean;
  unfinished: { paths: string; says: string }[];
  states: number;
  edges: { taken: number; total: number };
  invariants: string[];
  breaches: Breach[];
  rules: Rule[];
  notes: string[];
  at?: number;
  ahead?: { state: string; path: ShownPathEntry[] }[];
  starts?: { tool: string; says: string }[];
  approvals?: { callId: string; name: string }[];
  left?: Record<'turns' | 'toolCalls' | 'tokens' | 'cost' | 'activeMs', Spending>;
};

type Exploration = {
  states: number | null;
  report: ShownReport | null;
  problem: string;
  stop(): void;
};

const explorations = signal<Readonly<Record<string, Exploration>>>({});

/** The latest exploration of an agent or a run, by its path; they outlive the views. */
export function explorationOf(path: string): Exploration | undefined {
  return explorations.value[path];
}

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

type OnStates = (states: number) => void;

async function readReport(path: string, stopped: AbortSignal, onStates: OnStates): Promise<ShownReport> {
  const response = await fetch(path, { credentials: 'same-origin', signal: stopped });
  if (!response.ok || response.body === null) throw await readError(response);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let text = ''; ; ) {
    const { done, value } = await reader.read();
    if (done) throw new Error('The exploration ended without a report.');
    const frames = `${text}${value}`.split('\n\n');
    text = frames.pop() ?? '';
    for (const frame of frames) {
      const [, name, data = ''] = /^event: (\w+)\ndata: (.*)$/m.exec(frame) ?? [];
      if (name === 'progress') onStates(JSON.parse(data).states);
      if (name === 'result') return JSON.parse(data).report;
      if (name === 'failed') throw new Error(JSON.parse(data).message);
    }
  }
}
