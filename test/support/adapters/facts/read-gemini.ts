import { objectOf, objectsOf, textIn } from '../../../../adapters/turn/json-access.ts';
import type { JsonObject, JsonValue } from '../../../../protocol/json.ts';
import { type Fact, textFacts, textOf } from './fact.ts';

/**
 * The facts of a request in Gemini's dialect. Ids may be missing. A response must be an object, whose form
 * differs by client; signatures are bytes, which some clients write in the other base64 alphabet.
 */
export function readGemini(body: JsonObject): Fact[] {
  const contents = objectsOf(body.contents).flatMap(content =>
    objectsOf(content.parts).flatMap(part => partFacts(part, content.role === 'model' ? 'text' : 'user')),
  );
  return [...textFacts('instruction', objectOf(body.systemInstruction).parts), ...contents];
}

function partFacts(part: JsonObject, type: 'text' | 'user'): Fact[] {
  const signed = textFacts('opaque', plainBase64(part.thoughtSignature));
  if (part.functionCall) {
    const { id, name, args } = objectOf(part.functionCall);
    return [...signed, { type: 'call', id: textIn(id ?? ''), name: textIn(name), input: objectOf(args) }];
  }
  if (part.functionResponse) {
    const { id, response } = objectOf(part.functionResponse);
    return [{ type: 'result', id: textIn(id ?? ''), output: unwrapped(objectOf(response)) }];
  }
  if (typeof part.text === 'string') {
    return [...signed, ...textFacts(part.thought === true ? 'thought' : type, part.text)];
  }
  return [...signed, { type: 'server', item: part }];
}

function unwrapped(response: JsonObject): JsonValue {
  return response.result ?? response.return_value ?? textOf(response.content);
}

function plainBase64(value: JsonValue | undefined): string {
  return textIn(value).replaceAll('-', '+').replaceAll('_', '/');
}
