import { isJsonObject, type JsonObject, type JsonValue } from '../../../protocol/json.ts';

/** The types of items of built-in tools. */
export const BUILTIN_CALLS = ['web_search_call', 'file_search_call', 'code_interpreter_call'];

/**
 * A returned call of a built-in tool as text for the model, for a call that is not stored: what was asked, and what the
 * item shows of the result.
 */
export function describeBuiltinCall(item: JsonObject): string {
  switch (item.type) {
    case 'web_search_call': {
      const action = isJsonObject(item.action) ? item.action : {};
      const asked = action.query ?? action.url ?? textsIn(action.queries).join(', ');
      const sources = objectsIn(action.sources).map(({ url }) => url);
      return [`Web search: ${asked}`, ...sources].join('\n');
    }
    case 'file_search_call': {
      const results = objectsIn(item.results).map(({ filename, text }) => `${filename}: ${text}`);
      return [`File search: ${textsIn(item.queries).join(', ')}`, ...results].join('\n');
    }
    default: {
      const outputs = objectsIn(item.outputs).map(({ logs, url }) => `Output: ${logs ?? url}`);
      return [`Code that was run: ${item.code ?? ''}`, ...outputs].join('\n');
    }
  }
}

function objectsIn(value: JsonValue | undefined): JsonObject[] {
  return Array.isArray(value) ? value.filter(isJsonObject) : [];
}

function textsIn(value: JsonValue | undefined): string[] {
  return Array.isArray(value) ? value.filter(text => typeof text === 'string') : [];
}
