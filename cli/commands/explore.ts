import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { EngineError } from '../../protocol/error.ts';
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

/** Walks everything the agent's runs can do, without running anything of it. Tool servers are started only with `--connect`. */
export async function exploreAgent(options: ExploreCommandOptions): Promise<number> {
  const output = new Output({ json: options.json === true });
  const maxStates = readMaxStates(options.maxStates);
  if (options.agent === undefined) {
    throw new EngineError(
      'input-invalid',
      'Expected --agent MODULE: the module whose default export is the agent.',
    );
  }
  const agent = await loadAgent(options.agent);
  const said = await readExports(options.agent);
  const connected = options.connect === true ? await connectTools(sourcesOf(agent)) : undefined;
  try {
    const report = walk(agent, connected, { ...said, ...(maxStates === undefined ? {} : { maxStates }) });
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
  const isWatched = process.stderr.isTTY === true;
  const report = explore(agent, {
    ...options,
    ...(connected === undefined ? {} : { tools: [...connected.tools.values()] }),
    onProgress: states => {
      if (isWatched) process.stderr.write(`\r${states} states`);
    },
  });
  if (isWatched) process.stderr.write('\r\u001b[K');
  return report;
}

/** What the agent's module exports beside it: `machine`, `invariants` and `samples`, as `explore` takes them. */
async function readExports(file: string): Promise<ExploreOptions> {
  const { machine, invariants, samples }: ExploreOptions = await import(pathToFileURL(resolve(file)).href);
  return {
    ...(machine === undefined ? {} : { machine }),
    ...(invariants === undefined ? {} : { invariants }),
    ...(samples === undefined ? {} : { samples }),
  };
}

function sourcesOf(agent: Agent): ToolSource[] {
  const entries: readonly (Tool | ToolSource)[] = agent.options.tools ?? [];
  return entries.filter(
    (entry): entry is ToolSource => 'connect' in entry && typeof entry.connect === 'function',
  );
}

function readMaxStates(given: string | undefined): number | undefined {
  if (given === undefined) return undefined;
  const number = Number(given);
  if (/^\d+$/.test(given) && Number.isSafeInteger(number) && number > 0) return number;
  throw new EngineError(
    'input-invalid',
    `Expected --max-states to be a whole number above 0, got "${given}".`,
  );
}
