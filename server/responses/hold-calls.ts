import type { Tool } from '../../protocol/tool.ts';
import type { CallTools } from './gateway/call-tools.ts';
import { type Exposed, isSameTool, toolNamed } from './wire/response-spec.ts';

/**
 * The tools, which run a call that was made before only if they are the ones it was made for: the name that
 * the call has may be another server's tool by now.
 */
export function holdCalls(tools: readonly Tool[], exposed: Exposed, madeFor: CallTools): Tool[] {
  return tools.map(tool => {
    const { name, run } = tool;
    if (run === undefined) return tool;
    return {
      ...tool,
      run(input, context) {
        const asked = madeFor.of(context.callId);
        if (asked === undefined || isSameTool(asked, toolNamed(exposed, name))) return run(input, context);
        throw new Error('Not run: this call was made for another MCP server, or for another tool of it.');
      },
    };
  });
}
