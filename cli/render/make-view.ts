import type { ChartState } from '../../machines/step.ts';
import { filterText } from '../../text/text-filter.ts';
import type { Agent } from '../../tools/agent/agent.ts';
import { makeJsonView, type View } from './json-view.ts';
import type { Output } from './output.ts';
import { TerminalView } from './terminal-view.ts';

export type ViewOptions = {
  output: Output;
  runId: string;
  agent: Agent;
  deltas: boolean;
  /** The run up to what will be shown; `null` when it is shown from its first event. */
  state: ChartState | null;
};

export function makeView({ output, runId, agent, deltas, state }: ViewOptions): View {
  if (output.json) return makeJsonView(output, runId, { deltas });
  const filters = agent.options.textFilters ?? [];
  return new TerminalView({ output, state, showText: text => filterText(text, filters) });
}
