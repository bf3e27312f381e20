import { objectsOf, textIn } from '../../../../adapters/turn/json-access.ts';
import type { JsonObject } from '../../../../protocol/json.ts';
import { type Fact, inputOf, said, textOf } from './fact.ts';

/** The facts of a request in the Responses dialect. */
export function readResponses(body: JsonObject): Fact[] {
  const input =
    typeof body.input === 'string' ? said('user', body.input) : objectsOf(body.input).flatMap(itemFacts);
  return [...said('instruction', body.instructions), ...input];
}

function itemFacts(item: JsonObject): Fact[] {
  switch (item.type ?? 'message') {
    case 'message':
      if (item.role === 'assistant') return said('text', item.content);
      return said(item.role === 'user' ? 'user' : 'instruction', item.content);
    case 'reasoning': {
      const summary = said('thought', item.summary);
      return [
        ...(summary.length > 0 ? summary : said('thought', item.content)),
        ...said('opaque', item.encrypted_content),
      ];
    }
    case 'function_call':
      return [
        { type: 'call', id: textIn(item.call_id), name: textIn(item.name), input: inputOf(item.arguments) },
      ];
    case 'function_call_output':
      return [{ type: 'result', id: textIn(item.call_id), output: textOf(item.output) }];
    default:
      return [{ type: 'server', item }];
  }
}
