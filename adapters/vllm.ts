import type { ModelAdapter } from '../protocol/adapter.ts';
import { type JsonObject, omitUndefined } from '../protocol/json.ts';
import { type NamesOf, refuseUnknownOptions } from '../protocol/options/refuse-unknown.ts';
import type { ModelRequest } from '../protocol/turn.ts';
import { grpcAdapter, type PreparedCall } from './grpc/adapter.ts';
import { CONNECTION_NAMES, type ConnectionOptions, readVariable } from './http/connection.ts';
import { type ProviderContext, unsupported } from './http/provider-errors.ts';
import { objectOf } from './turn/json-access.ts';
import { offeredTools } from './turn/tool-calls.ts';
import { assertCallForm, loadModelFiles, type ModelFiles, TokenText } from './vllm/model-files.ts';
import { messagesFor, renderChat, VARIABLES, VLLM } from './vllm/render.ts';
import { TaggedReply } from './vllm/tagged-reply.ts';

/** Options of `vllm`. `fetch` is not used. */
export type VllmOptions = ConnectionOptions & {
  /**
   * The folder with the model's `tokenizer.json`, `tokenizer_config.json`, chat template and
   * `generation_config.json`. Default: `VLLM_TOKENIZER`, read at the first call.
   */
  tokenizer?: string;
  /**
   * Sampling parameters by their names in vLLM's gRPC API, and `chat_template_kwargs`: variables for the chat
   * template. The request's own options take precedence.
   */
  providerOptions?: JsonObject;
};

const NAMES: NamesOf<VllmOptions> = { ...CONNECTION_NAMES, tokenizer: true, providerOptions: true };

/**
 * Creates an adapter for a model behind vLLM's gRPC API. Prompts are made here, with the model's own
 * tokenizer and chat template. The base URL is `grpc://HOST:PORT`; default: `VLLM_BASE_URL`. A key is
 * optional: `VLLM_API_KEY`, if set, is sent as a bearer token. The packages `@grpc/grpc-js`,
 * `@huggingface/tokenizers` and `@huggingface/jinja` are needed.
 *
 * Calls are read in the form `<tool_call>{"name": …, "arguments": …}</tool_call>`; a request with tools for a
 * model that writes calls in another form fails with a `ProviderError` that names the form. There is no tool
 * choice: `required` is treated as `auto`, a named tool is the only one shown to the model, and `none` shows
 * no tools. Messages may contain only text.
 *
 * @example
 * const model = vllm({ model: 'Qwen/Qwen3-8B', baseURL: 'grpc://localhost:50051', tokenizer: './qwen3-8b' });
 */
export function vllm(options: VllmOptions): ModelAdapter {
  refuseUnknownOptions('vllm', options, NAMES);
  const messagesOf = messagesFor(options.model);
  let loaded: Promise<ModelFiles> | undefined;
  const load = (context: ProviderContext) => {
    const folder = options.tokenizer ?? readVariable(VARIABLES.tokenizer) ?? '';
    if (folder === '') {
      throw unsupported(
        `no tokenizer is set. Set ${VARIABLES.tokenizer} or the option tokenizer to a folder with the tokenizer and chat template of the model.`,
        context,
      );
    }
    loaded ??= loadModelFiles(folder, context).catch(error => {
      loaded = undefined;
      throw error;
    });
    return loaded;
  };
  return grpcAdapter({
    endpoint: { provider: VLLM, baseURLVariable: VARIABLES.baseURL, keyVariable: VARIABLES.key },
    capabilities: { structuredOutput: 'instructions', toolChoice: false },
    connection: options,
    async prepare(request, context, { chat_template_kwargs: variables, ...sampling }) {
      const files = await load(context);
      const hasTools = offeredTools(request).length > 0;
      const template = files.templateFor({ hasTools });
      if (hasTools) assertCallForm(template, context);
      const prompt = renderChat(request, messagesOf(request, context), files, {
        variables: objectOf(variables),
        context,
      });
      const thinks = template.source.includes('<think>') || template.source.includes('</think>');
      return prepareCall(request, prompt, files, { hasTools, thinks, sampling });
    },
  });
}

function prepareCall(
  request: ModelRequest,
  prompt: string,
  { tokenizer, stopTokens }: ModelFiles,
  { hasTools, thinks, sampling }: { hasTools: boolean; thinks: boolean; sampling: JsonObject },
): PreparedCall {
  const end = prompt.trimEnd();
  const reply = new TaggedReply({ think: thinks, calls: hasTools, startsInThink: end.endsWith('<think>') });
  const text = new TokenText(ids =>
    ids.length === 0
      ? ''
      : tokenizer.decode([...ids], { skip_special_tokens: false, clean_up_tokenization_spaces: false }),
  );
  const isStop = new Set(stopTokens);
  return {
    tokens: tokenizer.encode(prompt, { add_special_tokens: false }).ids,
    stopTokens,
    ...omitUndefined({
      constraint:
        request.output === undefined || hasTools
          ? undefined
          : constraintOf(request.output.schema, { mayThink: thinks && !end.endsWith('</think>') }),
    }),
    options: sampling,
    reader: {
      push: tokens => reply.push(text.push(tokens.filter(id => !isStop.has(id)))),
      end(ending) {
        reply.push(text.end());
        return reply.end(request, ending);
      },
    },
  };
}

/** A model that thinks must be free to do so first: https://xgrammar.mlc.ai/docs/tutorials/structural_tag.html. */
function constraintOf(schema: JsonObject, { mayThink }: { mayThink: boolean }): JsonObject {
  if (!mayThink) return { json_schema: JSON.stringify(schema) };
  const tag = { begin: '</think>', content: { type: 'json_schema', json_schema: schema }, end: '' };
  const format = { type: 'triggered_tags', triggers: ['</think>'], tags: [tag] };
  return { structural_tag: JSON.stringify({ type: 'structural_tag', format }) };
}
