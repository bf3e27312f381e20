import type { ServiceName } from '../../protocol/effect.ts';
import type { Tool } from '../../protocol/tool.ts';
import type { AgentDefinition } from '../definition.ts';
import type { ChildRuns } from '../sub-agents/child-runs.ts';
import { makeFinishers } from './finishers.ts';
import { makeModelTurn } from './model-turn.ts';
import type { Service } from './service.ts';
import { timer } from './timer.ts';
import { makeToolBatch } from './tool-batch.ts';

export type ServiceParts = { connectTools(): Promise<ReadonlyMap<string, Tool>>; children: ChildRuns };

/** What an agent's runs are served by; made once, for all of them. */
export function makeServices(
  definition: AgentDefinition,
  { connectTools, children }: ServiceParts,
): Readonly<Record<ServiceName, Service>> {
  const { models, instructions, settings, providerOptions, prepareTurn, textFilters, retry, output } =
    definition;
  return {
    modelTurn: makeModelTurn({
      ...{ models, connectTools, settings, textFilters, retry },
      ...(instructions === undefined ? {} : { instructions }),
      ...(providerOptions === undefined ? {} : { providerOptions }),
      ...(prepareTurn === undefined ? {} : { prepareTurn }),
      ...(output === undefined ? {} : { output: output.format }),
    }),
    toolBatch: makeToolBatch({
      ...{ connectTools, children },
      concurrency: definition.toolConcurrency,
      retryBaseMs: retry.baseMs,
    }),
    timer,
    finishers: makeFinishers(definition.finishers, output),
  };
}
