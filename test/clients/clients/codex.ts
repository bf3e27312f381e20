import { join } from 'node:path';
import type { Client } from '../client.ts';
import type { ScriptedCall } from '../upstream/script.ts';

type Place = Parameters<Client['settings']>[0];

/** An MCP server of the user's, with two tools that change files. */
const SERVER = `
import { readFileSync, writeFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
const text = { type: 'string' };
const toolOf = (name, ...members) => ({
  name,
  description: 'Tool to ' + name.replace('_', ' ') + ' of a file.',
  inputSchema: { type: 'object', properties: Object.fromEntries(members.map(one => [one, text])), required: members },
});
const tools = [toolOf('write_text', 'file', 'content'), toolOf('replace_text', 'file', 'from', 'to')];
const answers = {
  initialize: ({ protocolVersion }) => ({ protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 'notes', version: '1' } }),
  'tools/list': () => ({ tools }),
  'tools/call': ({ name, arguments: { file, content, from, to } }) => {
    writeFileSync(file, name === 'write_text' ? content : readFileSync(file, 'utf8').replace(from, to));
    return { content: [{ type: 'text', text: 'done' }] };
  },
};
for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) continue;
  const answer = answers[method];
  const rest = answer ? { result: answer(params) } : { error: { code: -32601, message: 'unknown method' } };
  process.stdout.write(JSON.stringify({ jsonrpc: '2.0', id, ...rest }) + '\\n');
}
`;

type Way = {
  name: string;
  model: string;
  tools: Client['tools'];
  /** More lines at the top of its configuration. */
  more?: readonly string[];
  /** The built-in provider with another base URL, which uses WebSockets, instead of one of the user's. */
  builtIn?: true;
  /** The key comes from a command, and Codex reads the list of models. */
  lists?: true;
};

function codex(way: Way): Client {
  const { name, model, tools, builtIn } = way;
  return {
    name,
    package: '@openai/codex',
    model,
    settings: place => ({ 'notes.mjs': SERVER, '.codex/config.toml': configOf(place, way) }),
    variables: ({ key }) => ({ GATEWAY_KEY: key, ...(builtIn && { CODEX_API_KEY: key }) }),
    words: (_, { prompt, continues = false, image }) => [
      'exec',
      ...(continues ? ['resume', '--last'] : []),
      '--skip-git-repo-check',
      ...(image === undefined ? [] : ['--image', image, '--']),
      prompt,
    ],
    tools,
  };
}

/** https://developers.openai.com/codex/config-reference */
function configOf({ url, key, model, work }: Place, { more = [], builtIn, lists }: Way): string {
  return [
    `model = "${model}"`,
    builtIn ? `openai_base_url = "${url}/v1"` : 'model_provider = "gateway"',
    'approval_policy = "never"',
    'sandbox_mode = "danger-full-access"',
    'check_for_update_on_startup = false',
    ...more,
    '[analytics]',
    'enabled = false',
    '[mcp_servers.notes]',
    'command = "node"',
    `args = ["${join(work, '..', 'home', 'notes.mjs')}"]`,
    'default_tools_approval_mode = "approve"',
    ...(builtIn
      ? []
      : [
          '[model_providers.gateway]',
          'name = "Gateway"',
          `base_url = "${url}/v1"`,
          'wire_api = "responses"',
          ...(lists
            ? ['[model_providers.gateway.auth]', 'command = "echo"', `args = ["${key}"]`]
            : ['env_key = "GATEWAY_KEY"']),
        ]),
    '',
  ].join('\n');
}

const patchOf = (...lines: string[]) => ['*** Begin Patch', ...lines, '*** End Patch', ''].join('\n');
const added = (content: string) =>
  content
    .trimEnd()
    .split('\n')
    .map(line => `+${line}`);
const creation = (file: string, content: string) => patchOf(`*** Add File: ${file}`, ...added(content));
const change = (file: string, from: string, to: string) =>
  patchOf(`*** Update File: ${file}`, '@@', `-${from}`, `+${to}`);
const run = (cmd: string): ScriptedCall => ({ tool: 'exec_command', input: { cmd } });

/** A model that Codex does not know: it has the shell, and the user's servers in namespaces. */
const unknown: Client['tools'] = {
  read: (_, file) => run(`cat ${file}`),
  write: ({ work }, file, content) => ({ tool: 'write_text', input: { file: join(work, file), content } }),
  edit: ({ work }, file, from, to) => ({ tool: 'replace_text', input: { file: join(work, file), from, to } }),
  shell: (_, command) => run(command),
};

/** A model that it knows: patches are a custom tool, and the user's servers are found by a search. */
const known: Client['tools'] = {
  read: (_, file) => run(`cat ${file}`),
  write: (_, file, content) => ({ tool: 'apply_patch', input: creation(file, content) }),
  edit: (_, file, from, to) => ({ tool: 'apply_patch', input: change(file, from, to) }),
  shell: (_, command) => run(command),
};

const program = (call: string): ScriptedCall => ({ tool: 'exec', input: `text(await tools.${call});` });
const runs = (cmd: string) => program(`exec_command(${JSON.stringify({ cmd })})`);

/** A model in code mode: one custom tool runs programs, which call the others. */
const programs: Client['tools'] = {
  read: (_, file) => runs(`cat ${file}`),
  write: (_, file, content) => program(`apply_patch(${JSON.stringify(creation(file, content))})`),
  edit: ({ work }, file, from, to) =>
    program(`mcp__notes__replace_text(${JSON.stringify({ file: join(work, file), from, to })})`),
  shell: (_, command) => runs(command),
};

/** https://github.com/openai/codex, with a model that it does not know, one that it knows, and one in code mode. */
export const CODEX = {
  unknown: codex({ name: 'codex-unknown', model: 'coder', tools: unknown }),
  known: codex({ name: 'codex-known', model: 'gpt-5.5', tools: known }),
  programs: codex({ name: 'codex-programs', model: 'gpt-6.1-sol', tools: programs }),
  listed: codex({
    name: 'codex-listed',
    model: 'coder',
    tools: { ...unknown, edit: known.edit },
    lists: true,
  }),
  socket: codex({ name: 'codex-socket', model: 'gpt-5.5', tools: known, builtIn: true }),
};
