import { join } from 'node:path';
import type { Client } from '../client.ts';

type Sdk = '@ai-sdk/openai' | '@ai-sdk/openai-compatible' | '@ai-sdk/anthropic';

/** https://github.com/anomalyco/opencode, with one of the packages of the AI SDK that it contains. */
export function opencode(name: string, npm: Sdk): Client {
  return {
    name,
    package: 'opencode-ai',
    model: 'coder',
    ...(npm === '@ai-sdk/openai-compatible' && { forgets: true }),
    settings: ({ url, key, model }) => {
      const options = { baseURL: `${url}/v1`, apiKey: key };
      const models = {
        [model]: {
          reasoning: true,
          tool_call: true,
          attachment: true,
          modalities: { input: ['text', 'image'], output: ['text'] },
          limit: { context: 200_000, output: 16_000 },
        },
      };
      const provider = { gateway: { npm, options, models } };
      const config = { provider, autoupdate: false, share: 'disabled', permission: 'allow' };
      return { '.config/opencode/opencode.json': JSON.stringify(config) };
    },
    variables: () => ({ OPENCODE_DISABLE_MODELS_FETCH: '1', OPENCODE_DISABLE_LSP_DOWNLOAD: '1' }),
    words: ({ model }, { prompt, continues = false, image }) => [
      'run',
      '--model',
      `gateway/${model}`,
      ...(continues ? ['--continue'] : []),
      prompt,
      ...(image === undefined ? [] : ['--file', image]),
    ],
    tools: {
      read: ({ work }, file) => ({ tool: 'read', input: { filePath: join(work, file) } }),
      write: ({ work }, file, content) => ({ tool: 'write', input: { filePath: join(work, file), content } }),
      edit: ({ work }, file, oldString, newString) => ({
        tool: 'edit',
        input: { filePath: join(work, file), oldString, newString },
      }),
      shell: (_, command) => ({ tool: 'bash', input: { command, description: 'Runs a command' } }),
    },
  };
}
