import { type JsonObject, omitUndefined } from '../../protocol/json.ts';
import type { ModelRequest } from '../../protocol/turn.ts';
import { growingMessages } from '../chat/messages.ts';
import { endpointOf } from '../http/connection.ts';
import { type ProviderContext, unsupported } from '../http/provider-errors.ts';
import { arrayOf, nonEmpty, objectOf, objectsOf, textIn } from '../turn/json-access.ts';
import { withOutputSchema } from '../turn/strict-schema.ts';
import { argumentsObject, offeredTools } from '../turn/tool-calls.ts';
import type { ModelFiles } from './model-files.ts';

export const VLLM = 'vllm';

/** The member of a message in which templates look for reasoning. */
export const REASONING_MEMBER = 'reasoning_content';

export const VARIABLES = {
  baseURL: 'VLLM_BASE_URL',
  key: 'VLLM_API_KEY',
  tokenizer: 'VLLM_TOKENIZER',
} as const;

export function messagesFor(
  model: string,
): (request: ModelRequest, context: ProviderContext) => JsonObject[] {
  const growing = growingMessages({ ...endpointOf(VLLM, ''), reasoning: 'member' }, model);
  return ({ instructions, transcript, output }, context) => {
    const content = output ? withOutputSchema(instructions, output) : instructions;
    const head = content === undefined ? [] : [{ role: 'system', content }];
    return growing(transcript, head).map(message => templateMessage(message, context));
  };
}

/** Templates want text as content, and arguments as an object. */
function templateMessage(message: JsonObject, context: ProviderContext): JsonObject {
  const calls = objectsOf(message.tool_calls).map(call => {
    const { name, arguments: written } = objectOf(call.function);
    return { ...call, function: { name: name ?? '', arguments: argumentsObject(textIn(written)) } };
  });
  const content =
    textIn(message.content) ||
    arrayOf(message.content)
      .map(part => {
        const { type, text } = objectOf(part);
        if (type === 'text') return textIn(text);
        throw unsupported(
          'only text can be sent over gRPC, but the transcript contains an image or a file. Use another model for it.',
          context,
        );
      })
      .join('\n\n');
  return { ...message, content, ...(calls.length === 0 ? {} : { tool_calls: calls }) };
}

export function renderChat(
  request: ModelRequest,
  messages: readonly JsonObject[],
  files: ModelFiles,
  options: { variables: JsonObject; context: ProviderContext },
): string {
  const tools = offeredTools(request).map(({ name, description, inputSchema: parameters }) =>
    files.tokenTexts.breakUpIn({ type: 'function', function: { name, description, parameters } }),
  );
  const { reasoningEffort } = request.settings;
  const variables: Record<string, unknown> = {
    messages: messages.map(message => files.tokenTexts.breakUpIn(message)),
    ...(tools.length === 0 ? {} : { tools }),
    add_generation_prompt: true,
    ...files.specialTokens,
    ...omitUndefined({
      enable_thinking: reasoningEffort === undefined ? undefined : reasoningEffort !== 'none',
    }),
    ...options.variables,
  };
  try {
    return files.templateFor({ hasTools: tools.length > 0 }).template.render(variables);
  } catch (error) {
    const reason = nonEmpty(error instanceof Error ? error.message : '') ?? 'no reason given';
    throw unsupported(`its chat template refuses the conversation: ${reason}`, options.context);
  }
}
