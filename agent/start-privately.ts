import { systemHost } from '../engine/host/host.ts';
import { PrivateRun } from '../engine/run/private-run.ts';
import { makeServices } from '../engine/services/make-services.ts';
import type { Item } from '../protocol/item.ts';
import type { Tool } from '../protocol/tool.ts';
import { filterText } from '../text/text-filter.ts';
import { type AgentOptions, defineAgent } from './agent-options.ts';
import { beginJournal, type StartOptions } from './begin-journal.ts';
import { NO_SUB_AGENTS } from './loop.ts';

const NO_TOOLS: ReadonlyMap<string, Tool> = new Map();

/** Starts a run of an agent without tools that only its caller sees: see `PrivateRun`. Throws like `agent.start`. */
export function startPrivately(
  input: readonly Item[],
  options: AgentOptions,
  start: Pick<StartOptions, 'stream' | 'inherits' | 'sent' | 'by'> & { runId: string },
): PrivateRun {
  const definition = defineAgent(options);
  const { host = systemHost } = options;
  const parts = { connectTools: async () => NO_TOOLS, subAgents: NO_SUB_AGENTS };
  const started = beginJournal(definition, host, input, { ...start, runContext: undefined, tools: NO_TOOLS });
  return new PrivateRun(started, {
    host,
    services: makeServices(definition, parts),
    showText: text => filterText(text, definition.textFilters),
  });
}
