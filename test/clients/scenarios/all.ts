import { claude } from '../clients/claude.ts';
import { CODEX } from '../clients/codex.ts';
import { opencode } from '../clients/opencode.ts';
import { pi } from '../clients/pi.ts';
import { WIRES } from '../upstream/wires.ts';
import { agents } from './agents.ts';
import { code } from './code.ts';
import { compaction } from './compaction.ts';
import { edits } from './edits.ts';
import { foundTools } from './found-tools.ts';
import { long } from './long.ts';
import { picture } from './picture.ts';
import { resumed } from './resumed.ts';
import type { Scenario } from './scenario.ts';
import { search } from './search.ts';
import { terminal } from './terminal.ts';

const CLIENTS = [
  CODEX.unknown,
  CODEX.known,
  CODEX.programs,
  CODEX.socket,
  claude('claude'),
  pi('pi-responses', 'openai-responses'),
  pi('pi-chat', 'openai-completions'),
  pi('pi-messages', 'anthropic-messages'),
  opencode('opencode-responses', '@ai-sdk/openai'),
  opencode('opencode-chat', '@ai-sdk/openai-compatible'),
  opencode('opencode-messages', '@ai-sdk/anthropic'),
];

export const SCENARIOS: readonly Scenario[] = [
  ...CLIENTS.flatMap(client => WIRES.flatMap(({ name }) => [edits(client, name), long(client, name)])),
  ...WIRES.map(({ name }) => foundTools(name)),
  edits(CODEX.listed, 'openai-chat'),
  ...WIRES.map(({ name }) => search(name)),
  ...WIRES.map(({ name }) => agents(name)),
  ...WIRES.map(({ name }) => compaction(CODEX.known, name)),
  // With its built-in provider it leaves the summary to the server.
  ...WIRES.filter(({ name }) => name !== 'anthropic').map(({ name }) => compaction(CODEX.socket, name)),
  ...[CODEX.unknown, CODEX.listed, CODEX.known, CODEX.programs, claude('claude')].flatMap(client => [
    resumed(client, 'anthropic'),
    resumed(client, 'openai'),
  ]),
  code(CODEX.unknown, 'anthropic', 'codex'),
  code(CODEX.known, 'openai', 'codex'),
  code(claude('claude', { settings: true }), 'openai', 'claude'),
  code(claude('claude', { settings: true }), 'anthropic', 'claude'),
  ...WIRES.map(({ name }) => terminal(name)),
  ...WIRES.map(({ name }) => picture(name)),
  resumed(claude('claude'), 'openai-chat'),
];
