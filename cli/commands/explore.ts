import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { dirname, relative, resolve } from 'node:path';
import type { Agent } from '../../agent/agent.ts';
import { agentNamed } from '../../agent/sub-agents.ts';
import { readFromStart } from '../../engine/journal/read-journal.ts';
import { type CheckedPath, checkPath } from '../../explore/check-path.ts';
import { type ExploreOptions, explore } from '../../explore/explore.ts';
import { exploreFrom, type ForwardReport, readPast } from '../../explore/explore-from.ts';
import type { BreachReport, ExplorationReport } from '../../explore/report.ts';
import { EngineError, invalidInput, messageOf } from '../../protocol/error.ts';
import type { ChartEvent, JournalEntry } from '../../protocol/event.ts';
import { type JsonObject, omitUndefined } from '../../protocol/json.ts';
import type { RunRecord, Store } from '../../protocol/store.ts';
import type { ExploreAgent, Exploring } from '../../server/runs/explore-route.ts';
import { type ConnectedTools, connectTools, isToolSource } from '../../tools/connect-tools.ts';
import { formatBreachTest } from '../../visualizer/breach-test.ts';
import { sayReport } from '../../visualizer/describe-exploration.ts';
import type { Action, GivenTo } from '../command-table.ts';
import { EXIT } from '../exit-codes.ts';
import { bareAgent, recallLaunch } from '../launch.ts';
import { loadAgent, readExports } from '../load-agent.ts';
import { formatPath } from '../render/format.ts';
import { Output } from '../render/output.ts';
import { showAhead, showExploration } from '../render/show-exploration.ts';
import { withRun } from '../store.ts';

/** The environment variable of a process that sends its progress to its parent process: `{ states }`. */
const REPORTS_PROGRESS = 'AGENTCHART_REPORTS_PROGRESS';

/** What is explored: an agent of a module, from the start or from the last of a run's `entries`. */
type Explored = {
  agent: Agent;
  module?: string;
  exports: ExploreOptions;
  entries?: readonly JournalEntry[];
};

/** Executes nothing; starts tool servers only with `--connect`. */
export const exploreAgent: Action<'explore'> = async options => {
  const { run, maxStates, connect, saveTest } = options;
  const output = new Output(options);
  const explored =
    run === undefined
      ? await findAgent(options)
      : await withRun({ ...options, run }, ({ store, record }) => findRunAt(store, record, options));
  const never = options.never && [listNever(explored.exports), options.never].flat();
  const sources = explored.agent.options.tools?.filter(isToolSource) ?? [];
  const connected = connect === true ? await connectTools(sources) : undefined;
  try {
    const report = walk(explored, connected, { ...explored.exports, ...omitUndefined({ maxStates, never }) });
    if (output.json) output.data(sayReport(report));
    else {
      if ('ahead' in report) showAhead(output, report);
      showExploration(output, report);
    }
    if (saveTest !== undefined) saveBreachTests(output, saveTest, explored, report, never);
    const verdicts = report.rules.flatMap(({ verdict, only }) => (only === undefined ? [verdict] : []));
    if (report.breaches.length > 0 || verdicts.includes('broken')) return EXIT.failed;
    return report.complete && !verdicts.includes('not-proved') ? EXIT.done : EXIT.incomplete;
  } finally {
    await connected?.close();
  }
};

async function findAgent({ agent: module, at }: GivenTo<'explore'>): Promise<Explored> {
  if (at !== undefined) throw invalidInput('--at needs a run.');
  if (module === undefined)
    throw invalidInput('Give a run, or --agent MODULE: the module whose default export is the agent.');
  return { agent: await loadAgent(module), module, exports: await readExports(module) };
}

async function findRunAt(store: Store, record: RunRecord, options: GivenTo<'explore'>): Promise<Explored> {
  const { runId, seq } = record;
  const { at = seq, agent } = options;
  if (at < 1 || at > seq)
    throw invalidInput(`--at must be an entry of the run, from 1 to ${seq}, got ${at}.`);
  const journal = await readFromStart(store, runId, 'Explore');
  return { ...(await findAgentOf(store, record, agent)), entries: journal.filter(entry => entry.seq <= at) };
}

/** The agent of a run. Invariants and samples are the module's own agent's, not those of its sub-agents. */
async function findAgentOf(
  store: Store,
  record: RunRecord,
  requested: string | undefined,
): Promise<Omit<Explored, 'entries'>> {
  const recalled = await recallLaunch(store, record.runId);
  const module = requested ?? recalled.module;
  if (module === undefined && recalled.request !== undefined)
    throw new EngineError(
      'refused',
      `Run ${record.runId} was started by a request to a server, which has its tools. Give the agent with --agent MODULE.`,
    );
  if (module === undefined) return { agent: bareAgent(record, store), exports: {} };
  const top = await loadAgent(module);
  const agent = agentNamed(top, record.agent);
  if (agent === undefined)
    throw new EngineError(
      'run-foreign',
      `Run ${record.runId} belongs to agent "${record.agent}", but ${formatPath(module)} is "${top.name}". Give the module of "${record.agent}" with --agent MODULE.`,
      { runId: record.runId, owner: record.agent, agent: top.name },
    );
  return agent === top ? { agent, module, exports: await readExports(module) } : { agent, exports: {} };
}

function walk(
  { agent, entries }: Explored,
  connected: ConnectedTools | undefined,
  options: ExploreOptions,
): ExplorationReport | ForwardReport {
  const showsProgress = process.stderr.isTTY === true;
  const sendsProgress = process.env[REPORTS_PROGRESS] === '1';
  const all: ExploreOptions = {
    ...options,
    ...omitUndefined({ tools: connected && [...connected.tools.values()] }),
    maxMs: Number.POSITIVE_INFINITY,
    onProgress: states => {
      if (showsProgress) process.stderr.write(`\r${states} states`);
      if (sendsProgress) process.send?.({ states });
    },
  };
  const report = entries === undefined ? explore(agent, all) : exploreFrom(agent, entries, all);
  if (showsProgress) process.stderr.write('\r\u001b[K');
  return report;
}

function listNever({ never = [] }: ExploreOptions): readonly string[] {
  return typeof never === 'string' ? [never] : never;
}

/** Writes a vitest file with a test for each breach of an invariant or a rule that one path shows. Throws `input-invalid` if it cannot be written. */
function saveBreachTests(
  output: Output,
  file: string,
  { agent, module, exports, entries }: Explored,
  { breaches, rules }: ExplorationReport,
  never: readonly string[] | undefined,
): void {
  const broken = rules.flatMap(({ name: invariant, path }) => (path ? [{ invariant, path }] : []));
  const options = { ...exports, ...omitUndefined({ never }) };
  const found = [...breaches, ...broken].flatMap(({ invariant, path }) => {
    const checked = pathOf(path, entries);
    const isShown = checked !== null && checkPath(agent, checked, options).length > 0;
    return isShown ? [{ invariant, ...checked }] : [];
  });
  const [first] = found;
  if (first === undefined || module === undefined) {
    if (!output.json) output.line('No test was written: there is no breach that a test can show.');
    return;
  }
  const from = relative(dirname(resolve(file)), resolve(module)).replaceAll('\\', '/');
  const imported = from.startsWith('.') ? from : `./${from}`;
  try {
    writeFileSync(
      file,
      formatBreachTest({ module: imported, past: first.past, breaches: found, ...omitUndefined({ never }) }),
    );
  } catch (cause) {
    const message = `Cannot write ${formatPath(file)}: ${messageOf(cause)}. Choose another --save-test.`;
    throw new EngineError('input-invalid', message, { file }, { cause });
  }
  if (!output.json) output.line(`Saved as a test. To run it: npx vitest run ${formatPath(file)}`);
}

/** Returns the events of a breach; those of a run come after its entries. */
function pathOf(path: BreachReport['path'], entries: Explored['entries']): CheckedPath | null {
  const events = path.map(({ event }) => event);
  const isChart = (event: (typeof events)[number]): event is ChartEvent => event.type !== 'run.started';
  const [first] = events;
  if (entries !== undefined) {
    const { started, past } = readPast(entries);
    return { past: [started, ...past], path: events.filter(isChart) };
  }
  return first?.type === 'run.started' ? { past: [first], path: events.filter(isChart) } : null;
}

const LONGEST_MS = 120_000;

const MOST_CHARS = 16 * 1024 * 1024;

const TELL_MS = 250;

/** Runs `agentchart explore --json` in another process, so that the server stays responsive. */
export async function* exploreInProcess(
  module: string | undefined,
  db: string,
  { maxStates, signal, run }: Parameters<ExploreAgent>[1],
): AsyncGenerator<Exploring> {
  const [node, program = ''] = process.argv;
  const args = [
    ...[program, 'explore', '--max-states', String(maxStates), '--json'],
    ...(module === undefined ? [] : ['--agent', module]),
    ...(run === undefined ? [] : ['--at', String(run.at), '--', run.runId]),
  ];
  const child = spawn(node ?? process.execPath, [...process.execArgv, ...args], {
    stdio: ['ignore', 'pipe', 'ignore', 'ipc'],
    env: { ...process.env, AGENTCHART_DB: db, [REPORTS_PROGRESS]: '1' },
    signal: AbortSignal.any([signal, AbortSignal.timeout(LONGEST_MS)]),
    killSignal: 'SIGKILL',
  });
  let states = 0;
  let report = '';
  child.on('error', () => {});
  child.on('message', message => {
    states = Number((message as { states?: unknown }).states) || states;
  });
  child.stdout?.setEncoding('utf8').on('data', (chunk: string) => {
    if (report.length < MOST_CHARS) report += chunk;
  });
  const ended = once(child, 'close');
  const isEnded = Promise.allSettled([ended]).then(() => true);
  let told = -1;
  for (;;) {
    const isOver = await Promise.race([
      isEnded,
      new Promise<false>(resolve => setTimeout(resolve, TELL_MS, false)),
    ]);
    if (states > told) {
      told = states;
      yield { type: 'progress', states };
    }
    if (isOver) break;
  }
  await ended;
  yield { type: 'result', report: readReport(report) };
}

function readReport(text: string): JsonObject {
  try {
    return JSON.parse(text) as JsonObject;
  } catch (cause) {
    throw new EngineError('agent-module-invalid', 'agentchart explore gave no report.', null, { cause });
  }
}
