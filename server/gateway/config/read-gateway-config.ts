import { readFile } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import type * as z from 'zod';
import { providerNames } from '../../../adapters/model-from-env.ts';
import { webhook } from '../../../agent/listening/webhook.ts';
import { EngineError, messageOf } from '../../../protocol/error.ts';
import { mcp } from '../../../tools/mcp.ts';
import { type GatewayConfig, gatewayConfigSchema } from './gateway-config.ts';

type Path = readonly PropertyKey[];
type Problem = { path: Path; message: string };
type Environment = Readonly<Record<string, string | undefined>>;

/**
 * Reads the configuration from a JSON file. `${NAME}` in tokens, in `webhooks` and in the values of `headers` and `env`
 * is the environment variable NAME. Relative to the file's folder are: `cwd` (also the default), a `command` with a
 * slash, and scripts.
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
  const config = parsed.data;
  const folder = dirname(resolve(file));
  const problems: Problem[] = [];
  const readModel = (model: string, path: Path) => resolveModel(model, folder, path, problems);
  changeTexts(config, 'models.*', (model, names) => readModel(model, ['models', ...names]));
  for (const [place, inFile = place] of VARIABLES)
    changeTexts(config, place, (text, names) => fillIn(text, environment, pathOf(inFile, names), problems));
  const transports = Object.values(config.mcpServers).map(({ transport }) => transport);
  for (const process of [...transports, config.builtinTools.code_interpreter?.sandbox ?? []])
    if ('command' in process) process.cwd ??= '.';
  for (const place of FOLDERS) changeTexts(config, place, path => resolve(folder, path));
  for (const place of COMMANDS)
    changeTexts(config, place, command => (/[\\/]/.test(command) ? resolve(folder, command) : command));
  const byModel = <Value>(place: string, values: Readonly<Record<string, Value>>) =>
    Object.fromEntries(
      Object.entries(values).map(([model, value]) => [readModel(model, [place, model]), value]),
    );
  if (config.prices !== undefined) config.prices = byModel('prices', config.prices);
  if (config.maxAttempts !== undefined) config.maxAttempts = byModel('max_attempts', config.maxAttempts);
  if (problems.length === 0)
    problems.push(...checkServers(config), ...checkPrices(config), ...checkWebhooks(config));
  if (problems.length > 0) throw invalidConfig(file, problems);
  return config;
}

/** Where `${NAME}` is a variable of the environment: in the configuration, and in the file if that differs. */
const VARIABLES: readonly (readonly [place: string, inFile?: string])[] = [
  ['mcpServers.*.transport.headers.*', 'mcp_servers.*.headers.*'],
  ['mcpServers.*.transport.env.*', 'mcp_servers.*.env.*'],
  ['builtinTools.web_search.endpoint.headers.*', 'builtin_tools.web_search.headers.*'],
  ['builtinTools.code_interpreter.sandbox.env.*', 'builtin_tools.code_interpreter.env.*'],
  ['tokens.*.token'],
  ['webhooks.*.url'],
  ['webhooks.*.secret'],
];

const FOLDERS: readonly string[] = [
  'mcpServers.*.transport.cwd',
  'builtinTools.code_interpreter.sandbox.cwd',
  'builtinTools.file_search.stores.*.folders.*',
];
const COMMANDS: readonly string[] = [
  'mcpServers.*.transport.command',
  'builtinTools.code_interpreter.sandbox.command.0',
];

/** Changes the texts at a place in a value. `*` stands for each name or index there, which `change` gets. */
function changeTexts(
  value: unknown,
  place: string,
  change: (text: string, names: readonly string[]) => string,
  names: readonly string[] = [],
): void {
  if (typeof value !== 'object' || value === null) return;
  const [key = '', ...rest] = place.split('.');
  for (const [name, inner] of Object.entries(value)) {
    if (key !== '*' && key !== name) continue;
    const passed = key === '*' ? [...names, name] : names;
    if (rest.length > 0) changeTexts(inner, rest.join('.'), change, passed);
    else if (typeof inner === 'string') Object.assign(value, { [name]: change(inner, passed) });
  }
}

function pathOf(place: string, names: readonly string[]): Path {
  const left = [...names];
  return place.split('.').map(key => (key === '*' ? (left.shift() ?? key) : key));
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

function resolveModel(model: string, folder: string, path: Path, problems: Problem[]): string {
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
  for (const [name, { transport }] of Object.entries(mcpServers)) {
    try {
      mcp({ name, ...transport });
    } catch (error) {
      problems.push({ path: ['mcp_servers', name], message: messageOf(error) });
    }
  }
  return problems;
}

const SHORTEST_SECRET = 16;

/** Of the filled-in values, which no message shows. */
function checkWebhooks({ webhooks = {} }: GatewayConfig): Problem[] {
  return Object.entries(webhooks).flatMap(([name, config]) => {
    const at = (field: 'secret' | 'url', message: string) => [{ path: ['webhooks', name, field], message }];
    if (config.secret.length < SHORTEST_SECRET)
      return at('secret', `expected a secret of at least ${SHORTEST_SECRET} characters`);
    try {
      webhook(config);
      return [];
    } catch (error) {
      const message = messageOf(error);
      return at(message.includes('secret') ? 'secret' : 'url', message);
    }
  });
}

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
  const lines = problems.map(({ path, message }) => [showPath(path), message].filter(Boolean).join(': '));
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
