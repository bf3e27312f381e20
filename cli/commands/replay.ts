import { statSync } from 'node:fs';
import { replayExport } from '../../engine/replay/replay-export.ts';
import type { Look, ReplayedEntry, Verdict } from '../../engine/replay/replay-journal.ts';
import { replayRun } from '../../engine/replay/replay-run.ts';
import { describeSettled } from '../../engine/run/settled.ts';
import { statePath } from '../../machines/state-path.ts';
import { EXIT } from '../exit-codes.ts';
import { findRun } from '../find-run.ts';
import { storeFile, withExistingStore } from '../open-store.ts';
import { readEntryNumber } from '../read-entry-number.ts';
import { readExportFile } from '../read-export-file.ts';
import { CommandLines } from '../render/command-lines.ts';
import { Output } from '../render/output.ts';
import { showPlace } from '../render/show-place.ts';

export type ReplayOptions = { db?: string; json?: boolean; until?: string };

/** Folds a run again, or an export of one, with what it recorded: executes nothing, loads no agent, writes nothing. */
export async function replay(named: string, options: ReplayOptions): Promise<number> {
  const output = new Output({ json: options.json === true });
  const until = options.until === undefined ? undefined : readEntryNumber('--until', options.until);
  const look = output.json ? makeJsonLook(output) : makePeopleLook(output);
  const verdict = isFile(named)
    ? await replayFile(named, look, until)
    : await withExistingStore(storeFile(options.db), async store =>
        replayRun(store, (await findRun(store, named)).runId, look, { until }),
      );
  const commands = new CommandLines(storeFile(options.db));
  if (output.json) output.data(toLine(verdict, until !== undefined));
  else showVerdict(output, verdict);
  if (!output.json && until !== undefined && verdict.equal)
    showPlace(output, verdict, isFile(named) ? null : commands);
  if (verdict.problem !== undefined)
    output.problem(`Run ${verdict.runId}: entry ${verdict.problem.seq} ${verdict.problem.message}.`);
  return verdict.equal ? EXIT.done : EXIT.failed;
}

/** A name that can only be a file is one, whether it exists or not. */
function isFile(named: string): boolean {
  const found = statSync(named, { throwIfNoEntry: false });
  return found?.isFile() === true || /[\\/]|\.json$/.test(named);
}

async function replayFile(file: string, look: Look, until: number | undefined): Promise<Verdict> {
  const { exported, blobs } = await readExportFile(file);
  return replayExport(exported, look, { until, blobs });
}

function makeJsonLook(output: Output) {
  return ({ runId, seq, event, state, next }: ReplayedEntry) =>
    output.data({
      ...{ runId, seq, type: event.type, state: statePath(state) },
      ...(next === undefined ? {} : { next }),
    });
}

/** Every entry with the state it leads into, and why where something was decided. */
function makePeopleLook(output: Output) {
  let shown = { runId: '', path: '' };
  return ({ runId, seq, event, state, next }: ReplayedEntry) => {
    if (runId !== shown.runId) output.line({ style: 'bold', text: runId });
    const path = statePath(state);
    const isNews = next !== undefined || path !== shown.path || runId !== shown.runId;
    const why = next === undefined ? '' : ` — ${next.why}`;
    output.line(
      { style: 'dim', text: `${String(seq).padStart(5)}  ` },
      isNews ? event.type.padEnd(20) : event.type,
      ...(isNews ? [{ style: 'cyan' as const, text: path }, why] : []),
    );
    shown = { runId, path };
  };
}

/** With `isPlace`, also what the run waited for there: `settled` is `null` while it had something to do. */
function toLine({ end, ...verdict }: Verdict, isPlace: boolean): object {
  const state = end === null ? null : statePath(end.state);
  const line = { ...verdict, state, hash: end?.hash ?? null };
  if (!isPlace || end === null) return line;
  return {
    ...line,
    isEnd: verdict.entries === verdict.of,
    next: end.state.context.next,
    settled: describeSettled(end.state, text => text),
  };
}

function showVerdict(output: Output, { equal, entries, of, redacted, comparedWith, end }: Verdict): void {
  const fact = makeFact(output);
  fact('entries', entries === of ? String(entries) : `${entries} of ${of}`);
  if (redacted > 0)
    fact('redacted', `${redacted} ${redacted === 1 ? 'value is' : 'values are'} there by digest alone`);
  fact('state', end === null ? 'none' : statePath(end.state));
  fact('hash', end?.hash ?? 'none');
  const held =
    comparedWith === null
      ? 'every entry fits; no state is recorded to compare with'
      : `held against ${comparedWith}`;
  fact('equal', `${equal ? 'yes' : 'no'}, ${held}`);
}

function makeFact(output: Output) {
  return (label: string, text: string) => output.line({ style: 'dim', text: label.padEnd(9) }, text);
}
