import type { AgentView, ToolSummary } from '../../../protocol/agent-view.ts';
import { formatCost } from '../../../protocol/listing/cost.ts';
import { formatDuration } from '../../../protocol/listing/format-duration.ts';
import { formatNumber } from '../../../protocol/listing/format-number.ts';
import { nameModels } from '../../../visualizer/name-models.ts';

const ANSWERS = {
  live: 'live: streamed while the model writes it',
  held: 'held: shown once the turn is complete',
  separate: 'separate: written in a turn of its own',
} as const;

const LIMITS: Readonly<Record<string, string>> = {
  turns: 'Most turns',
  toolCalls: 'Most tool calls',
  tokens: 'Most tokens',
  cost: 'Highest cost',
  activeMs: 'Longest time at work',
  repeatedFailures: 'Most equal failures',
};

function describeLimit(limit: string, value: unknown): string {
  if (typeof value !== 'number') return String(value);
  if (limit === 'activeMs') return formatDuration(value);
  return limit === 'cost' ? formatCost(value) : formatNumber(value);
}

/** What an agent is, as names and values for people. */
export function factsOfAgent({
  forkModels,
  models,
  version,
  limits,
  ...agent
}: Omit<AgentView, 'facts'>): AgentView['facts'] {
  const own = models.length;
  return [
    { name: 'Models', value: nameModels(models) || 'none' },
    ...(forkModels.length > own
      ? [{ name: 'Models for forks', value: forkModels.slice(own).join(', ') }]
      : []),
    ...(version === undefined ? [] : [{ name: 'Version', value: version }]),
    ...Object.entries(limits).map(([limit, value]) => ({
      name: LIMITS[limit] ?? limit,
      value: describeLimit(limit, value),
    })),
    { name: 'At a limit', value: agent.onLimit === 'answer' ? 'one closing answer' : 'stops' },
    ...(agent.onUnknownUsage === 'estimate' ? [{ name: 'Without usage', value: 'estimates it' }] : []),
    { name: 'Final answer', value: ANSWERS[agent.finalAnswer] },
    { name: 'Tools at once', value: String(agent.toolConcurrency) },
  ];
}

const EFFECTS = {
  none: 'no side effect',
  idempotent: 'side effect, safe to repeat',
  once: 'side effect, must not run twice',
} as const;
const GATES = {
  always: 'needs approval',
  never: 'no approval',
  depends: 'approval depends on the call',
} as const;
const EXECUTORS = { engine: '', client: 'a client runs it', agent: 'a sub-agent' } as const;

/** `no side effect · no approval · times out after 5.0 s` */
export function sayTool(tool: Omit<ToolSummary, 'says'>): string {
  const { sideEffect, approval, executedBy, reconcilable, retries, timeoutMs, server } = tool;
  const facts = [
    EFFECTS[sideEffect],
    GATES[approval],
    EXECUTORS[executedBy],
    reconcilable && 'can find out the outcome of a call in doubt',
    retries > 0 && `${formatNumber(retries)} ${retries === 1 ? 'retry' : 'retries'}`,
    timeoutMs !== undefined && `times out after ${formatDuration(timeoutMs)}`,
    server !== undefined && `from ${server}`,
  ];
  return facts.filter(Boolean).join(' · ');
}
