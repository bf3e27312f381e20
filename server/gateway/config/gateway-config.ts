/** The schema of the JSON file of `agentchart serve --config FILE`, which `read-gateway-config.ts` reads. */
import * as z from 'zod';
import { STATUS_TOPICS, type WebhookTopic } from '../../../agent/listening/webhook.ts';
import { listRunEventTypes } from '../../../protocol/event.ts';
import { type JsonObject, omitUndefined } from '../../../protocol/json.ts';
import { corsConfig, serverLimits, tokensConfig } from '../../access/access-config.ts';
import { builtinTools } from '../../builtins/builtin-schemas.ts';
import { camelCased, fields } from '../../fields.ts';

const names = z.array(z.string().min(1));
const words = z.record(z.string().min(1), z.string());
const httpUrl = z.string().refine(isPlainHttpUrl, 'expected an http or https URL without credentials');
const tools = fields({ tool_names: names });

const approval = z
  .union(
    [z.enum(['always', 'never']), fields({ always: z.exactOptional(tools), never: z.exactOptional(tools) })],
    'expected "always", "never" or { "always"?: { "tool_names": […] }, "never"?: { "tool_names": […] } }',
  )
  .transform(policy => {
    if (typeof policy === 'string') return policy;
    return omitUndefined({ always: policy.always?.tool_names, never: policy.never?.tool_names });
  });

const toolOverride = fields({
  side_effect: z.exactOptional(z.enum(['none', 'idempotent', 'once'])),
  approval: z.exactOptional(z.boolean()),
  hidden: z.exactOptional(z.boolean()),
  deferred: z.exactOptional(z.boolean()),
  timeout_ms: z.exactOptional(z.int().positive()),
  retries: z.exactOptional(z.int().nonnegative()),
  description: z.exactOptional(z.string()),
})
  .refine(
    ({ retries = 0, side_effect }) => retries === 0 || (side_effect ?? 'once') !== 'once',
    'retries require a side_effect of "none" or "idempotent"',
  )
  .transform(camelCased);

const server = fields({
  command: z.exactOptional(z.string().min(1)),
  args: z.exactOptional(z.array(z.string())),
  env: z.exactOptional(words),
  cwd: z.exactOptional(z.string().min(1)),
  url: z.exactOptional(httpUrl),
  headers: z.exactOptional(words),
  require_approval: z.exactOptional(approval),
  hidden: z.exactOptional(z.boolean()),
  deferred: z.exactOptional(z.boolean()),
  allowed_tools: z.exactOptional(names),
  tools: z.exactOptional(z.record(z.string().min(1), toolOverride)),
  timeout_ms: z.exactOptional(z.int().positive()),
})
  .transform(({ command, args, env, cwd, url, headers, require_approval: approval, ...rest }, context) => {
    const process = { args, env, cwd };
    const misplaced = Object.entries(url === undefined ? { headers } : process);
    const [wrong] = misplaced.find(([, value]) => value !== undefined) ?? [];
    if ((command === undefined) === (url === undefined)) {
      context.addIssue('expected either "command", with "args", "env" and "cwd", or "url", with "headers"');
      return z.NEVER;
    }
    if (wrong !== undefined) {
      context.addIssue(`"${wrong}" cannot be combined with "${url === undefined ? 'command' : 'url'}"`);
      return z.NEVER;
    }
    const transport =
      url === undefined
        ? { command: command ?? '', ...omitUndefined(process) }
        : { url, ...omitUndefined({ headers }) };
    return { transport, ...camelCased(rest), ...omitUndefined({ approval }) };
  })
  .refine(
    ({ hidden, approval, tools }) => hidden !== true || !mayAsk(approval, tools),
    'a hidden server cannot require approval, because clients do not see its calls',
  );

export const SERVER_LABEL = /^[A-Za-z][A-Za-z0-9_-]*$/;

const label = z
  .string()
  .regex(SERVER_LABEL, 'expected a label of letters, digits, "_" and "-", starting with a letter');

const dollars = z.number().nonnegative();

/** US dollars per million tokens. A missing price is that of `input`. */
const price = fields({
  input: dollars,
  output: dollars,
  cached_input: z.exactOptional(dollars),
  cache_write: z.exactOptional(dollars),
}).transform(camelCased);

const topic = z.enum([...STATUS_TOPICS, ...listRunEventTypes()] as WebhookTopic[]);

const webhooksConfig = z.record(
  z.string().min(1).max(64),
  fields({
    url: z.string().min(1).meta({ description: 'Where messages are posted: an http or https URL.' }),
    secret: z
      .string()
      .regex(/^\$\{[A-Za-z_]\w*\}$/, 'expected a variable of the environment, as "$" and its name in braces')
      .meta({
        description: 'Signs the messages: a variable of the environment, as "$" and its name in braces.',
      }),
    on: z._default(
      z
        .array(topic)
        .min(1)
        .meta({ description: 'What the webhook reports: the status of runs, or types of events.' }),
      ['waiting'],
    ),
  }),
);
export type WebhooksConfig = z.output<typeof webhooksConfig>;

/**
 * The JSON of `serve --config FILE`: `models` (alias → `provider:model`), `mcp_servers` by label,
 * `allowed_server_urls` (the server URLs that requests may use), `builtin_tools`, `prices` by `provider:model`,
 * `max_attempts` of a model call by `provider:model`, `tokens`, `limits` and `cors` (who may use the server, and how much of it), `webhooks` (who gets messages about runs),
 * and `keep_unstored` (whether runs of requests with `store: false` are kept). Refuses unknown fields.
 */
export const gatewayConfigSchema = fields({
  models: z._default(z.record(z.string().min(1), z.string().min(1)), {}),
  mcp_servers: z._default(z.record(label, server), {}),
  allowed_server_urls: z._default(z.array(httpUrl), []),
  builtin_tools: z._default(builtinTools, {}),
  prices: z.exactOptional(z.record(z.string().min(1), price)),
  max_attempts: z.exactOptional(
    z.record(z.string().min(1), z.int().min(1).max(10)).meta({
      description:
        'How often a call of a model is tried, by "provider:model". Without it, once where the client repeats its request, else three times.',
    }),
  ),
  tokens: z.exactOptional(tokensConfig),
  limits: z.exactOptional(serverLimits),
  cors: z.exactOptional(corsConfig),
  webhooks: z.exactOptional(webhooksConfig),
  keep_unstored: z.exactOptional(
    z.boolean().meta({
      description: 'Keeps the runs of requests with "store": false, for the page. No request finds them.',
    }),
  ),
  $schema: z.exactOptional(z.string().meta({ description: 'Where the JSON Schema of this file is.' })),
}).transform(({ $schema: _, ...config }) => camelCased(config));

export function describeGatewayConfig(): JsonObject {
  const schema = z.toJSONSchema(gatewayConfigSchema, { io: 'input' });
  return JSON.parse(JSON.stringify({ title: 'Configuration of agentchart serve', ...schema }));
}

export type GatewayConfig = z.output<typeof gatewayConfigSchema>;
export type McpServerConfig = GatewayConfig['mcpServers'][string];
export type ApprovalPolicy = z.output<typeof approval>;

export const EMPTY_GATEWAY: GatewayConfig = gatewayConfigSchema.parse({});

export function isHttpUrl(text: string): boolean {
  return URL.canParse(text) && /^https?:$/.test(new URL(text).protocol);
}

function isPlainHttpUrl(text: string): boolean {
  if (!isHttpUrl(text)) return false;
  const { username, password } = new URL(text);
  return username === '' && password === '';
}

function mayAsk(
  policy: ApprovalPolicy | undefined,
  tools: Readonly<Record<string, { approval?: boolean }>> = {},
): boolean {
  const asks = typeof policy === 'object' ? (policy.always ?? []).length > 0 : policy === 'always';
  return asks || Object.values(tools).some(tool => tool.approval === true);
}
