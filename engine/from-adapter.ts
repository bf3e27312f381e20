import type { ModelAdapter } from '../protocol/adapter.ts';
import type { JsonObject } from '../protocol/json.ts';
import type { Tool } from '../protocol/tool.ts';
import type { Settings } from '../protocol/turn.ts';
import type { PrepareTurn } from './definition.ts';
import { actorOf, describeSetupFailure, type LiveOptions, type ServiceActor } from './live.ts';
import { makeModelTurn } from './services/model-turn.ts';

export type FromAdapterOptions = LiveOptions & {
  instructions?: string;
  /** Tools the model is told of; what runs them is the `toolBatch` actor. */
  tools?: readonly Tool[];
  settings?: Settings;
  providerOptions?: JsonObject;
  prepareTurn?: PrepareTurn;
};

/** The machine's `modelTurn` alone: exactly one call of `adapter` each time it is invoked. */
export function fromAdapter(adapter: ModelAdapter, options: FromAdapterOptions = {}): ServiceActor {
  const { instructions, tools = [], settings = {}, providerOptions, prepareTurn, ...live } = options;
  const byName: ReadonlyMap<string, Tool> = new Map(tools.map(tool => [tool.name, tool]));
  const service = makeModelTurn({
    models: [adapter],
    connectTools: () => Promise.resolve(byName),
    settings,
    textFilters: [],
    retry: { attempts: 3, baseMs: 500, maxMs: 30_000 },
    ...(instructions === undefined ? {} : { instructions }),
    ...(providerOptions === undefined ? {} : { providerOptions }),
    ...(prepareTurn === undefined ? {} : { prepareTurn }),
  });
  return actorOf(service, live, describeSetupFailure);
}
