import { objectsOf, textIn } from '../../../../adapters/turn/json-access.ts';
import type { JsonObject } from '../../../../protocol/json.ts';
import { type Fact, inputOf, textFacts, textOf } from './fact.ts';

/** The facts of a request in the Responses dialect. */
export function readResponses(body: JsonObject): Fact[] {
  const input =
    typeof body.input === 'string' ? textFacts('user', body.input) : objectsOf(body.input).flatMap(itemFacts);
  return [...textFacts('instruction', body.instructions), ...input];
}

function itemFacts(item: JsonObject): Fact[] {
  switch (item.type ?? 'message') {
    case 'message':
      if (item.role === 'assistant') return textFacts('text', item.content);
      return textFacts(item.role === 'user' ? 'user' : 'instruction', item.content);
    case 'reasoning': {
      const summary = textFacts('thought', item.summary);
      return [
        ...(summary.length > 0 ? summary : textFacts('thought', item.content)),
        ...textFacts('opaque', item.encrypted_content),
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
