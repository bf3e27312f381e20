/** What requests declare of built-in tools, and what the configuration has for them. */
import * as z from 'zod';
import { omitUndefined } from '../../protocol/json.ts';
import { fields, maybe, object, openFields } from '../fields.ts';

export const webSearchTool = openFields({
  type: z
    .string()
    .regex(/^web_search(?:_preview)?(?:_\d{4}_\d{2}_\d{2})?$/)
    .transform(type => type as 'web_search'),
  filters: maybe(fields({ allowed_domains: maybe(z.array(z.string().min(1)).max(100)) })),
  user_location: maybe(object),
  search_context_size: maybe(z.enum(['low', 'medium', 'high'])),
  external_web_access: maybe(z.boolean()),
  search_content_types: maybe(z.array(z.string())),
});
export type WebSearchTool = z.infer<typeof webSearchTool>;

const comparison = z.union([
  fields({
    type: z.enum(['eq', 'ne', 'gt', 'gte', 'lt', 'lte']),
    key: z.string(),
    value: z.union([z.string(), z.number(), z.boolean()]),
  }),
  fields({
    type: z.enum(['in', 'nin']),
    key: z.string(),
    value: z.array(z.union([z.string(), z.number()])).max(1_000),
  }),
]);
export type FileFilter = z.infer<typeof comparison> | { type: 'and' | 'or'; filters: FileFilter[] };
const fileFilter: z.ZodType<FileFilter> = z.lazy(() =>
  z.union([
    comparison,
    fields({ type: z.enum(['and', 'or']), filters: z.array(fileFilter).min(1).max(100) }),
  ]),
);

export const fileSearchTool = openFields({
  type: z.literal('file_search'),
  vector_store_ids: z.array(z.string()).min(1).max(10),
  max_num_results: maybe(z.int().min(1).max(50)),
  ranking_options: maybe(
    openFields({
      ranker: maybe(z.string()),
      score_threshold: maybe(z.number().min(0).max(1)),
      hybrid_search: maybe(object),
    }),
  ),
  filters: maybe(fileFilter),
});
export type FileSearchTool = z.infer<typeof fileSearchTool>;

export const codeInterpreterTool = openFields({
  type: z.literal('code_interpreter'),
  container: z.union([z.string(), openFields({ type: z.literal('auto') })]),
});
export type CodeInterpreterTool = z.infer<typeof codeInterpreterTool>;

export type BuiltinTool = WebSearchTool | FileSearchTool | CodeInterpreterTool;

export const BUILTIN_KINDS = ['web_search', 'file_search', 'code_interpreter'] as const;
export type BuiltinKind = (typeof BUILTIN_KINDS)[number];

export function isBuiltinTool<Tool extends { type: string }>(tool: Tool | BuiltinTool): tool is BuiltinTool {
  return builtinKind(tool.type) !== undefined;
}

/** The types of web search have dates and a preview. */
export function builtinKindOf(tool: BuiltinTool): BuiltinKind {
  return builtinKind(tool.type) ?? tool.type;
}

/** Also of a choice; `undefined` for other types. */
export function builtinKind(type: string): BuiltinKind | undefined {
  return BUILTIN_KINDS.find(kind => type === kind || (kind === 'web_search' && type.startsWith(kind)));
}

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
  const ways = [mcp_server, url].filter(way => way !== undefined).length;
  const isWithTool = (mcp_server === undefined) === (tool === undefined);
  if (ways > 1 || (ways === 0 && !pass) || !isWithTool) {
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

export const builtinTools = fields({
  web_search: optional(webSearch),
  file_search: optional(fileSearch),
  code_interpreter: optional(codeInterpreter),
});
export type BuiltinConfig = z.output<typeof builtinTools>;
