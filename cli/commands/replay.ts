import { describeSettled, listUnsettled, type Settled } from '../../engine/log/settled.ts';
import { replayExport } from '../../engine/replay/replay-export.ts';
import type { ReplayedEntry, ReplayObserver, ReplayReport } from '../../engine/replay/replay-journal.ts';
import { replayRun } from '../../engine/replay/replay-run.ts';
import { hasEnded } from '../../machines/status.ts';
import { type ChartState, statePath } from '../../machines/step.ts';
import { omitUndefined } from '../../protocol/json.ts';
import { EXIT } from '../exit-codes.ts';
import { readEntryNumber, type StoreOptions, storeFile } from '../options.ts';
import { CommandLines } from '../render/command-lines.ts';
import { bold, cyan, dim, Output, yellow } from '../render/output.ts';
import { HEADINGS, showCall } from '../render/show-open.ts';
import { withRun } from '../store.ts';
import { isFile, readExportFile } from './read-export-file.ts';

type ReplayOptions = StoreOptions & { until?: string };

/** Implements `agentchart replay`, for a run of the store or an exported file. Loads no agent. */
export async function replay(named: string, options: ReplayOptions): Promise<number> {
  const output = new Output({ json: options.json === true });
  const until = options.until === undefined ? undefined : readEntryNumber('--until', options.until);
  const observe = output.json ? makeJsonObserver(output) : makeTerminalObserver(output);
  const report = isFile(named)
    ? await replayFile(named, observe, until)
    : await withRun(named, options, ({ store, record }) =>
        replayRun(store, record.runId, observe, { until }),
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

function showPlace(
  output: Output,
  { runId, entries, of, end }: ReplayReport,
  commands: CommandLines | null,
): void {
  if (end === null) return;
  const fact = output.facts(9);
  const { context } = end.state;
  fact('why', context.next?.why ?? 'no decision yet');
  const settled = describeSettled(end.state, text => text);
  if (settled === null) showRunning(output, end.state);
  else if (settled.status === 'waiting') showOpenCalls(output, settled, context.now);
  else fact('status', settled.status);
  if (entries === of) return;
  output.line(yellow(`The journal continues to entry ${of}.`));
  if (commands === null || hasEnded(end.state)) return;
  output.line('To start a new run from here: ', cyan(commands.of('fork', runId, '--at', String(entries))));
}

function showRunning(output: Output, { context }: ChartState): void {
  const { turn } = context;
  const calls = listUnsettled(context);
  for (const { callId, name, status } of calls) output.line(`  ${name} (${callId}), ${status}`);
  if (calls.length === 0) output.line(`  attempt ${turn.attempt} of turn ${turn.number}`);
}

function showOpenCalls(output: Output, settled: Extract<Settled, { status: 'waiting' }>, now: number): void {
  for (const open of settled.open)
    if (open.kind !== 'pause') showCall(output, open, HEADINGS[open.kind], now);
  if (settled.paused) output.line(yellow('The run is paused.'));
}
