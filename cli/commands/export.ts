import { closeSync, existsSync, fstatSync, openSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, relative, resolve } from 'node:path';
import type { Agent } from '../../agent/agent.ts';
import type { Outcome } from '../../engine/replay/describe-outcome.ts';
import { exportBlobs, exportRun, type RunExport } from '../../engine/replay/export-run.ts';
import { type Recording, recordRun } from '../../engine/replay/record-run.ts';
import { findDifference } from '../../protocol/content/find-difference.ts';
import { EngineError, invalidInput, messageOf } from '../../protocol/error.ts';
import { omitUndefined, toJson } from '../../protocol/json.ts';
import type { Store } from '../../protocol/store.ts';
import { playRun } from '../../testing/play/play-run.ts';
import { formatLiteral } from '../../visualizer/breach-test.ts';
import type { Action } from '../command-table.ts';
import { EXIT } from '../exit-codes.ts';
import { recallLaunch } from '../launch.ts';
import { loadAgent } from '../load-agent.ts';
import { readVersion } from '../options.ts';
import { formatPath, formatSafeJson, showSafely } from '../render/format.ts';
import type { Output } from '../render/output.ts';
import { withRun } from '../store.ts';

type Recorded = Awaited<ReturnType<typeof recordRun>>;

/** Writes a run, those it continues, and its large results line by line; with `test`, a vitest file. */
export const exportToFile: Action<'export'> = ({ out, test, agent, ...options }) =>
  withRun(options, async ({ store, output, record: { runId } }) => {
    if (test === true) return await writeTest(store, runId, { out, module: agent }, output);
    if (agent !== undefined) throw invalidInput('Give --agent only with --test.');
    const exported = await exportRun(store, runId);
    const indent = out === undefined && output.json ? 0 : 2;
    await write(output, out, formatExport(store, exported, indent));
    if (out === undefined) return EXIT.done;
    const entries = exported.journal.length;
    const { stateHash } = exported.end;
    output.tell(
      { runId, file: out, entries, stateHash },
      `Exported ${runId} to ${formatPath(out)}: ${entries} entries, state ${stateHash}`,
    );
    return EXIT.done;
  });

async function* formatExport(store: Store, exported: RunExport, indent: number): AsyncGenerator<string> {
  yield `${formatSafeJson(exported, indent)}\n`;
  for await (const part of exportBlobs(store, exported)) yield `${formatSafeJson(part)}\n`;
}

async function writeTest(
  store: Store,
  runId: string,
  { out, module }: { out: string | undefined; module: string | undefined },
  output: Output,
): Promise<number> {
  const file = module ?? (await recallLaunch(store, runId)).module;
  const isThere = module !== undefined || (file !== undefined && existsSync(file));
  const tested = file !== undefined && isThere ? await testedAgent(file, out) : undefined;
  const test = await makeTest(store, runId, tested);
  if (out !== undefined || !output.json) await write(output, out, [test]);
  if (out === undefined && output.json) output.data({ runId, test });
  const alone =
    tested === undefined
      ? '\nIt plays the recording alone. To test the code of its agent, give --agent MODULE.'
      : '';
  if (out !== undefined)
    output.tell(
      { runId, file: out },
      `Exported ${runId} as a test. To run it: npx vitest run ${formatPath(out)}${alone}`,
    );
  return EXIT.done;
}

/** `module`: as the test imports it. */
type TestedAgent = { agent: Agent; module: string };

async function testedAgent(file: string, out: string | undefined): Promise<TestedAgent> {
  const loaded = await loadAgent(file);
  const path = relative(dirname(resolve(out ?? 'x')), resolve(file)).replaceAll('\\', '/');
  return { agent: loaded, module: path.startsWith('.') ? path : `./${path}` };
}

/** Returns the source of a run's test. Throws `refused` if the test would fail. */
export async function makeTest(store: Store, runId: string, tested?: TestedAgent): Promise<string> {
  const recorded = await recordRun(store, runId, { raw: tested !== undefined });
  await assertPlayable(recorded, runId, tested?.agent);
  const agent = recorded.recording.at(-1)?.started.agent.name ?? '';
  return formatTest(recorded, {
    runId,
    agent,
    version: readVersion(),
    ...omitUndefined({ module: tested?.module }),
  });
}

async function assertPlayable(
  { recording, outcome }: Recorded,
  runId: string,
  agent: Agent | undefined,
): Promise<void> {
  const reason = await playRun(recording, agent).then(
    played => {
      const difference = findDifference(toJson(played), toJson(outcome));
      return difference === null ? null : `Replaying run ${runId} gives a different ${difference}.`;
    },
    error => messageOf(error),
  );
  if (reason === null) return;
  const advice = agent === undefined ? 'export the run without --test' : 'see `agentchart regress`';
  throw new EngineError('refused', `${reason} No test was written; ${advice}.`, { runId });
}

/** Leaves no part of a file behind if not everything can be read and written. */
async function write(
  output: Output,
  file: string | undefined,
  texts: AsyncIterable<string> | readonly string[],
): Promise<void> {
  if (file === undefined) {
    for await (const text of texts) await output.raw(text);
    return;
  }
  const opened = writing(file, () => openSync(file, 'w'));
  try {
    for await (const text of texts) writing(file, () => writeFileSync(opened, text));
  } catch (error) {
    if (fstatSync(opened).isFile()) rmSync(file, { force: true });
    throw error;
  } finally {
    closeSync(opened);
  }
}

function writing<Result>(file: string, work: () => Result): Result {
  try {
    return work();
  } catch (cause) {
    const message = `Cannot write ${formatPath(file)}: ${messageOf(cause)}. Choose another --out.`;
    throw new EngineError('input-invalid', message, { file }, { cause });
  }
}

/** Returns the source of a vitest file that plays a recording, on the agent of `module`, and compares the outcomes. */
export function formatTest(
  { recording, outcome }: { recording: Recording; outcome: Outcome },
  { runId, agent, version, module }: { runId: string; agent: string; version: string; module?: string },
): string {
  const name = commented(agent);
  const about =
    module === undefined
      ? `Replays run ${commented(runId)} of agent ${name}: the recorded model turns, tool results and decisions, in
 * their original order. Needs no API key and no network.`
      : `Replays run ${commented(runId)} of agent ${name} on its code: the recorded model turns, tool results and decisions
 * pass through its schemas, approvals, rules and guardrails. No tool is executed, and no model is called.`;
  return `/**
 * ${about}
 *
 * Generated by agentchart ${version}: agentchart export ${commented(runId)} --test --out FILE
 */
import { type Outcome, type Recording, playRun } from 'agentchart/testing';
import { expect, test } from 'vitest';
${module === undefined ? '' : `import agent from ${formatSafeJson(module)};\n`}
/** The recorded runs, in order: first those that the last one continues. */
const recording: Recording = ${formatLiteral(recording)};

/** The recorded outcome. */
const outcome: Outcome = ${formatLiteral(outcome)};

test(${formatSafeJson(`run ${runId} replays to the same outcome`)}, async () => {
  expect(await playRun(recording${module === undefined ? '' : ', agent'})).toEqual(outcome);
});
`;
}

function commented(text: string): string {
  return showSafely(text).replaceAll('*/', '* /');
}
