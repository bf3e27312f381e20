import type { Context } from '@opentelemetry/api';
import type { ModelCall } from '../../engine/events/watch-drive.ts';
import { omitUndefined } from '../../protocol/json.ts';
import type { AgentTool, Tool, ToolCallContext, ToolSource } from '../../protocol/tool.ts';
import type { TracePlace } from './fold-spans.ts';
import { placeOfCall, placeOfTurn, spanIdOf, traceparentOf } from './ids.ts';
import type { OtelApi } from './load-api.ts';

/** Where a run's spans belong, if this process drives it. */
type Locate = (runId: string) => Promise<TracePlace | undefined>;

/**
 * Returns the tool, or the source of tools, so that its functions run within their `execute_tool` span: spans that they
 * start are its children, and they get its trace context, which `mcp()` passes on.
 */
export function traceTool(api: OtelApi, tool: AgentTool, locate: Locate): AgentTool {
  return 'connect' in tool ? traceSource(api, tool, locate) : traceFunctions(api, tool, locate);
}

function traceSource(api: OtelApi, source: ToolSource, locate: Locate): ToolSource {
  const { name } = source as { name?: unknown };
  return {
    ...omitUndefined({ name }),
    connect: async () => (await source.connect()).map(tool => traceFunctions(api, tool, locate)),
    close: () => source.close(),
  };
}

function traceFunctions(api: OtelApi, tool: Tool, locate: Locate): Tool {
  const { run } = tool;
  if (run === undefined || tool.subAgent !== undefined) return tool;
  return {
    ...tool,
    run: async (input, call) => {
      const place = await locate(call.runId);
      if (place === undefined) return await run.call(tool, input, call);
      return await runWithin(api, place, call, traced => run.call(tool, input, traced));
    },
  };
}

/**
 * Makes a model call within its `chat` span: spans that the adapter or its HTTP client start are its children.
 */
export async function callWithin<Result>(
  api: OtelApi,
  place: TracePlace | undefined,
  { runId, ...turn }: ModelCall,
  work: () => Promise<Result>,
): Promise<Result> {
  if (place === undefined) return await work();
  const spanId = spanIdOf(runId, placeOfTurn(turn));
  return await api.context.with(activeSpan(api, { traceId: place.traceId, spanId }), work);
}

/** The current context with this span in it, which is emitted later. */
function activeSpan(
  { context, trace, TraceFlags }: OtelApi,
  span: { traceId: string; spanId: string },
): Context {
  return trace.setSpanContext(context.active(), { ...span, traceFlags: TraceFlags.SAMPLED });
}

async function runWithin(
  api: OtelApi,
  { traceId }: TracePlace,
  call: ToolCallContext,
  run: (call: ToolCallContext) => unknown,
): Promise<unknown> {
  const { context, propagation } = api;
  const spanId = spanIdOf(call.runId, placeOfCall(call.callId, call.attempt ?? 1));
  const within = activeSpan(api, { traceId, spanId });
  const carrier: Record<string, string> = {};
  propagation.inject(within, carrier);
  const { tracestate, baggage } = carrier;
  const passed = {
    traceparent: traceparentOf({ traceId, spanId }),
    ...omitUndefined({ tracestate, baggage }),
  };
  return await context.with(within, async () => await run({ ...call, trace: passed }));
}
