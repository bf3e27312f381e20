import { objectOf, objectsOf, textIn } from '../../../../adapters/turn/json-access.ts';
import type { JsonObject } from '../../../../protocol/json.ts';
import { type Fact, textFacts, textOf } from './fact.ts';

/** The facts of a request in Anthropic's dialect. */
export function readAnthropic(body: JsonObject): Fact[] {
  const messages = objectsOf(body.messages).flatMap(message => {
    const type = message.role === 'assistant' ? 'text' : 'user';
    if (typeof message.content === 'string') return textFacts(type, message.content);
    return objectsOf(message.content).flatMap(block => blockFacts(block, type));
  });
  return [...textFacts('instruction', body.system), ...messages];
}

function blockFacts(block: JsonObject, type: 'text' | 'user'): Fact[] {
  switch (block.type) {
    case 'text':
      return textFacts(type, block.text);
    case 'thinking':
      return [...textFacts('thought', block.thinking), ...textFacts('opaque', block.signature)];
    case 'redacted_thinking':
      return textFacts('opaque', block.data);
    case 'tool_use':
      return [{ type: 'call', id: textIn(block.id), name: textIn(block.name), input: objectOf(block.input) }];
    case 'tool_result':
      return [{ type: 'result', id: textIn(block.tool_use_id), output: textOf(block.content) }];
    default:
      return [{ type: 'server', item: block }];
  }
}
