import { existsSync, realpathSync } from 'node:fs';
import { resolve } from 'node:path';
import type { WholeJournal } from '../../engine/journal/read-journal.ts';
import { replayExport } from '../../engine/replay/replay-export.ts';
import { invalidInput } from '../../protocol/error.ts';
import { blobsOf } from '../../protocol/event.ts';
import { isRunEvent } from '../../protocol/is-run-event.ts';
import { omitUndefined } from '../../protocol/json.ts';
import { formatCost } from '../../protocol/listing/cost.ts';
import type { Store } from '../../protocol/store.ts';
import { type FailOn, failuresOf } from '../../regress/fail-on.ts';
import { formatJUnit } from '../../regress/junit.ts';
import { formatMarkdown } from '../../regress/markdown.ts';
import type { RegressReport } from '../../regress/report.ts';
import { memory } from '../../stores/memory.ts';
import { sqlite } from '../../stores/sqlite.ts';
import { writeCopy } from '../../testing/regress/copy-run.ts';
import { type RegressOptions, type RegressProgress, regress } from '../../testing/regress/regress.ts';
import type { Action, GivenTo } from '../command-table.ts';
import { EXIT } from '../exit-codes.ts';
import { absoluteModel, readLaunch } from '../launch.ts';
import { loadAgent } from '../load-agent.ts';
import { storeFile } from '../options.ts';
import { exitWhenDone, watchInterrupts } from '../process-end.ts';
import { CommandLines } from '../render/command-lines.ts';
import { formatPath, formatSpan, isDatabase } from '../render/format.ts';
import { Output } from '../render/output.ts';
import { withProgress } from '../render/progress.ts';
import { showRegress } from '../render/show-regress.ts';
import { findRun, withExistingStore } from '../store.ts';
import { isFile, readExportFile } from './read-export-file.ts';

/** Executes no tool; calls the model. */
export const regressAgent: Action<'regress'> = async options => {
  const forms = (['json', 'markdown', 'junit'] as const).filter(form => options[form] === true);
  if (forms.length > 1) throw invalidInput(`Give one of --${forms.join(' and --')}.`);
  const output = new Output({ json: forms.length > 0 });
  const files = options.runs.filter(isFile);
  if (files.length > 0 && files.length < options.runs.length)
    throw invalidInput('Give ids of runs, or files written by `export`, not both.');
  if (files.length > 0) {
    const store = memory();
    const ids: string[] = [];
    for (const file of files) ids.push(await readInto(store, file));
    return await play(options, { store, ids }, output);
  }
  return await withExistingStore(options, async ({ store }) => {
    const found = await Promise.all(options.runs.map(id => findRun(store, id)));
    const ids = found.length === 0 ? undefined : found.map(({ runId }) => runId);
    return await play(options, { store, ...omitUndefined({ ids }) }, output);
  });
};

type Source = { store: Store; ids?: readonly string[] };

async function play(options: GivenTo<'regress'>, { store, ids }: Source, output: Output): Promise<number> {
  const { agent: module, model, last, since, label, status, baseline, out, execute, failOn } = options;
  const { samples, cost, concurrency, offline } = options;
  const agent = await loadAgent(module);
  const from = storeFile(options.db);
  let file = out ?? '';
  const open = (job: string): Store => {
    if (out === undefined)
      file = resolve(isDatabase(from) ? '.' : resolve(from, '..'), `regress-${job.slice(0, 8)}.db`);
    if (existsSync(file) && existsSync(from) && realpathSync(file) === realpathSync(from))
      throw invalidInput('--out: the recorded runs are there. Give another file.');
    return sqlite(file);
  };
  const name = model ?? (agent.options.model === undefined ? readLaunch(undefined).model : undefined);
  const given: RegressOptions = {
    runs: { store, ...omitUndefined({ ids, last, since, labels: label, status }) },
    samples,
    concurrency,
    out: open,
    ...omitUndefined({ execute, cost, offline }),
    ...(name !== undefined && { model: await makeModel(name) }),
    ...(baseline !== undefined && { baseline: await loadAgent(baseline) }),
  };
  const stop = new AbortController();
  const end = watchInterrupts({ first: () => stop.abort(), again: () => process.exit(EXIT.left) });
  const beganAt = performance.now();
  let again = 0;
  try {
    const report = await withProgress(show =>
      regress(agent, {
        ...given,
        signal: stop.signal,
        onProgress: progress => {
          again = progress.again;
          show(describeProgress(progress, performance.now() - beganAt));
        },
      }),
    );
    const conditions: FailOn[] = failOn ?? [{ type: 'other-effects' }];
    const failures = failuresOf(report, conditions);
    await print(report, failures, { options, output, agent: agent.name, file, again });
    if (failures.length > 0) return EXIT.failed;
    if (report.complete) return EXIT.done;
    exitWhenDone();
    return EXIT.incomplete;
  } finally {
    end();
  }
}

async function makeModel(name: string) {
  const { modelFromEnv } = await import('../../adapters/model-from-env.ts');
  return modelFromEnv(absoluteModel(name));
}

type Printed = { options: GivenTo<'regress'>; output: Output; agent: string; file: string; again: number };

async function print(
  report: RegressReport,
  failures: readonly string[],
  { options, output, agent, file, again }: Printed,
): Promise<void> {
  if (options.markdown === true) return await output.raw(formatMarkdown(report, failures));
  if (options.junit === true) return await output.raw(formatJUnit(report, agent));
  if (options.json === true) return output.data(report);
  showRegress(output, report, { commands: new CommandLines(file), failures });
  if (!report.complete) output.line('The same command continues.');
  output.line(`The played runs are in ${formatPath(file)}.`);
  if (again > 0)
    output.line(
      `${again} of them ${again === 1 ? 'was' : 'were'} played before: delete the file to play all again.`,
    );
}

function describeProgress({ done, all, again, cost }: RegressProgress, ms: number): string {
  const played = done - again;
  const left = all - done;
  const parts = [`${done} of ${all} played`];
  if (played > 0) parts.push(`${formatSpan((ms / played) * left)} left`);
  if (cost > 0)
    parts.push(`cost ${formatCost(cost)}, about ${formatCost((cost / Math.max(1, done)) * left)} more`);
  return parts.join(' · ');
}

/** Reads an exported run into a store. Returns its id. Throws `input-invalid` for a file that was changed. */
async function readInto(store: Store, file: string): Promise<string> {
  const texts = new Map<string, string>();
  const { exported, blobs } = await readExportFile(file, ({ blob, text }) => {
    texts.set(blob, (texts.get(blob) ?? '') + text);
  });
  const { equal } = replayExport(exported, () => {}, { blobs });
  if (!equal)
    throw invalidInput(
      `${formatPath(file)} was changed after the export. See \`agentchart replay ${formatPath(file)}\`.`,
    );
  for (const { journal } of [...(exported.chain ?? []), exported]) {
    const [first, ...rest] = journal.flatMap(({ seq, event }) => (isRunEvent(event) ? [{ seq, event }] : []));
    if (first?.event.type !== 'run.started')
      throw invalidInput(`${formatPath(file)} does not begin with a start.`);
    const entries: WholeJournal = [{ seq: first.seq, event: first.event }, ...rest];
    const digests = new Set(entries.flatMap(({ event }) => blobsOf(event)).map(({ digest }) => digest));
    const kept = [...digests].map(digest => ({ digest, text: texts.get(digest) ?? '' }));
    await writeCopy(store, entries, { blobs: kept, cancels: false });
  }
  return exported.run.runId;
}
