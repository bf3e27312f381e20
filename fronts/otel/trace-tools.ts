import { omitUndefined } from '../../protocol/json.ts';
import type { AgentTool, Tool, ToolCallContext, ToolSource } from '../../protocol/tool.ts';
import type { TracePlace } from './fold-spans.ts';
import { placeOfCall, spanIdOf, traceparentOf } from './ids.ts';
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
    ...(name !== undefined && { name }),
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

async function runWithin(
  { context, propagation, trace, TraceFlags }: OtelApi,
  { traceId }: TracePlace,
  call: ToolCallContext,
  run: (call: ToolCallContext) => unknown,
): Promise<unknown> {
  const spanId = spanIdOf(call.runId, placeOfCall(call.callId, call.attempt ?? 1));
  const within = trace.setSpanContext(context.active(), {
    traceId,
    spanId,
    traceFlags: TraceFlags.SAMPLED,
  });
  const carrier: Record<string, string> = {};
  propagation.inject(within, carrier);
  const { tracestate, baggage } = carrier;
  const passed = {
    traceparent: traceparentOf({ traceId, spanId }),
    ...omitUndefined({ tracestate, baggage }),
  };
  return await context.with(within, async () => await run({ ...call, trace: passed }));
}
