import { objectOf, objectsOf, textIn } from '../../../../adapters/turn/json-access.ts';
import type { JsonObject } from '../../../../protocol/json.ts';
import { type Fact, inputOf, textFacts, textOf } from './fact.ts';

/** The facts of a request in the chat dialect, including Mistral's content chunks and OpenRouter's details. */
export function readChat(body: JsonObject): Fact[] {
  return objectsOf(body.messages).flatMap(message => {
    switch (message.role) {
      case 'system':
      case 'developer':
        return textFacts('instruction', message.content);
      case 'tool':
        return [{ type: 'result', id: textIn(message.tool_call_id), output: textOf(message.content) }];
      case 'assistant':
        return assistantFacts(message);
      default:
        return textFacts('user', message.content);
    }
  });
}

function assistantFacts(message: JsonObject): Fact[] {
  const thinking = objectsOf(message.content).flatMap(chunk =>
    chunk.type === 'thinking' ? textFacts('thought', chunk.thinking) : [],
  );
  const details = objectsOf(message.reasoning_details);
  const thoughts =
    details.length > 0
      ? details.flatMap(detailFacts)
      : textFacts('thought', message.reasoning_content ?? message.reasoning);
  const calls = objectsOf(message.tool_calls).map((call): Fact => {
    const { name, arguments: text } = objectOf(call.function);
    return { type: 'call', id: textIn(call.id), name: textIn(name), input: inputOf(text) };
  });
  return [...thinking, ...thoughts, ...textFacts('text', message.content), ...calls];
}

function detailFacts(detail: JsonObject): Fact[] {
  return [
    ...textFacts('thought', detail.text ?? detail.summary),
    ...textFacts('opaque', detail.signature),
    ...textFacts('opaque', detail.data),
  ];
}
