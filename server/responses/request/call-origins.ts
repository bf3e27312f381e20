import type { Item } from '../../../protocol/item.ts';
import { type Exposed, isServerTool, modelNameOf, toolNamed } from '../wire/response-spec.ts';
import type { CallOrigin, Plan } from './plan.ts';

/** The tools that the conversation of a planned request has called, by their names for the model. */
export function usedIn(plan: Plan): Exposed {
  switch (plan.type) {
    case 'repeat':
      return {};
    case 'continue':
      return plan.run.tools.used;
    case 'start': {
      const { continues, items, origins } = plan;
      const used: Exposed = { ...continues?.tools.used };
      for (const item of items) {
        if (item.type !== 'tool_call') continue;
        const { callId, name } = item;
        const origin = origins.get(callId) ?? { tool: { kind: 'function', name }, modelName: name };
        if (origin.modelName !== undefined) used[origin.modelName] ??= origin.tool;
      }
      return used;
    }
  }
}

/**
 * Gives the calls in the input the names that their tools have for the model now, so that they cannot be taken for calls
 * of other tools. A server's tool that the request does not have is `mcp_LABEL_NAME` if its name is taken.
 */
export function nameCalls(
  items: readonly Item[],
  origins: ReadonlyMap<string, CallOrigin>,
  known: { exposed: Exposed; used: Exposed },
): Item[] {
  return items.map(item => {
    const origin = item.type === 'tool_call' ? origins.get(item.callId) : undefined;
    return item.type === 'tool_call' && origin !== undefined
      ? { ...item, name: nameNow(origin, item.name, known) }
      : item;
  });
}

function nameNow(
  { tool, modelName }: CallOrigin,
  name: string,
  { exposed, used }: { exposed: Exposed; used: Exposed },
): string {
  if (!isServerTool(tool)) return modelNameOf(exposed, tool.name);
  const [current] =
    Object.entries(exposed).find(
      ([, other]) => isServerTool(other) && other.label === tool.label && other.name === tool.name,
    ) ?? [];
  if (current !== undefined) return current;
  const isTaken = (toolNamed(exposed, name) ?? toolNamed(used, name)) !== undefined;
  return modelName === undefined && isTaken ? `mcp_${tool.label}_${tool.name}` : name;
}
