// Which API version and which beta features a request needs, judged by its body.

import type { JsonObject } from '../../protocol/json.ts';
import { objectOf, objectsOf, textIn } from '../turn/json-access.ts';
import { FIRST_API_VERSION, type ModelFamily } from './model-family.ts';

export type VersionOptions = {
  /**
   * The `anthropic-version` of every request. Default: the version that the model's family is documented for, and the
   * one before it if the request has parameters that were removed since.
   */
  apiVersion?: string;
  /** Beta features to turn on, in addition to those that a request needs, which are turned on by themselves. */
  betas?: readonly string[];
};

/** The headers of one request. Headers of the caller count first; their beta features are kept beside the others. */
export function requestHeaders(
  body: JsonObject,
  family: ModelFamily,
  { apiVersion, betas = [], headers = {} }: VersionOptions & { headers?: Record<string, string> },
): Record<string, string> {
  const own = new Map(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
  const version = own.get('anthropic-version') ?? apiVersion ?? versionFor(body, family);
  const written = (own.get('anthropic-beta') ?? '').split(',').map(beta => beta.trim());
  const asked = [...written, ...betas].filter(beta => beta !== '');
  const features = asked.map(featureOf);
  const all = new Set([...asked, ...betasOf(body).filter(beta => !features.includes(featureOf(beta)))]);
  return {
    'anthropic-version': version,
    ...(all.size > 0 && { 'anthropic-beta': [...all].join(',') }),
  };
}

/** The name of a beta feature without its date: a caller's version of a feature stays the only one. */
function featureOf(beta: string): string {
  return beta.replace(/-\d{4}-\d{2}-\d{2}$/, '');
}

/** What version 2026-10-21 refuses: https://platform.claude.com/docs/en/api/versioning#version-history */
function versionFor(body: JsonObject, { apiVersion }: ModelFamily): string {
  const isRemoved = ['temperature', 'top_p', 'top_k'].some(name => body[name] !== undefined);
  return isRemoved ? FIRST_API_VERSION : apiVersion;
}

const CHANGES = 'mid-conversation-tool-changes-2026-07-01';
const MCP = 'mcp-client-2026-09-15';

/** The members of a body that need a beta feature. */
const OF_MEMBERS: readonly (readonly [needs: (body: JsonObject) => boolean, beta: string])[] = [
  [({ thinking }) => objectOf(thinking).display === 'updates', 'thinking-display-updates-2026-08-18'],
  [({ thinking }) => objectOf(thinking).block_binding != null, 'thinking-binding-controls-2026-08-01'],
  [({ compaction }) => compaction != null, 'compact-2026-09-04'],
  [body => editsOf(body).some(({ type }) => type === 'compact_20260112'), 'compact-2026-01-12'],
  [body => editsOf(body).some(({ type }) => /^clear_/.test(textIn(type))), 'context-management-2025-06-27'],
  [({ fallbacks }) => fallbacks != null, 'server-side-fallback-2026-07-01'],
  [({ fallback_credit_token: token }) => token != null, 'fallback-credit-2026-07-01'],
  [({ speed }) => speed === 'fast', 'fast-mode-2026-02-01'],
  [({ thread }) => thread != null, 'message-threads-2026-08-12'],
  [({ output_config: config }) => objectOf(config).task_budget != null, 'task-budgets-2026-03-13'],
  [({ mcp_servers: servers }) => objectsOf(servers).length > 0, MCP],
];

/** Types of tools that need a beta feature. */
const OF_TOOLS: Readonly<Record<string, readonly string[]>> = {
  mcp_toolset: [MCP],
  advisor_20260301: ['advisor-tool-2026-03-01'],
  computer_20251124: ['computer-use-2025-11-24'],
  computer_20250124: ['computer-use-2025-01-24'],
};

/** Types of content blocks that need one. */
const OF_BLOCKS: Readonly<Record<string, (block: JsonObject) => readonly string[]>> = {
  compaction: ({ signature }) => [signature == null ? 'compact-2026-01-12' : 'compact-2026-09-04'],
  mcp_tool_use: () => [MCP],
  fallback: () => ['server-side-fallback-2026-07-01'],
  tool_removal: () => [CHANGES],
  tool_addition: ({ tool }) =>
    /_reference$/.test(textIn(objectOf(tool).type)) ? [CHANGES] : [CHANGES, 'inline-tools-2026-09-15'],
};

function betasOf(body: JsonObject): string[] {
  const betas = OF_MEMBERS.flatMap(([needs, beta]) => (needs(body) ? [beta] : []));
  for (const { type } of objectsOf(body.tools)) betas.push(...(OF_TOOLS[textIn(type)] ?? []));
  for (const { role, content, clear_at, output_config } of objectsOf(body.messages)) {
    if (role === 'system' && clear_at != null) betas.push('mid-conversation-system-clear-at-2026-08-21');
    if (role === 'system' && output_config != null) betas.push('mid-conversation-output-config-2026-07-01');
    for (const block of objectsOf(content)) betas.push(...(OF_BLOCKS[textIn(block.type)]?.(block) ?? []));
  }
  return betas;
}

function editsOf({ context_management: management }: JsonObject): JsonObject[] {
  return objectsOf(objectOf(management).edits);
}
