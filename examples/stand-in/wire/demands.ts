import { nonEmpty, objectOf, objectsOf } from '../../../adapters/turn/json-access.ts';
import type { JsonObject, JsonValue } from '../../../protocol/json.ts';
import { promptProblem } from './harmony.ts';
import { SIGNATURE } from './turn.ts';

/**
 * Returns the provider's error for a request that does not return data the provider requires from earlier turns, or
 * `undefined`. `provider` is the first part of the path.
 */
export function missingFrom(body: JsonObject, provider: string): string | undefined {
  const messages = objectsOf(body.messages);
  const calling = messages.filter(message => objectsOf(message.tool_calls).length > 0);
  switch (provider) {
    case 'mistral': {
      const ids = calling.flatMap(message => objectsOf(message.tool_calls).map(call => call.id));
      const wrong = ids.find(id => !/^[A-Za-z0-9]{9}$/.test(nonEmpty(id) ?? ''));
      return wrong === undefined
        ? undefined
        : `Tool call id was ${wrong} but must be a-z, A-Z, 0-9, with a length of 9.`;
    }
    case 'deepseek':
      return calling.every(message => typeof message.reasoning_content === 'string')
        ? undefined
        : 'The reasoning_content must be passed back to the API.';
    case 'openrouter':
      return calling.every(message => objectsOf(message.reasoning_details).length === 1)
        ? undefined
        : 'The reasoning_details are missing.';
    case 'anthropic':
      return messages.every(hasThinkingFirst)
        ? undefined
        : 'Expected `thinking`, but found `tool_use`, or an invalid signature.';
    case 'harmony':
      return promptProblem(body);
    case 'gemini':
      return objectsOf(body.contents).every(isSigned) && objectsOf(body.input).every(isThoughtSigned)
        ? undefined
        : 'Function call is missing a thought_signature in functionCall parts.';
    default:
      return undefined;
  }
}

function hasThinkingFirst({ content }: JsonObject): boolean {
  const blocks = objectsOf(content);
  if (!blocks.some(block => block.type === 'tool_use')) return true;
  return blocks[0]?.type === 'thinking' && blocks[0].signature === SIGNATURE;
}

/** The stand-in's own signature, and the one for calls that another model made. */
const SIGNATURES: ReadonlySet<JsonValue | undefined> = new Set([
  SIGNATURE,
  'skip_thought_signature_validator',
]);

/** A thought of an interaction goes back with its signature. */
function isThoughtSigned({ type, signature }: JsonObject): boolean {
  return type !== 'thought' || signature === SIGNATURE;
}

function isSigned({ parts }: JsonObject): boolean {
  const calls = objectsOf(parts).filter(part => objectOf(part.functionCall).name !== undefined);
  return calls.every(({ thoughtSignature }, index) =>
    index === 0 ? SIGNATURES.has(thoughtSignature) : thoughtSignature === undefined,
  );
}
