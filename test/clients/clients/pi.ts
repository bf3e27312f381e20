import { join } from 'node:path';
import type { Client } from '../client.ts';

type Api = 'openai-responses' | 'openai-completions' | 'anthropic-messages';

/** https://github.com/earendil-works/pi, over one of the three APIs. */
export function pi(name: string, api: Api): Client {
  return {
    name,
    package: '@earendil-works/pi-coding-agent',
    model: 'coder',
    ...(api === 'openai-completions' && { forgets: true }),
    settings: ({ url, key, model }) => {
      const baseUrl = api === 'anthropic-messages' ? url : `${url}/v1`;
      const models = [{ id: model, reasoning: true, input: ['text', 'image'] }];
      const providers = { gateway: { baseUrl, api, apiKey: key, models } };
      return { '.pi/agent/models.json': JSON.stringify({ providers }) };
    },
    variables: () => ({ PI_OFFLINE: '1', PI_TELEMETRY: '0', PI_SKIP_VERSION_CHECK: '1' }),
    words: ({ model }, { prompt, continues = false, image }) => [
      '--print',
      '--model',
      `gateway/${model}`,
      ...(continues ? ['--continue'] : []),
      ...(image === undefined ? [] : [`@${image}`]),
      prompt,
    ],
    tools: {
      read: ({ work }, file) => ({ tool: 'read', input: { path: join(work, file) } }),
      write: ({ work }, file, content) => ({ tool: 'write', input: { path: join(work, file), content } }),
      edit: ({ work }, file, oldText, newText) => ({
        tool: 'edit',
        input: { path: join(work, file), edits: [{ oldText, newText }] },
      }),
      shell: (_, command) => ({ tool: 'bash', input: { command } }),
    },
  };
}
