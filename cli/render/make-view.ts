import type { Agent } from '../../agent/agent.ts';
import type { RunHappening } from '../../engine/run/run.ts';
import type { ChartState } from '../../machines/step.ts';
import type { Output } from './output.ts';
import { TerminalView, type View } from './terminal-view.ts';

type ViewOptions = {
  output: Output;
  runId: string;
  agent: Agent;
  /** Whether JSON output includes deltas. */
  deltas: boolean;
  /** The fold before the first entry to show; `null` to show the run from its first event. */
  begin: { state: ChartState; seq: number } | null;
};

/** Returns the view for the format of `output`: JSON Lines or text. */
export function makeView({ output, runId, agent, deltas, begin }: ViewOptions): View {
  if (output.json) return makeJsonView(output, runId, { deltas });
  const filters = agent.options.textFilters ?? [];
  return new TerminalView({ output, runId, filters, ...(begin !== null && { begin }) });
}

function makeJsonView(output: Output, runId: string, { deltas }: { deltas: boolean }): View {
  return {
    take(happening) {
      if ('seq' in happening) output.data(orderEvent(happening));
      else if (deltas) output.data({ runId, ...happening });
    },
    end(settled) {
      if (settled.status === 'failed') output.problem(`${settled.error.code}: ${settled.error.message}`);
    },
  };
}

/** Returns an event as commands print it in JSON: run, sequence number, time and type come first. */
export function orderEvent({
  runId,
  seq,
  at,
  type,
  ...facts
}: Extract<RunHappening, { seq: number }>): object {
  return { runId, seq, at, type, ...facts };
}
