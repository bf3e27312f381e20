import { replayExport } from '../../engine/replay/replay-export.ts';
import type { ReplayedEntry, ReplayObserver, ReplayReport } from '../../engine/replay/replay-journal.ts';
import { replayRun } from '../../engine/replay/replay-run.ts';
import { describeSettled } from '../../engine/run/settled.ts';
import { statePath } from '../../machines/step.ts';
import { omitUndefined } from '../../protocol/json.ts';
import { EXIT } from '../exit-codes.ts';
import { findRun } from '../find-run.ts';
import { storeFile, withExistingStore } from '../open-store.ts';
import { readEntryNumber } from '../options.ts';
import { CommandLines } from '../render/command-lines.ts';
import { Output } from '../render/output.ts';
import { showPlace } from '../render/show-place.ts';
import { isFile, readExportFile } from './inspecting/read-export-file.ts';

export type ReplayOptions = { db?: string; json?: boolean; until?: string };

/** Implements `agentchart replay`, for a run of the store or an exported file. Loads no agent. */
export async function replay(named: string, options: ReplayOptions): Promise<number> {
  const output = new Output({ json: options.json === true });
  const until = options.until === undefined ? undefined : readEntryNumber('--until', options.until);
  const observe = output.json ? makeJsonObserver(output) : makeTerminalObserver(output);
  const report = isFile(named)
    ? await replayFile(named, observe, until)
    : await withExistingStore(storeFile(options.db), async store =>
        replayRun(store, (await findRun(store, named)).runId, observe, { until }),
      );
  const commands = new CommandLines(storeFile(options.db));
  if (output.json) output.data(toLine(report, { withPlace: until !== undefined }));
  else showReport(output, report);
  if (!output.json && until !== undefined && report.equal)
    showPlace(output, report, isFile(named) ? null : commands);
  if (report.problem !== undefined)
    output.problem(`Run ${report.runId}: entry ${report.problem.seq} ${report.problem.message}.`);
  return report.equal ? EXIT.done : EXIT.failed;
}

async function replayFile(
  file: string,
  observe: ReplayObserver,
  until: number | undefined,
): Promise<ReplayReport> {
  const { exported, blobs } = await readExportFile(file);
  return replayExport(exported, observe, { until, blobs });
}

function makeJsonObserver(output: Output) {
  return ({ runId, seq, event, state, next }: ReplayedEntry) =>
    output.data({
      runId,
      seq,
      type: event.type,
      state: statePath(state),
      ...omitUndefined({ next }),
    });
}

/** Prints each entry, with the state that it leads to and the reason if either is new. */
function makeTerminalObserver(output: Output) {
  let shown = { runId: '', path: '' };
  return ({ runId, seq, event, state, next }: ReplayedEntry) => {
    if (runId !== shown.runId) output.line({ style: 'bold', text: runId });
    const path = statePath(state);
    const isNew = next !== undefined || path !== shown.path || runId !== shown.runId;
    const why = next === undefined ? '' : ` — ${next.why}`;
    output.line(
      { style: 'dim', text: `${String(seq).padStart(5)}  ` },
      isNew ? event.type.padEnd(20) : event.type,
      ...(isNew ? [{ style: 'cyan' as const, text: path }, why] : []),
    );
    shown = { runId, path };
  };
}

/** The report as JSON. With `withPlace`, also where the run was: `settled` is `null` while it was running. */
function toLine({ end, ...report }: ReplayReport, { withPlace }: { withPlace: boolean }): object {
  const state = end === null ? null : statePath(end.state);
  const line = { ...report, state, hash: end?.hash ?? null };
  if (!withPlace || end === null) return line;
  return {
    ...line,
    isEnd: report.entries === report.of,
    next: end.state.context.next,
    settled: describeSettled(end.state, text => text),
  };
}

function showReport(output: Output, { equal, entries, of, redacted, comparedWith, end }: ReplayReport): void {
  const fact = makeFact(output);
  fact('entries', entries === of ? String(entries) : `${entries} of ${of}`);
  if (redacted > 0)
    fact('redacted', `${redacted} ${redacted === 1 ? 'value' : 'values'}, known only by digest`);
  fact('state', end === null ? 'none' : statePath(end.state));
  fact('hash', end?.hash ?? 'none');
  const comparison =
    comparedWith === null
      ? 'every entry fits, but there is no recorded state to compare with'
      : `compared with ${comparedWith}`;
  fact('equal', `${equal ? 'yes' : 'no'}, ${comparison}`);
}

function makeFact(output: Output) {
  return (label: string, text: string) => output.line({ style: 'dim', text: label.padEnd(9) }, text);
}
