import type { Meter } from '@opentelemetry/api';
import { type Agent, createAgent } from '../../agent/agent.ts';
import type { DriveWatcher } from '../../engine/events/watch-drive.ts';
import { type NamesOf, refuseUnknownOptions } from '../../protocol/options/refuse-unknown.ts';
import type { AgentTool } from '../../protocol/tool.ts';
import { makeEmitter } from './emit-span.ts';
import type { TracePlace } from './fold-spans.ts';
import { LiveDrive } from './live-drive.ts';
import { loadApi } from './load-api.ts';
import type { MeterProviderLike, TracerProviderLike } from './providers.ts';
import type { RunSpan } from './run-span.ts';
import { makeSpanMetrics } from './span-metrics.ts';
import { addStoreMetrics } from './store-metrics.ts';
import { locateTrace } from './trace-run.ts';
import { callWithin, traceTool } from './trace-tools.ts';

/** The options of `instrument`. */
export type InstrumentOptions = {
  /** Where spans go. Default: the provider that is registered globally. */
  tracerProvider?: TracerProviderLike;
  /** Where metrics go. Default: the provider that is registered globally. */
  meterProvider?: MeterProviderLike;
  /**
   * Whether spans have content: instructions, messages, arguments, results, error messages and the names of those who decide. Default
   * `false`.
   */
  content?: boolean;
};

const NAMES: NamesOf<InstrumentOptions> = { tracerProvider: true, meterProvider: true, content: true };

/**
 * Returns the agent to use: its runs, and those of its sub-agents, are traced and measured while this process drives
 * them. All runs below one run share a trace, over pauses and processes; ids are derived from the run, so that
 * `agentchart traces` gives the same spans afterwards. Exporting never fails a run. Throws `agent-invalid` without the
 * package `@opentelemetry/api`.
 *
 * @example
 * const agent = instrument(createAgent({ name, model, tools }), { tracerProvider });
 * await agent.run('Refund order A-1001');
 */
export function instrument<Instrumented extends Agent>(
  agent: Instrumented,
  options: InstrumentOptions = {},
): Instrumented {
  refuseUnknownOptions('instrument', options, NAMES);
  const api = loadApi();
  const emitSpan = makeEmitter(api, options.tracerProvider ?? api.trace.getTracerProvider());
  const meters = options.meterProvider ?? api.metrics.getMeterProvider();
  const meter = meters.getMeter('agentchart') as Meter;
  const measure = makeSpanMetrics(meter);
  addStoreMetrics(meter, agent.store);
  const drives = new Map<string, { place: Promise<TracePlace>; live: LiveDrive }>();
  const emit = (span: RunSpan) => {
    emitSpan(span);
    measure(span);
  };
  const locate = async (runId: string) => await drives.get(runId)?.place.catch(() => undefined);
  const watcher: DriveWatcher = {
    begin({ runId, epoch, store }) {
      const place = locateTrace(store, runId);
      const live = new LiveDrive({ runId, epoch, store, place, content: options.content === true, emit });
      drives.set(runId, { place, live });
      return {
        receive: happening => live.receive(happening),
        end: async () => {
          await live.end();
          if (drives.get(runId)?.live === live) drives.delete(runId);
        },
      };
    },
    aroundModelCall: async (call, work) => {
      drives.get(call.runId)?.live.beginModelCall(call);
      return await callWithin(api, await locate(call.runId), call, work);
    },
  };
  return instrumentAll(agent, watcher, tool => traceTool(api, tool, locate)) as Instrumented;
}

/** Instruments an agent and its sub-agents; an agent that occurs several times stays one agent. */
function instrumentAll(
  agent: Agent,
  watcher: DriveWatcher,
  wrap: (tool: AgentTool) => AgentTool,
  known = new Map<object, Agent>(),
): Agent {
  const before = known.get(agent);
  if (before !== undefined) return before;
  const { options, store } = agent;
  const tools = options.tools?.map(tool => {
    if (!('subAgent' in tool) || tool.subAgent === undefined) return wrap(tool);
    return { ...tool, subAgent: instrumentAll(tool.subAgent as Agent, watcher, wrap, known) };
  });
  const watchers = [...(options.watchers ?? []), watcher];
  const instrumented = createAgent({ ...options, store, watchers, ...(tools && { tools }) });
  known.set(agent, instrumented as Agent);
  return instrumented as Agent;
}
