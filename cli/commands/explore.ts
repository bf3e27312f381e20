import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { EngineError } from '../../protocol/error.ts';
import { omitUndefined } from '../../protocol/json.ts';
import type { Tool, ToolSource } from '../../protocol/tool.ts';
import type { Agent } from '../../tools/agent/agent.ts';
import { type ConnectedTools, connectTools } from '../../tools/connect-tools.ts';
import { type ExploreOptions, explore } from '../../tools/explore/explore.ts';
import type { ExplorationReport } from '../../tools/explore/report.ts';
import { EXIT } from '../exit-codes.ts';
import { loadAgent } from '../load-agent.ts';
import { Output } from '../render/output.ts';
import { showExploration } from '../render/show-exploration.ts';

export type ExploreCommandOptions = { agent?: string; maxStates?: string; connect?: boolean; json?: boolean };

/** The environment variable of a process that sends its progress to its parent process: `{ states }`. */
export const REPORTS_PROGRESS = 'AGENTCHART_REPORTS_PROGRESS';

/** Implements `agentchart explore`. Executes nothing; starts tool servers only with `--connect`. */
export async function exploreAgent(options: ExploreCommandOptions): Promise<number> {
  const output = new Output({ json: options.json === true });
  const maxStates = readMaxStates(options.maxStates);
  if (options.agent === undefined) {
    throw new EngineError(
      'input-invalid',
      '--agent MODULE is required: the module whose default export is the agent.',
    );
  }
  const agent = await loadAgent(options.agent);
  const exports = await readExports(options.agent);
  const connected = options.connect === true ? await connectTools(sourcesOf(agent)) : undefined;
  try {
    const report = walk(agent, connected, { ...exports, ...omitUndefined({ maxStates }) });
    if (output.json) output.data(report);
    else showExploration(output, report);
    return report.breaches.length === 0 ? EXIT.done : EXIT.failed;
  } finally {
    await connected?.close();
  }
}

function walk(
  agent: Agent,
  connected: ConnectedTools | undefined,
  options: ExploreOptions,
): ExplorationReport {
  const showsProgress = process.stderr.isTTY === true;
  const sendsProgress = process.env[REPORTS_PROGRESS] === '1';
  const report = explore(agent, {
    ...options,
    ...omitUndefined({ tools: connected && [...connected.tools.values()] }),
    maxMs: Number.POSITIVE_INFINITY,
    onProgress: states => {
      if (showsProgress) process.stderr.write(`\r${states} states`);
      if (sendsProgress) process.send?.({ states });
    },
  });
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
