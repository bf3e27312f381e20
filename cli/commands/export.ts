import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { exportBlobs } from '../../engine/replay/export-blobs.ts';
import { exportRun } from '../../engine/replay/export-run.ts';
import { findDifference } from '../../engine/replay/find-difference.ts';
import { recordRun } from '../../engine/replay/record-run.ts';
import { EngineError, messageOf } from '../../protocol/error.ts';
import { toJson } from '../../protocol/json.ts';
import type { Store } from '../../protocol/store.ts';
import { playRun } from '../../testing/play/play-run.ts';
import { EXIT } from '../exit-codes.ts';
import { findRun } from '../find-run.ts';
import { storeFile, withExistingStore } from '../open-store.ts';
import { formatPath } from '../render/format-path.ts';
import { formatTest } from '../render/format-test.ts';
import { Output } from '../render/output.ts';
import { formatSafeJson } from '../render/show-safely.ts';

export type ExportOptions = { db?: string; json?: boolean; out?: string; test?: boolean; version: string };

type Recorded = Awaited<ReturnType<typeof recordRun>>;

/**
 * Implements `agentchart export`. Writes a JSON document with the run and the runs that it continues, followed
 * by the parts of its large results, one JSON line each. With `test`, writes a vitest file instead.
 */
export async function exportToFile(id: string, options: ExportOptions): Promise<number> {
  const output = new Output({ json: options.json === true });
  return await withExistingStore(storeFile(options.db), async store => {
    const { runId } = await findRun(store, id);
    if (options.test === true) return await writeTest(store, runId, options, output);
    const exported = await exportRun(store, runId);
    const { out } = options;
    if (out === undefined) {
      await writeOut(`${formatSafeJson(exported, output.json ? 0 : 2)}\n`);
      for await (const part of exportBlobs(store, exported)) await writeOut(`${formatSafeJson(part, 0)}\n`);
      return EXIT.done;
    }
    write(out, `${formatSafeJson(exported, 2)}\n`);
    for await (const part of exportBlobs(store, exported)) append(out, `${formatSafeJson(part, 0)}\n`);
    const entries = exported.journal.length;
    const { stateHash } = exported.end;
    if (output.json) output.data({ runId, file: out, entries, stateHash });
    else output.line(`Exported ${runId} to ${formatPath(out)}: ${entries} entries, state ${stateHash}`);
    return EXIT.done;
  });
}

/** Writes the test of a run. Throws `refused` if the test would fail. */
async function writeTest(
  store: Store,
  runId: string,
  options: ExportOptions,
  output: Output,
): Promise<number> {
  const { out, version } = options;
  const text = await makeTest(store, runId, version);
  if (out === undefined) {
    if (output.json) output.data({ runId, test: text });
    else process.stdout.write(text);
    return EXIT.done;
  }
  write(out, text);
  if (output.json) output.data({ runId, file: out });
  else output.line(`Exported ${runId} as a test. To run it: npx vitest run ${formatPath(out)}`);
  return EXIT.done;
}

/** Returns the source of a run's test. Throws `refused` if the test would fail. */
export async function makeTest(store: Store, runId: string, version: string): Promise<string> {
  const recorded = await recordRun(store, runId);
  await assertPlayable(recorded, runId);
  const agent = recorded.recording.at(-1)?.started.agent.name ?? '';
  return formatTest(recorded, { runId, agent, version });
}

async function assertPlayable({ recording, outcome }: Recorded, runId: string): Promise<void> {
  const reason = await playRun(recording).then(
    played => {
      const difference = findDifference(toJson(played), toJson(outcome));
      return difference === null ? null : `Replaying run ${runId} gives a different ${difference}.`;
    },
    error => messageOf(error),
  );
  if (reason === null) return;
  throw new EngineError('refused', `${reason} No test was written; export the run without --test.`, {
    runId,
  });
}

async function writeOut(text: string): Promise<void> {
  if (!process.stdout.write(text)) await once(process.stdout, 'drain');
}

const append = (file: string, text: string) => write(file, text, 'a');

function write(file: string, text: string, flag: 'w' | 'a' = 'w'): void {
  try {
    writeFileSync(file, text, { flag });
  } catch (cause) {
    const message = `Cannot write ${formatPath(file)}: ${messageOf(cause)}. Choose another --out.`;
    throw new EngineError('input-invalid', message, { file }, { cause });
  }
}
