import * as z from 'zod';
import { omitUndefined } from '../../../../protocol/json.ts';
import { fields } from '../../../fields.ts';

const words = z.record(z.string().min(1), z.string());
const optional = z.exactOptional;
const pass = optional(z.boolean());
const timeout = optional(z.int().positive().max(600_000));

const webSearch = fields({
  pass,
  mcp_server: optional(z.string().min(1)),
  tool: optional(z.string().min(1)),
  url: optional(z.url({ protocol: /^https?$/, error: 'expected an http or https URL' })),
  headers: optional(words),
  timeout_ms: timeout,
}).transform(({ pass = false, mcp_server, tool, url, headers, timeout_ms }, context) => {
  const ways = [mcp_server, url].filter(way => way !== undefined);
  if (
    ways.length > 1 ||
    (ways.length === 0 && !pass) ||
    (mcp_server === undefined) !== (tool === undefined)
  ) {
    context.addIssue('expected "mcp_server" with "tool", or "url" with "headers", or "pass": true');
    return z.NEVER;
  }
  return {
    pass,
    ...omitUndefined({
      server: mcp_server === undefined ? undefined : { label: mcp_server, tool: tool ?? '' },
      endpoint: url === undefined ? undefined : { url, ...omitUndefined({ headers, timeoutMs: timeout_ms }) },
    }),
  };
});

const fileSearch = fields({
  pass,
  stores: optional(
    z.record(z.string().min(1), fields({ folders: z.array(z.string().min(1)).min(1).max(100) })),
  ),
}).transform(({ pass = false, stores }, context) => {
  if (stores === undefined && !pass) {
    context.addIssue('expected "stores", each with its "folders", or "pass": true');
    return z.NEVER;
  }
  return { pass, ...omitUndefined({ stores }) };
});

const codeInterpreter = fields({
  pass,
  command: optional(z.array(z.string()).min(1)),
  env: optional(words),
  cwd: optional(z.string().min(1)),
  timeout_ms: timeout,
}).transform(({ pass = false, command, env, cwd, timeout_ms }, context) => {
  if (command === undefined && !pass) {
    context.addIssue('expected a "command" that runs the code of its input in a sandbox, or "pass": true');
    return z.NEVER;
  }
  const sandbox =
    command === undefined ? undefined : { command, ...omitUndefined({ env, cwd, timeoutMs: timeout_ms }) };
  return { pass, ...omitUndefined({ sandbox }) };
});
export type CodeInterpreterConfig = z.output<typeof codeInterpreter>;

/** The schema of `builtin_tools`: the built-in tools that requests may use, and what runs them. */
export const builtinTools = fields({
  web_search: optional(webSearch),
  file_search: optional(fileSearch),
  code_interpreter: optional(codeInterpreter),
});
export type BuiltinConfig = z.output<typeof builtinTools>;
