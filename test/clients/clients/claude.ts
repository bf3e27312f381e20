import { join } from 'node:path';
import type { Client } from '../client.ts';

/**
 * https://code.claude.com/docs. `words`: more arguments, such as those for its MCP servers. `settings`: its variables
 * stand in the settings of the user too.
 */
export function claude(
  name: string,
  { words = [], settings = false }: { words?: readonly string[]; settings?: boolean } = {},
): Client {
  const variables: Client['variables'] = ({ url, key, model }) => ({
    ANTHROPIC_BASE_URL: url,
    ANTHROPIC_API_KEY: key,
    ANTHROPIC_MODEL: model,
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
    DISABLE_TELEMETRY: '1',
    // It runs every tool unasked, which it does for root only in a sandbox.
    IS_SANDBOX: '1',
  });
  return {
    name,
    package: '@anthropic-ai/claude-code',
    model: 'coder',
    settings: place =>
      settings ? { '.claude/settings.json': JSON.stringify({ env: variables(place) }) } : {},
    variables,
    words: (_, { prompt, continues = false, image }) => [
      '--print',
      '--dangerously-skip-permissions',
      ...words,
      ...(continues ? ['--continue'] : []),
      '--',
      image === undefined ? prompt : `${prompt} @${image}`,
    ],
    tools: {
      read: ({ work }, file) => ({ tool: 'Read', input: { file_path: join(work, file) } }),
      write: ({ work }, file, content) => ({
        tool: 'Write',
        input: { file_path: join(work, file), content },
      }),
      edit: ({ work }, file, old_string, new_string) => ({
        tool: 'Edit',
        input: { file_path: join(work, file), old_string, new_string },
      }),
      shell: (_, command) => ({ tool: 'Bash', input: { command, description: 'Runs a command' } }),
    },
  };
}
