import { signal } from '@preact/signals';
import type { ChartEvent, RunStarted } from '../../../protocol/event.ts';
import type { JsonValue } from '../../../protocol/json.ts';
import { readError } from './request.ts';
import { describeRefusal } from './send-command.ts';

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
export async function explore(path: string, query: string): Promise<void> {
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
