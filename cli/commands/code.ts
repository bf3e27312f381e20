import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { accessSync, constants, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { constants as system, tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { modelFromEnv } from '../../adapters/model-from-env.ts';
import { addUsage } from '../../machines/limits.ts';
import { EngineError, invalidInput } from '../../protocol/error.ts';
import { omitUndefined } from '../../protocol/json.ts';
import { costOf, formatCost } from '../../protocol/listing/cost.ts';
import { formatNumber } from '../../protocol/listing/format-number.ts';
import type { Store } from '../../protocol/store.ts';
import type { Usage } from '../../protocol/turn.ts';
import type { AccessRecord } from '../../server/access/request-record.ts';
import { createRunsApp } from '../../server/app.ts';
import { EMPTY_GATEWAY, type GatewayConfig } from '../../server/gateway/config/gateway-config.ts';
import { readGatewayConfig } from '../../server/gateway/config/read-gateway-config.ts';
import { createGateway } from '../../server/gateway.ts';
import { providerFetch } from '../../server/provider-fetch.ts';
import { pageAssets } from '../../visualizer/page-assets.ts';
import type { Action } from '../command-table.ts';
import { EXIT } from '../exit-codes.ts';
import { absoluteModel, bareAgent, readLaunch } from '../launch.ts';
import { readOneOf, readVersion, storeFile } from '../options.ts';
import { reportUncaught } from '../process-end.ts';
import { CommandLines } from '../render/command-lines.ts';
import { formatStore, plural } from '../render/format.ts';
import { withStore } from '../store.ts';
import { makeTest } from './export.ts';
import { listen, ServerLog, shutDown } from './serving.ts';

/** How the client reaches the gateway. `model` is absent if the client may use its own. */
type Connection = { url: string; token: string; model?: string };

type CodingClient = {
  package: string;
  /** The API key of its own provider, and a model there for requests that name none. */
  key: string;
  model: string;
  connect(
    to: Connection,
    makeFile: (name: string, text: string) => string,
  ): {
    args: string[];
    env: Record<string, string>;
  };
};

const CLIENTS = {
  codex: {
    package: '@openai/codex',
    key: 'OPENAI_API_KEY',
    model: 'openai:gpt-5',
    connect({ url, token, model }) {
      const settings = {
        model_provider: 'agentchart',
        'model_providers.agentchart.name': 'Agentchart',
        'model_providers.agentchart.base_url': `${url}/v1`,
        'model_providers.agentchart.wire_api': 'responses',
        'model_providers.agentchart.env_key': 'AGENTCHART_CODE_TOKEN',
        ...omitUndefined({ model }),
      };
      const args = Object.entries(settings).flatMap(([name, value]) => [
        '-c',
        `${name}=${JSON.stringify(value)}`,
      ]);
      return { args, env: { AGENTCHART_CODE_TOKEN: token } };
    },
  },
  claude: {
    package: '@anthropic-ai/claude-code',
    key: 'ANTHROPIC_API_KEY',
    model: 'anthropic:claude-sonnet-4-5',
    connect({ url, token, model }, makeFile) {
      const named =
        model === undefined
          ? {}
          : {
              ANTHROPIC_MODEL: model,
              ANTHROPIC_DEFAULT_OPUS_MODEL: model,
              ANTHROPIC_DEFAULT_SONNET_MODEL: model,
              ANTHROPIC_DEFAULT_HAIKU_MODEL: model,
            };
      const env = {
        ANTHROPIC_BASE_URL: url,
        ANTHROPIC_AUTH_TOKEN: token,
        ANTHROPIC_API_KEY: '',
        CLAUDE_CODE_USE_BEDROCK: '',
        CLAUDE_CODE_USE_VERTEX: '',
        CLAUDE_CODE_USE_FOUNDRY: '',
        ...named,
      };
      // Only this file wins against `env` in the settings of the user.
      return { args: ['--settings', makeFile('settings.json', JSON.stringify({ env }))], env };
    },
  },
} satisfies Record<string, CodingClient>;

/** How long runs may continue after the client has ended, in ms. */
const GRACE_MS = 2_000;

/** The client has the terminal: what is reported meanwhile is shown when it has ended. */
const MOST_REPORTS = 20;

export const code: Action<'code'> = async ({ client: named, args, ...options }) => {
  const name = readOneOf(Object.keys(CLIENTS) as (keyof typeof CLIENTS)[], named, 'the client');
  const client: CodingClient = CLIENTS[name];
  const program = findProgram(name, client);
  const given = options.config === undefined ? EMPTY_GATEWAY : await readGatewayConfig(options.config);
  const { model, fallback, models } = chooseModel(options.model, given, client);
  const tokens = { operator: makeToken(), client: makeToken() };
  const config: GatewayConfig = {
    ...given,
    models,
    keepUnstored: true,
    tokens: { [name]: { token: tokens.client, role: 'client' } },
  };
  const file = storeFile(options.db);
  const log = new ServerLog('text');
  const reports: string[] = [];
  const report = (line: string) => {
    if (reports.length < MOST_REPORTS) reports.push(line);
  };
  reportUncaught({ survives: true, report });
  const bill = new Bill(config);
  return await withStore({ file, warn: report }, async store => {
    // What the client sends is not the person's to change.
    const logIgnored = () => {};
    const gateway = createGateway({
      store,
      config,
      model: fallback,
      fetch: providerFetch,
      log: report,
      logIgnored,
    });
    const { service, responses, messages, chat, agentsByRun } = gateway;
    const app = createRunsApp({
      store,
      agents: new Map(),
      version: readVersion(),
      admission: service.admission,
      token: tokens.operator,
      tokens: config.tokens ?? {},
      assets: await pageAssets(),
      mounted: [messages, responses, chat],
      agentsByRun,
      fallbackAgentFor: record => bareAgent(record, store),
      exportTest: makeTest,
      log: report,
      onRequest: record => bill.add(record),
    });
    await service.begin(GRACE_MS);
    const serving = await listen(app, { host: '127.0.0.1', port: options.port }, log);
    if (serving === null) return EXIT.failed;
    log.notice(`${name} on ${model ?? `its own models, with ${client.key}`}`);
    log.notice(`watch  ${serving.url}/#token=${tokens.operator}`);
    log.notice(`runs   ${formatStore(file)}`);
    const files = new TemporaryFiles();
    let exitCode: number;
    let session: string | undefined;
    try {
      const connection = { url: serving.url, token: tokens.client, ...omitUndefined({ model }) };
      const { args: own, env } = client.connect(connection, (each, text) => files.write(each, text));
      exitCode = await runToItsEnd(
        spawn(program, [...own, ...args], { stdio: 'inherit', env: { ...process.env, ...env } }),
      );
      process.exitCode = exitCode;
      session = await bill.session(store);
      await service.runs.endKept();
    } finally {
      files.remove();
      await shutDown({ serving, store, graceMs: GRACE_MS, log, closing: [service] });
      for (const line of reports) log.problem(line);
    }
    log.notice(bill.text);
    if (session !== undefined)
      log.notice(
        `again  ${new CommandLines(file).of('serve')}, then http://127.0.0.1:4100/sessions/${session}`,
      );
    return exitCode;
  });
};

/** A person sees and decides everything on the page; the client may only use `/v1`. */
function makeToken(): string {
  return randomBytes(32).toString('base64url');
}

/** Throws `input-invalid` if the client is not installed. */
function findProgram(name: string, client: CodingClient): string {
  const places = (process.env.PATH ?? '').split(delimiter).filter(folder => folder !== '');
  const found = places.map(folder => join(folder, name)).find(isProgram);
  if (found !== undefined) return found;
  throw invalidInput(
    `${name} is not installed: it is not on the PATH. Install it: npm install -g ${client.package}`,
  );
}

function isProgram(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return statSync(file).isFile();
  } catch {
    return false;
  }
}

/**
 * `model`: what the client asks for, if not one of its own. `fallback`: whose provider serves those. `models`: with the
 * chosen one. Throws `input-invalid` if no model can be chosen, and what `modelFromEnv` throws for one that does not exist.
 */
function chooseModel(
  asked: string | undefined,
  { models }: GatewayConfig,
  { key, model: own }: CodingClient,
): { model?: string; fallback: string; models: GatewayConfig['models'] } {
  const [alias, ...others] = Object.keys(models);
  const chosen = asked ?? readLaunch(undefined).model ?? (others.length === 0 ? alias : undefined);
  if (chosen !== undefined) {
    const fallback = (Object.hasOwn(models, chosen) ? models[chosen] : undefined) ?? absoluteModel(chosen);
    modelFromEnv(fallback);
    // Its file is not for the client to know.
    const model = fallback.startsWith('scripted:') && !Object.hasOwn(models, chosen) ? 'scripted' : chosen;
    return { model, fallback, models: { ...models, [model]: fallback } };
  }
  if (alias === undefined && process.env[key]) return { fallback: own, models };
  const choice =
    alias === undefined
      ? `Set ${key} to use the client's own models, or give another one with its key: --model openai:gpt-5, or AGENTCHART_MODEL.`
      : `The configuration has several. Give one of them: --model ${Object.keys(models).join(', ')}.`;
  throw new EngineError('model-missing', `No model is chosen. ${choice}`);
}

/** Files for the client, in a folder that only this user can read; removed at the latest when this process exits. */
class TemporaryFiles {
  #folder: string | undefined;

  write(name: string, text: string): string {
    this.#folder ??= mkdtempSync(join(tmpdir(), 'agentchart-code-'));
    process.once('exit', this.remove);
    const file = join(this.#folder, name);
    writeFileSync(file, text, { mode: 0o600 });
    return file;
  }

  readonly remove = (): void => {
    if (this.#folder !== undefined) rmSync(this.#folder, { recursive: true, force: true });
  };
}

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'] as const;

/** Passes signals on, except those that the terminal sends to the client too. Returns its exit code as a shell does. */
async function runToItsEnd(child: ChildProcess): Promise<number> {
  const pass = (signal: NodeJS.Signals) => {
    const isFromTerminal = process.stdin.isTTY === true && signal !== 'SIGTERM';
    if (!isFromTerminal) child.kill(signal);
  };
  for (const signal of SIGNALS) process.on(signal, pass);
  try {
    const [exitCode, signal] = await new Promise<[number | null, NodeJS.Signals | null]>((ended, failed) => {
      child.once('error', failed);
      child.once('exit', (...how) => ended(how));
    });
    return exitCode ?? 128 + (signal === null ? 0 : system.signals[signal]);
  } finally {
    for (const signal of SIGNALS) process.off(signal, pass);
  }
}

/** What the requests of the client used. */
class Bill {
  readonly #config: GatewayConfig;
  readonly #runs = new Set<string>();
  #turns = 0;
  #usage: Usage | null = null;
  #cost = 0;

  constructor(config: GatewayConfig) {
    this.#config = config;
  }

  add({ run, model = '', usage }: AccessRecord): void {
    if (run === undefined) return;
    this.#turns += 1;
    this.#runs.add(run);
    if (usage === undefined) return;
    const used: Usage = {
      inputTokens: usage.input_tokens,
      outputTokens: usage.output_tokens,
      cachedInputTokens: usage.cached_tokens ?? null,
      cacheWriteTokens: usage.cache_write_tokens ?? null,
      reasoningTokens: null,
    };
    this.#usage = addUsage(this.#usage, used);
    this.#cost += costOf(used, model, this.#config.prices);
  }

  /** The last session that the client had; Codex makes a title in one of its own. */
  async session(store: Store): Promise<string | undefined> {
    let side: string | undefined;
    for (const runId of [...this.#runs].reverse()) {
      const { session, thread } = (await store.get(runId))?.labels ?? {};
      if (session !== undefined && thread === undefined) return session;
      side ??= session;
    }
    return side;
  }

  get text(): string {
    const turns = plural(this.#turns, 'turn');
    if (this.#usage === null) return turns;
    const { inputTokens, cachedInputTokens, outputTokens } = this.#usage;
    const cached =
      cachedInputTokens === null ? '' : ` (${share(cachedInputTokens, inputTokens)} from the cache)`;
    const cost = this.#cost > 0 ? `, ${formatCost(this.#cost)}` : '';
    return `${turns}, ${formatNumber(inputTokens)} input tokens${cached}, ${formatNumber(outputTokens)} output tokens${cost}`;
  }
}

function share(part: number, whole: number): string {
  return `${whole === 0 ? 0 : Math.round((100 * part) / whole)} %`;
}
