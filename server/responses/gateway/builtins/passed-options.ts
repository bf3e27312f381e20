import { type JsonObject, toJson } from '../../../../protocol/json.ts';
import type { CreateBody } from '../../request/request-body.ts';
import { type BuiltinTool, builtinKind, builtinKindOf } from '../../request/tool-schemas.ts';

/** The values of `include` about built-in tools. */
const ABOUT_BUILTINS = /^(?:web_search|file_search|code_interpreter)_call\./;

/** The options that pass built-in tools on to the provider, with what the client wants to see of their calls. */
export function passedOptions(
  { include, tool_choice: choice }: CreateBody,
  passed: readonly BuiltinTool[],
): JsonObject {
  const isAllowed = (tool: BuiltinTool) =>
    choice == null ||
    typeof choice === 'string' ||
    choice.type !== 'allowed_tools' ||
    choice.tools.some(({ type }) => builtinKind(type) === builtinKindOf(tool));
  const tools = passed.filter(isAllowed);
  if (tools.length === 0) return {};
  const wanted = (include ?? []).filter(value => ABOUT_BUILTINS.test(value));
  return { tools: tools.map(tool => toJson(tool)), ...(wanted.length > 0 ? { include: wanted } : {}) };
}
