import { objectOf, objectsOf, textIn } from '../../../../adapters/turn/json-access.ts';
import type { JsonObject } from '../../../../protocol/json.ts';
import { type Fact, textFacts, textOf } from './fact.ts';

/** The facts of a request in the dialect of Gemini's Interactions API. */
export function readInteractions(body: JsonObject): Fact[] {
  return [...textFacts('instruction', body.system_instruction), ...objectsOf(body.input).flatMap(stepFacts)];
}

function stepFacts(step: JsonObject): Fact[] {
  switch (step.type) {
    case 'user_input':
      return textFacts('user', step.content);
    case 'model_output':
      return textFacts('text', step.content);
    case 'thought':
      return [...textFacts('thought', step.summary), ...textFacts('opaque', step.signature)];
    case 'function_call':
      return [
        { type: 'call', id: textIn(step.id), name: textIn(step.name), input: objectOf(step.arguments) },
      ];
    case 'function_result':
      return [{ type: 'result', id: textIn(step.call_id), output: textOf(step.result) }];
    default:
      return [{ type: 'server', item: step }];
  }
}
