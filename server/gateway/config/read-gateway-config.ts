import { readFile } from 'node:fs/promises';
import { dirname, isAbsolute, resolve } from 'node:path';
import type * as z from 'zod';
import { providerNames } from '../../../adapters/model-from-env.ts';
import { EngineError, messageOf } from '../../../protocol/error.ts';
import { omitUndefined } from '../../../protocol/json.ts';
import { mcp } from '../../../tools/mcp.ts';
import type { BuiltinConfig } from '../../builtins/builtin-schemas.ts';
import { type GatewayConfig, gatewayConfigSchema, type McpServerConfig } from './gateway-config.ts';
import { checkWebhook } from './webhooks-config.ts';

type Path = readonly PropertyKey[];
type Problem = { path: Path; message: string };
type Environment = Readonly<Record<string, string | undefined>>;

/**
 * Reads the configuration from a JSON file. `${NAME}` in tokens, in `webhooks` and in the values of `headers` and `env` is replaced
 * by the environment variable NAME. Relative to the file's folder are: `cwd` (also the default), a `command` with a slash, and scripts.
 *
 * Throws an `EngineError` `input-invalid` that lists the path of each problem and what is expected there. It never
 * shows a value, which may be a secret.
 */
export async function readGatewayConfig(
  file: string,
  environment: Environment = process.env,
): Promise<GatewayConfig> {
  const parsed = gatewayConfigSchema.safeParse(parse(await read(file), file));
  if (!parsed.success) throw invalidConfig(file, parsed.error.issues.map(describeIssue));
  const { prices, tokens, webhooks } = parsed.data;
  const folder = dirname(resolve(file));
  const problems: Problem[] = [];
  const fillInAll = (words: Readonly<Record<string, string>>, path: Path) =>
    mapValues(words, (text, name) => fillIn(text, environment, [...path, name], problems));
  const config = {
    ...parsed.data,
    models: mapValues(parsed.data.models, (model, alias) =>
      readModel(model, folder, ['models', alias], problems),
    ),
    mcpServers: mapValues(parsed.data.mcpServers, (server, label) => ({
      ...server,
      transport: resolveTransport(server.transport, folder, (words, field) =>
        fillInAll(words, ['mcp_servers', label, field]),
      ),
    })),
    builtinTools: resolveBuiltins(parsed.data.builtinTools, folder, (words, path) =>
      fillInAll(words, ['builtin_tools', ...path]),
    ),
    ...omitUndefined({
      prices: prices && mapKeys(prices, model => readModel(model, folder, ['prices', model], problems)),
      tokens:
        tokens &&
        mapValues(tokens, (token, name) => ({
          ...token,
          token: fillIn(token.token, environment, ['tokens', name, 'token'], problems),
        })),
      webhooks:
        webhooks &&
        mapValues(webhooks, (hook, name) => ({
          ...hook,
          url: fillIn(hook.url, environment, ['webhooks', name, 'url'], problems),
          secret: fillIn(hook.secret, environment, ['webhooks', name, 'secret'], problems),
        })),
    }),
  };
  if (problems.length === 0)
    problems.push(...checkServers(config), ...checkPrices(config), ...checkWebhooks(config));
  if (problems.length > 0) throw invalidConfig(file, problems);
  return config;
}

async function read(file: string): Promise<string> {
  try {
    return (await readFile(file, 'utf8')).replace(/^\uFEFF/, '');
  } catch (cause) {
    throw new EngineError('input-invalid', `Cannot read ${file}: ${messageOf(cause)}`, null, { cause });
  }
}

/** Omits the parser's message, which quotes the file. */
function parse(text: string, file: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    const [, place] = /\((line \d+ column \d+)\)/.exec(messageOf(error)) ?? [];
    throw new EngineError(
      'input-invalid',
      `${file} is not valid JSON${place === undefined ? '' : ` (${place})`}. Expected an object with "models", "mcp_servers" or "allowed_server_urls".`,
    );
  }
}

/** Folders and commands are relative to the folder of the file. */
function resolveBuiltins(
  { web_search: web, file_search: files, code_interpreter: code }: BuiltinConfig,
  folder: string,
  fillInAll: (words: Readonly<Record<string, string>>, path: Path) => Record<string, string>,
): BuiltinConfig {
  const headers = web?.endpoint?.headers && fillInAll(web.endpoint.headers, ['web_search', 'headers']);
  const env = code?.sandbox?.env && fillInAll(code.sandbox.env, ['code_interpreter', 'env']);
  const endpoint = web?.endpoint && { ...web.endpoint, ...omitUndefined({ headers }) };
  const stores =
    files?.stores &&
    mapValues(files.stores, ({ folders }) => ({ folders: folders.map(path => resolve(folder, path)) }));
  const sandbox = code?.sandbox && {
    ...code.sandbox,
    command: code.sandbox.command.map((word, at) => (at === 0 ? resolveCommand(word, folder) : word)),
    cwd: resolve(folder, code.sandbox.cwd ?? '.'),
    ...omitUndefined({ env }),
  };
  return omitUndefined({
    web_search: web && { ...web, ...omitUndefined({ endpoint }) },
    file_search: files && { ...files, ...omitUndefined({ stores }) },
    code_interpreter: code && { ...code, ...omitUndefined({ sandbox }) },
  });
}

function resolveCommand(command: string, folder: string): string {
  return /[\\/]/.test(command) && !isAbsolute(command) ? resolve(folder, command) : command;
}

type Transport = McpServerConfig['transport'];
type Resolve = (words: Readonly<Record<string, string>>, field: string) => Record<string, string>;

function resolveTransport(transport: Transport, folder: string, fillInAll: Resolve): Transport {
  if ('url' in transport) {
    const { url, headers } = transport;
    return { url, ...omitUndefined({ headers: headers && fillInAll(headers, 'headers') }) };
  }
  const { command, env, cwd = '.', ...rest } = transport;
  return {
    ...rest,
    command: resolveCommand(command, folder),
    cwd: resolve(folder, cwd),
    ...omitUndefined({ env: env && fillInAll(env, 'env') }),
  };
}

function readModel(model: string, folder: string, path: Path, problems: Problem[]): string {
  const [, provider = '', name = ''] = /^([^:]+):(.+)$/s.exec(model) ?? [];
  if (provider === 'scripted') return `scripted:${resolve(folder, name)}`;
  if (!providerNames().includes(provider)) {
    const message = `expected "provider:model" with one of the providers ${providerNames().join(', ')}`;
    problems.push({ path, message });
  }
  return model;
}

function fillIn(text: string, environment: Environment, path: Path, problems: Problem[]): string {
  return text.replaceAll(/\$\{([A-Za-z_]\w*)\}/g, (place, name: string) => {
    const value = environment[name];
    if (value !== undefined && value !== '') return value;
    problems.push({ path, message: `the environment variable ${place} is not set` });
    return '';
  });
}

/** The problems that `mcp` reports, such as an invalid header. Starts no server. */
function checkServers({ mcpServers, builtinTools }: GatewayConfig): Problem[] {
  const label = builtinTools.web_search?.server?.label;
  const problems: Problem[] = [];
  if (label !== undefined && !Object.hasOwn(mcpServers, label))
    problems.push({
      path: ['builtin_tools', 'web_search', 'mcp_server'],
      message: 'expected the label of one of "mcp_servers"',
    });
  const servers = Object.entries(mcpServers).flatMap<Problem>(([label, { transport }]) => {
    try {
      mcp({ name: label, ...transport });
      return [];
    } catch (error) {
      return [{ path: ['mcp_servers', label], message: messageOf(error) }];
    }
  });
  return [...problems, ...servers];
}

function checkWebhooks({ webhooks = {} }: GatewayConfig): Problem[] {
  return Object.entries(webhooks).flatMap(([name, config]) => {
    const problem = checkWebhook(config);
    return problem === null ? [] : [{ path: ['webhooks', name, problem.field], message: problem.message }];
  });
}

/** A limit of dollars needs the price of every model that requests may name. */
function checkPrices({ models, prices = {}, tokens = {} }: GatewayConfig): Problem[] {
  const unpriced = Object.values(models).filter(model => !Object.hasOwn(prices, model));
  return Object.entries(tokens).flatMap(([name, { limits }]) => {
    const path = ['tokens', name, 'limits', 'spend_per_day_usd'];
    if (limits?.spendPerDayUsd === undefined) return [];
    if (Object.keys(models).length === 0)
      return [{ path, message: 'requires "models", so that requests cannot name a model without a price' }];
    return unpriced.map(model => ({ path, message: `requires a price for ${model} in "prices"` }));
  });
}

function describeIssue(issue: z.core.$ZodIssue): Problem {
  const { path } = issue;
  const inner = issue.code === 'invalid_key' ? (issue.issues[0]?.message ?? issue.message) : issue.message;
  const message = inner.replace(/^Invalid (?:input|option): /, '').replace(', received ', ', got ');
  return { path, message };
}

function invalidConfig(file: string, problems: readonly Problem[]): EngineError {
  const lines = problems.map(({ path, message }) => {
    const place = showPath(path);
    return place === '' ? message : `${place}: ${message}`;
  });
  return new EngineError('input-invalid', [`${file} is not a valid configuration:`, ...lines].join('\n  '));
}

/** `mcp_servers.desk.headers["X Y"]`. */
function showPath(path: Path): string {
  return path.reduce<string>((shown, key) => {
    const name = String(key);
    if (typeof key === 'number' || !/^[\w-]+$/.test(name)) return `${shown}[${JSON.stringify(key)}]`;
    return shown === '' ? name : `${shown}.${name}`;
  }, '');
}

function mapValues<Value, Mapped>(
  values: Readonly<Record<string, Value>>,
  map: (value: Value, key: string) => Mapped,
): Record<string, Mapped> {
  return Object.fromEntries(Object.entries(values).map(([key, value]) => [key, map(value, key)]));
}

function mapKeys<Value>(values: Readonly<Record<string, Value>>, map: (key: string) => string) {
  return Object.fromEntries(Object.entries(values).map(([key, value]) => [map(key), value]));
}
