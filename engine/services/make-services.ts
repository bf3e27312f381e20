import type { ServiceName } from '../../protocol/effect.ts';
import { omitUndefined } from '../../protocol/json.ts';
import type { Tool } from '../../protocol/tool.ts';
import type { DriveWatcher } from '../events/watch-drive.ts';
import { LONGEST_NAP_MS, sleep } from '../host/host.ts';
import type { SubAgentRuns } from '../sub-agents/sub-agent-runs.ts';
import { makeAnswerCheck } from './answer-check.ts';
import { makeCompaction } from './compaction.ts';
import type { AgentDefinition } from './definition.ts';
import { makeModelTurn } from './model-turn.ts';
import type { Service } from './service.ts';
import { makeToolBatch } from './tool-batch.ts';

/* Services carry out the chart's effects: model turns, tool batches, the timer, and checks of the answer. */

type ServiceParts = {
  connectTools(): Promise<ReadonlyMap<string, Tool>>;
  subAgents: SubAgentRuns;
  watchers?: readonly DriveWatcher[] | undefined;
};

export function makeServices(
  { output, guardrails, toolConcurrency: concurrency, ...turn }: AgentDefinition,
  { connectTools, subAgents, watchers }: ServiceParts,
): Readonly<Record<ServiceName, Service>> {
  const format = omitUndefined({ output: output?.format, watchers });
  return {
    compaction: makeCompaction({ ...turn, guardrails, connectTools }),
    modelTurn: makeModelTurn({ ...turn, ...format, guardrails, connectTools }),
    toolBatch: makeToolBatch({
      connectTools,
      subAgents,
      concurrency,
      retryBaseMs: turn.retry.baseMs,
      textFilters: turn.textFilters,
      rules: turn.rules,
    }),
    timer,
    answerCheck: makeAnswerCheck(guardrails.answer, output),
  };
}

/** Fires by the wall clock, even if the machine slept; before a retry also by the monotonic one, as the other may be set back. */
const timer: Service = async scope => {
  const { host, until = 0 } = scope;
  const { signal } = scope.stop;
  const isBackOff = scope.context().failure !== null;
  const longest = host.monotonic() + Math.max(0, until - host.now());
  while (host.now() < until && !signal.aborted) {
    const left = isBackOff ? longest - host.monotonic() : until - host.now();
    if (left <= 0) break;
    await sleep(host, Math.min(left, until - host.now(), LONGEST_NAP_MS), signal);
  }
  if (!signal.aborted) scope.report({ type: 'timer.fired' });
};
