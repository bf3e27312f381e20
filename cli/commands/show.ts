import { once } from 'node:events';
import { findContradiction } from '../../engine/journal/late-evidence.ts';
import { loadRun } from '../../engine/journal/load-run.ts';
import { readPages } from '../../engine/journal/read-journal.ts';
import { openResult } from '../../engine/run/read-result.ts';
import { listUnsettled, type Settled } from '../../engine/run/settled.ts';
import { describeWithChildren } from '../../engine/sub-agents/run-children.ts';
import { statusOf } from '../../machines/standing.ts';
import { type ChartState, statePath } from '../../machines/step.ts';
import type { JournalEntry } from '../../protocol/event.ts';
import { omitUndefined } from '../../protocol/json.ts';
import type { RunRecord, Store } from '../../protocol/store.ts';
import { checkVersions } from '../check-versions.ts';
import { EXIT } from '../exit-codes.ts';
import { findRun } from '../find-run.ts';
import { type Launch, recallLaunch } from '../launch.ts';
import { storeFile, withExistingStore } from '../open-store.ts';
import { CommandLines } from '../render/command-lines.ts';
import { describeEvent } from '../render/describe-event.ts';
import { formatClock } from '../render/format-time.ts';
import { orderEvent } from '../render/make-view.ts';
import { Output } from '../render/output.ts';
import { type LateResult, showRun } from '../render/show-run.ts';
import { showUnread, showVersions } from '../render/show-versions.ts';

export type ShowCommandOptions = {
  db?: string;
  json?: boolean;
  events?: boolean;
  result?: string;
  agent?: string;
};

/** Implements `agentchart show`. Needs no agent; with `agent`, also compares versions. */
export async function show(id: string, options: ShowCommandOptions): Promise<number> {
  const output = new Output({ json: options.json === true });
  const file = storeFile(options.db);
  return await withExistingStore(file, async store => {
    const record = await findRun(store, id);
    if (options.result !== undefined) return await showResult(store, record, options.result);
    if (options.events === true) return await showEvents(store, record, output);
    const versions = await checkVersions(store, record, options.agent, output);
    if (!versions.opens) return showUnread(output, record, versions);
    const { state } = await loadRun(store, record.runId);
    const launch = await recallLaunch(store, record.runId);
    const settled = await describeWithChildren(store, state, text => text);
    if (output.json) output.data({ ...summarize({ record, state, settled, launch }), versions });
    else {
      const late = await readLateResults(store, record);
      showRun(output, { record, state, settled, launch, commands: new CommandLines(file), late });
      showVersions(output, versions);
    }
    return EXIT.done;
  });
}

type Summary = { record: RunRecord; state: ChartState; settled: Settled | null; launch: Launch };

function summarize({ record, state, settled, launch }: Summary): object {
  const { usage, turns, next, parent } = state.context;
  const facts = { ...omitUndefined({ parent: parent ?? undefined }), ...(settled ?? { usage, turns }) };
  const calls = listUnsettled(state.context);
  return { ...record, state: statePath(state), next, launch, ...facts, status: statusOf(state), calls };
}

/** The attempt of late results that do not name one. */
const LAST_ATTEMPT = Number.POSITIVE_INFINITY;

/** Returns the late results, each with the outcome that it contradicts, even one recorded later. */
async function readLateResults(store: Store, { runId }: RunRecord): Promise<LateResult[]> {
  const entries: JournalEntry[] = [];
  for await (const page of readPages(store, runId))
    entries.push(...page.filter(({ event }) => 'callId' in event));
  const late = entries.flatMap(({ event }) => (event.type === 'tool.late' ? [event] : []));
  return late.map(event => {
    const contradicts = findContradiction(entries, { attempt: LAST_ATTEMPT, ...event });
    return contradicts === null ? event : { ...event, contradicts };
  });
}

/** Prints the JSON of a result, page by page, and nothing else. */
async function showResult(store: Store, { runId }: RunRecord, callId: string): Promise<number> {
  const { pages } = await openResult(store, runId, callId);
  for await (const part of pages()) if (!process.stdout.write(part)) await once(process.stdout, 'drain');
  process.stdout.write('\n');
  return EXIT.done;
}

async function showEvents(store: Store, { runId }: RunRecord, output: Output): Promise<number> {
  for await (const page of readPages(store, runId)) for (const entry of page) showEntry(entry, runId, output);
  return EXIT.done;
}

function showEntry({ seq, event }: JournalEntry, runId: string, output: Output): void {
  if (output.json) return output.data(orderEvent({ ...event, runId, seq }));
  const place = `${String(seq).padStart(5)}  ${formatClock(event.at)}  `;
  output.line({ style: 'dim', text: place }, event.type.padEnd(20), describeEvent(event));
}
