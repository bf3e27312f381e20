import { objectOf, objectsOf, textIn } from '../../../../adapters/turn/json-access.ts';
import type { JsonObject } from '../../../../protocol/json.ts';
import { type Fact, textFacts, textOf } from './fact.ts';

/** The facts of a request in Ollama's own dialect, which has no ids. */
export function readOllama(body: JsonObject): Fact[] {
  return objectsOf(body.messages).flatMap(message => {
    switch (message.role) {
      case 'system':
        return textFacts('instruction', message.content);
      case 'tool':
        return [{ type: 'result', id: '', output: textOf(message.content) }];
      case 'assistant':
        return [
          ...textFacts('thought', message.thinking),
          ...textFacts('text', message.content),
          ...objectsOf(message.tool_calls).map((call): Fact => {
            const { name, arguments: input } = objectOf(call.function);
            return { type: 'call', id: '', name: textIn(name), input: objectOf(input) };
          }),
        ];
      default:
        return textFacts('user', message.content);
    }
  });
}
