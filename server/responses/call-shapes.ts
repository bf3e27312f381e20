import { describeOutput } from '../../protocol/content/read-content.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../../protocol/json.ts';
import type { BuiltinKind } from '../builtins/builtin-schemas.ts';
import { argumentOf, type CallEnd, type PlacedCall, resultsIn } from '../gateway/answer/answer-event.ts';
import { itemIdOf } from '../gateway/answer/wire-ids.ts';
import { builtinOf, type ExposedTool, isServerTool } from '../gateway/runs/response-spec.ts';

/** Without the item's id and place. */
export type ItemEvent = JsonObject & { type: string };
type Item = JsonObject & { id: string };
type ShownCall = PlacedCall & { id: string };

/** How a call that the gateway runs begins and ends. `include` is the request's. */
type CallShape = {
  opened(call: ShownCall): { item: Item; events: ItemEvent[] };
  closed(call: ShownCall, end: CallEnd, include: readonly JsonValue[]): { item: Item; events: ItemEvent[] };
};

export function shapeOf(tool: ExposedTool): CallShape {
  const builtin = builtinOf(tool);
  return builtin === undefined ? mcpShape(tool) : BUILTIN_SHAPES[builtin];
}

function mcpShape(tool: ExposedTool): CallShape {
  const { name } = tool;
  const label = isServerTool(tool) ? tool.label : '';
  const itemOf = (call: ShownCall) => ({
    id: call.id,
    type: 'mcp_call',
    approval_request_id: call.gate ? itemIdOf({ ...call, kind: 'mcpr' }) : null,
    server_label: label,
    name,
    arguments: call.arguments,
    output: null,
    error: null,
  });
  return {
    opened: call => ({
      item: { ...itemOf(call), status: 'in_progress', arguments: '' },
      events: [
        { type: 'response.mcp_call.in_progress' },
        ...deltaOf('response.mcp_call_arguments.delta', call.arguments),
        { type: 'response.mcp_call_arguments.done', arguments: call.arguments },
      ],
    }),
    closed: (call, end) => {
      const status = 'error' in end ? 'failed' : 'completed';
      const outcome = 'error' in end ? { error: end.error } : { output: describeOutput(end.output) };
      return {
        item: { ...itemOf(call), status, ...outcome },
        events: [{ type: `response.mcp_call.${status}` }],
      };
    },
  };
}

const BUILTIN_SHAPES: Readonly<Record<BuiltinKind, CallShape>> = {
  web_search: builtinShape('web_search', {
    begin: call => ({ action: searchOf(call) }),
    end: (call, output, include) => {
      const sources = resultsIn(output).flatMap(({ url }) =>
        typeof url === 'string' ? [{ type: 'url', url }] : [],
      );
      const isWanted = include.includes('web_search_call.action.sources');
      return { action: { ...searchOf(call), ...(isWanted ? { sources } : {}) } };
    },
  }),
  file_search: builtinShape('file_search', {
    begin: call => ({ queries: [textIn(call, 'query')], results: null }),
    end: (call, output, include) => ({
      queries: [textIn(call, 'query')],
      results: include.includes('file_search_call.results') ? resultsIn(output) : null,
    }),
  }),
  code_interpreter: builtinShape('code_interpreter', {
    begin: call => ({ code: textIn(call, 'code'), container_id: containerOf(call), outputs: null }),
    end: (call, output, include) => {
      const logs = isJsonObject(output) && typeof output.logs === 'string' ? output.logs : '';
      const isWanted = include.includes('code_interpreter_call.outputs');
      return {
        code: textIn(call, 'code'),
        container_id: containerOf(call),
        outputs: isWanted ? [{ type: 'logs', logs }] : null,
      };
    },
  }),
};

/** OpenAI has no event for a built-in call that failed: its item says so. */
function builtinShape(
  builtin: BuiltinKind,
  parts: {
    begin(call: ShownCall): JsonObject;
    end(call: ShownCall, output: JsonValue, include: readonly JsonValue[]): JsonObject;
  },
): CallShape {
  const type = `${builtin}_call`;
  const isCode = builtin === 'code_interpreter';
  const headOf = (call: ShownCall, status: string) => ({ id: call.id, type, status });
  return {
    opened: call => ({
      item: { ...headOf(call, 'in_progress'), ...parts.begin(call), ...(isCode ? { code: '' } : {}) },
      events: builtinEvents(builtin, isCode ? textIn(call, 'code') : undefined),
    }),
    closed: (call, end, include) =>
      'error' in end
        ? { item: { ...headOf(call, 'failed'), ...parts.begin(call) }, events: [] }
        : {
            item: { ...headOf(call, 'completed'), ...parts.end(call, end.output, include) },
            events: [{ type: `response.${type}.completed` }],
          },
  };
}

/** Of a call that begins. `code`: that of a code interpreter, if it is known. */
export function builtinEvents(builtin: BuiltinKind, code: string | undefined): ItemEvent[] {
  const type = `response.${builtin}_call`;
  const written =
    code === undefined ? [] : [...deltaOf(`${type}_code.delta`, code), { type: `${type}_code.done`, code }];
  const working = builtin === 'code_interpreter' ? 'interpreting' : 'searching';
  return [{ type: `${type}.in_progress` }, ...written, { type: `${type}.${working}` }];
}

function searchOf(call: ShownCall): JsonObject {
  return { type: 'search', query: textIn(call, 'query') };
}

function containerOf(call: ShownCall): string {
  return call.id.replace(/^ci_/, 'cntr_');
}

function deltaOf(type: string, delta: string): ItemEvent[] {
  return delta === '' ? [] : [{ type, delta }];
}

function textIn(call: ShownCall, name: string): string {
  return argumentOf(call, name) ?? '';
}
