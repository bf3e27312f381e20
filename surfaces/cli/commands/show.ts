import { loadRun, statusOf } from '../../../engine/load-run.ts';
import { describeSettled, listOpenCalls } from '../../../engine/settled.ts';
import { statePath } from '../../../machines/state-path.ts';
import type { ChartState } from '../../../machines/step.ts';
import type { RunRecord, Store } from '../../../protocol/store.ts';
import { CommandLines } from '../command-lines.ts';
import { describeEvent } from '../describe-event.ts';
import { EXIT } from '../exit-codes.ts';
import { findRun } from '../find-run.ts';
import { formatClock } from '../format-time.ts';
import { orderEvent } from '../json-view.ts';
import { type Launch, recallLaunch } from '../launch.ts';
import { storeFile, withExistingStore } from '../open-store.ts';
import { Output } from '../output.ts';
import { type LateResult, showRun } from '../show-run.ts';

export type ShowCommandOptions = { db?: string; json?: boolean; events?: boolean };

/** Shows a run from its journal alone: what it is, where it stands and why, what it waits for. */
export async function show(id: string, options: ShowCommandOptions): Promise<number> {
  const output = new Output({ json: options.json === true });
  const file = storeFile(options.db);
  return await withExistingStore(file, async store => {
    const record = await findRun(store, id);
    if (options.events === true) return await showEvents(store, record, output);
    const { state } = await loadRun(store, record.runId);
    const launch = await recallLaunch(store, record.runId);
    if (output.json) output.data(summarize(record, state, launch));
    else {
      const late = await readLateResults(store, record);
      showRun(output, { record, state, launch, commands: new CommandLines(file), late });
    }
    return EXIT.done;
  });
}

function summarize(record: RunRecord, state: ChartState, launch: Launch): object {
  const { usage, turns, next } = state.context;
  const settled = describeSettled(state, text => text) ?? { usage, turns };
  const calls = listOpenCalls(state.context);
  return { ...record, state: statePath(state), next, launch, ...settled, status: statusOf(state), calls };
}

async function readLateResults(store: Store, { runId }: RunRecord): Promise<LateResult[]> {
  const entries = await store.read(runId);
  return entries.flatMap(({ event }) => (event.type === 'tool.late' ? [event] : []));
}

async function showEvents(store: Store, { runId }: RunRecord, output: Output): Promise<number> {
  for (const { seq, event } of await store.read(runId)) {
    if (output.json) output.data(orderEvent({ ...event, runId, seq }));
    else {
      const place = `${String(seq).padStart(5)}  ${formatClock(event.at)}  `;
      output.line({ style: 'dim', text: place }, event.type.padEnd(20), describeEvent(event));
    }
  }
  return EXIT.done;
}
