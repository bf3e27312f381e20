import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Agent } from '../../../agent/agent.ts';
import { agentNamed } from '../../../agent/sub-agents.ts';
import { readFromStart } from '../../../engine/journal/read-journal.ts';
import { type ExploreOptions, explore } from '../../../explore/explore.ts';
import { exploreFrom, type ForwardReport } from '../../../explore/forward/explore-from.ts';
import type { ExplorationReport } from '../../../explore/report.ts';
import { EngineError } from '../../../protocol/error.ts';
import { omitUndefined } from '../../../protocol/json.ts';
import type { RunRecord, Store } from '../../../protocol/store.ts';
import type { Tool, ToolSource } from '../../../protocol/tool.ts';
import { type ConnectedTools, connectTools } from '../../../tools/connect-tools.ts';
import { EXIT } from '../../exit-codes.ts';
import { findRun } from '../../find-run.ts';
import { bareAgent, recallLaunch } from '../../launch.ts';
import { loadAgent } from '../../load-agent.ts';
import { storeFile, withExistingStore } from '../../open-store.ts';
import { readEntryNumber } from '../../options.ts';
import { formatPath } from '../../render/format-path.ts';
import { Output } from '../../render/output.ts';
import { showExploration } from '../../render/show-exploration.ts';
import { type Explored, saveBreachTests } from './save-breach-tests.ts';
import { showAhead } from './show-ahead.ts';

export type ExploreCommandOptions = {
  db?: string;
  agent?: string;
  at?: string;
  maxStates?: string;
  connect?: boolean;
  saveTest?: string;
  json?: boolean;
};

/** The environment variable of a process that sends its progress to its parent process: `{ states }`. */
export const REPORTS_PROGRESS = 'AGENTCHART_REPORTS_PROGRESS';

/**
 * Implements `agentchart explore`: of an agent, or from where the run `id` stands. Executes nothing; starts tool servers
 * only with `--connect`.
 */
export async function exploreAgent(id: string | undefined, options: ExploreCommandOptions): Promise<number> {
  const output = new Output({ json: options.json === true });
  const maxStates = readMaxStates(options.maxStates);
  const explored =
    id === undefined
      ? await findAgent(options)
      : await withExistingStore(storeFile(options.db), async store =>
          findExploredRun(store, await findRun(store, id), options),
        );
  const { agent, exports } = explored;
  const connected = options.connect === true ? await connectTools(sourcesOf(agent)) : undefined;
  try {
    const report = walk(explored, connected, { ...exports, ...omitUndefined({ maxStates }) });
    if (output.json) output.data(report);
    else if ('ahead' in report) showAhead(output, report);
    if (!output.json) showExploration(output, report);
    if (options.saveTest !== undefined) saveBreachTests(output, options.saveTest, explored, report);
    if (report.breaches.length > 0) return EXIT.failed;
    return report.complete ? EXIT.done : EXIT.incomplete;
  } finally {
    await connected?.close();
  }
}

async function findAgent({ agent: module, at }: ExploreCommandOptions): Promise<Explored> {
  if (at !== undefined) throw new EngineError('input-invalid', '--at needs a run.');
  if (module === undefined) {
    throw new EngineError(
      'input-invalid',
      'Give a run, or --agent MODULE: the module whose default export is the agent.',
    );
  }
  return { agent: await loadAgent(module), module, exports: await readExports(module) };
}

async function findExploredRun(
  store: Store,
  record: RunRecord,
  options: ExploreCommandOptions,
): Promise<Explored> {
  const { runId, seq } = record;
  const at = options.at === undefined ? seq : readEntryNumber('--at', options.at);
  if (at < 1 || at > seq)
    throw new EngineError('input-invalid', `--at must be an entry of the run, from 1 to ${seq}, got ${at}.`);
  const journal = await readFromStart(store, runId, 'Explore');
  const entries = journal.filter(entry => entry.seq <= at);
  return { ...(await findAgentOf(store, record, options.agent)), entries };
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

/** Reads the named exports of the agent's module that are options of `explore`. */
async function readExports(file: string): Promise<ExploreOptions> {
  const exported: ExploreOptions = await import(pathToFileURL(resolve(file)).href);
  const { machine, invariants, samples, runContext } = exported;
  return omitUndefined({ machine, invariants, samples, runContext });
}

function sourcesOf(agent: Agent): ToolSource[] {
  const entries: readonly (Tool | ToolSource)[] = agent.options.tools ?? [];
  return entries.filter(
    (entry): entry is ToolSource => 'connect' in entry && typeof entry.connect === 'function',
  );
}

function readMaxStates(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const number = Number(text);
  if (/^\d+$/.test(text) && Number.isSafeInteger(number) && number > 0) return number;
  throw new EngineError('input-invalid', `--max-states must be a positive integer, got "${text}".`);
}
