import { describeSettled, describeUnsettled, listUnsettled } from '../../engine/log/settled.ts';
import { replayExport } from '../../engine/replay/replay-export.ts';
import type { ReplayedEntry, ReplayObserver, ReplayReport } from '../../engine/replay/replay-journal.ts';
import { replayRun } from '../../engine/replay/replay-run.ts';
import { hasEnded } from '../../machines/status.ts';
import { statePath } from '../../machines/step.ts';
import { omitUndefined } from '../../protocol/json.ts';
import { isOpenItem } from '../../protocol/run-view.ts';
import type { Action } from '../command-table.ts';
import { EXIT } from '../exit-codes.ts';
import { storeFile } from '../options.ts';
import { CommandLines } from '../render/command-lines.ts';
import { plural } from '../render/format.ts';
import { bold, cyan, dim, Output, yellow } from '../render/output.ts';
import { HEADINGS, showOpen } from '../render/show-open.ts';
import { withRun } from '../store.ts';
import { isFile, readExportFile } from './read-export-file.ts';

/** Replays a run of the store or an exported file. Loads no agent. */
export const replay: Action<'replay'> = async ({ run: named, until, ...options }) => {
  const output = new Output(options);
  const observe = output.json ? makeJsonObserver(output) : makeTerminalObserver(output);
  const report = isFile(named)
    ? await replayFile(named, observe, until)
    : await withRun({ run: named, ...options }, ({ store, record }) =>
        replayRun(store, record.runId, observe, { until }),
      );
  if (output.json) output.data(toLine(report, { withPlace: until !== undefined }));
  else {
    showReport(output, report);
    const commands = isFile(named) ? null : new CommandLines(storeFile(options.db));
    if (until !== undefined && report.equal) showPlace(output, report, commands);
  }
  if (report.problem !== undefined)
    output.problem(`Run ${report.runId}: entry ${report.problem.seq} ${report.problem.message}.`);
  return report.equal ? EXIT.done : EXIT.failed;
};

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
    output.data({ runId, seq, type: event.type, state: statePath(state), ...omitUndefined({ next }) });
}

function makeTerminalObserver(output: Output) {
  let shown = { runId: '', path: '' };
  return ({ runId, seq, event, state, next }: ReplayedEntry) => {
    if (runId !== shown.runId) output.line(bold(runId));
    const path = statePath(state);
    const isNew = next !== undefined || path !== shown.path || runId !== shown.runId;
    const why = next === undefined ? '' : ` — ${next.why}`;
    output.line(
      dim(`${String(seq).padStart(5)}  `),
      isNew ? event.type.padEnd(20) : event.type,
      ...(isNew ? [cyan(path), why] : []),
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
  const fact = output.facts(9);
  fact('entries', entries === of ? String(entries) : `${entries} of ${of}`);
  if (redacted > 0) fact('redacted', `${plural(redacted, 'value')}, known only by digest`);
  fact('state', end === null ? 'none' : statePath(end.state));
  fact('hash', end?.hash ?? 'none');
  const comparison =
    comparedWith === null
      ? 'every entry fits, but there is no recorded state to compare with'
      : `compared with ${comparedWith}`;
  fact('equal', `${equal ? 'yes' : 'no'}, ${comparison}`);
}

function showPlace(
  output: Output,
  { runId, entries, of, end }: ReplayReport,
  commands: CommandLines | null,
): void {
  if (end === null) return;
  const { context } = end.state;
  const fact = output.facts(9);
  fact('why', context.next?.why ?? 'no decision yet');
  const settled = describeSettled(end.state, text => text);
  if (settled === null) {
    const calls = listUnsettled(context);
    for (const call of calls) output.line('  ', describeUnsettled(call));
    const { attempt, number } = context.turn;
    if (calls.length === 0) output.line(`  attempt ${attempt} of turn ${number}`);
  } else if (settled.status === 'waiting') {
    for (const open of settled.open)
      if (isOpenItem(open)) showOpen(output, open, HEADINGS[open.kind], context.now);
    if (settled.paused) output.line(yellow('The run is paused.'));
  } else fact('status', settled.status);
  if (entries === of) return;
  output.line(yellow(`The journal continues to entry ${of}.`));
  if (commands === null || hasEnded(end.state)) return;
  output.line('To start a new run from here: ', cyan(commands.of('fork', runId, '--at', String(entries))));
}
