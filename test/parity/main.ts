/**
 * `npm run parity`: puts the gateway and another Responses server through the same scenarios and prints where they
 * differ: statuses, fields, item types, events and their order, ids, and errors. Texts are not compared.
 */

import { parseArgs } from 'node:util';
import { systemHost } from '../../engine/host/host.ts';
import { messageOf } from '../../protocol/error.ts';
import { omitUndefined } from '../../protocol/json.ts';
import { createRunsApp } from '../../server/app.ts';
import { gatewayConfigSchema } from '../../server/gateway/config/gateway-config.ts';
import { createGateway } from '../../server/gateway.ts';
import { type Serving, serveRuns } from '../../server/serve.ts';
import { memory } from '../../stores/memory.ts';
import { HttpMcpServer } from '../support/tools/http-mcp-server.ts';
import { type Comparison, compareServers, type Difference } from './compare.ts';
import { scenarios } from './scenarios.ts';

const HELP = `Compares the gateway with another Responses server.

  npm run parity -- --against URL [--model M] [--ours URL] [--mcp URL] [--only SCENARIO] [--except NAME] [--json]

  --against URL   the other server, such as https://api.openai.com/v1; its key is OPENAI_API_KEY
  --model M       its model (default gpt-5-mini)
  --ours URL      a running gateway, whose token is AGENTCHART_TOKEN (default: a gateway in this process, in front of
                  the other server)
  --our-model M   the model at --ours (default: that of --model)
  --mcp URL       an MCP server with the tool "echo" { text } that both servers can reach and the gateway allows
                  (default: one in this process, if the other server is on this machine)
  --only NAME     one of ${scenarios.map(({ name }) => name).join(', ')}; may be given again
  --except NAME   accepts a difference, or all below a name such as errors/no-model; may be given again
  --json          prints the result as one JSON object

Exits with 0 if there is no difference, 1 if there are some, 2 if the comparison is not possible.`;

const closing: (() => Promise<unknown>)[] = [];
try {
  process.exitCode = await main();
} catch (error) {
  console.error(messageOf(error));
  process.exitCode = 2;
} finally {
  await Promise.allSettled(closing.map(close => close()));
}

async function main(): Promise<number> {
  const { values } = parseArgs({
    options: {
      against: { type: 'string' },
      model: { type: 'string', default: 'gpt-5-mini' },
      ours: { type: 'string' },
      'our-model': { type: 'string' },
      mcp: { type: 'string' },
      only: { type: 'string', multiple: true },
      except: { type: 'string', multiple: true },
      json: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
    },
  });
  if (values.help) {
    console.log(HELP);
    return 0;
  }
  const { against, model, json, only, except } = values;
  const url = readUrl(against);
  for (const name of only ?? [])
    if (!scenarios.some(scenario => scenario.name === name))
      throw new Error(`There is no scenario "${name}".`);
  const theirs = { url, model, apiKey: process.env.OPENAI_API_KEY || 'unused' };
  await assertAnswers(url);
  const mcpUrl = values.mcp ?? (isLocal(url) ? await startMcp() : undefined);
  const ours = {
    url: values.ours === undefined ? await startGateway(url, model, mcpUrl) : readUrl(values.ours),
    model: values['our-model'] ?? model,
    apiKey: process.env.AGENTCHART_TOKEN || 'unused',
  };
  const result = await compareServers({
    ours,
    theirs,
    ...omitUndefined({ mcpUrl, only, except }),
    onScenario: (name, differences) => {
      if (!json) console.log(describeScenario(name, differences));
    },
  });
  console.log(json ? JSON.stringify(result) : describeResult(result));
  return result.differences.length === 0 ? 0 : 1;
}

function readUrl(text: string | undefined): string {
  if (text === undefined) throw new Error('--against URL is missing. See --help.');
  if (!URL.canParse(text) || !/^https?:$/.test(new URL(text).protocol))
    throw new Error(`Expected an http or https URL, got "${text}".`);
  return text.replace(/\/$/, '');
}

function isLocal(url: string): boolean {
  return /^(localhost|127\.|\[::1\])/.test(new URL(url).hostname);
}

async function assertAnswers(url: string): Promise<void> {
  try {
    await fetch(`${url}/responses/none`, { signal: AbortSignal.timeout(10_000) });
  } catch (error) {
    throw new Error(`${url} does not answer: ${messageOf(error)}`);
  }
}

async function startMcp(): Promise<string> {
  const server = await HttpMcpServer.start();
  closing.push(() => server.close());
  return server.url;
}

/** A gateway whose model is the other server's, so that both answer with the same model. */
async function startGateway(against: string, model: string, mcpUrl: string | undefined): Promise<string> {
  process.env.OPENAI_BASE_URL = against;
  process.env.OPENAI_API_KEY ||= 'unused';
  const store = memory();
  const { service, responses } = createGateway({
    store,
    host: systemHost,
    config: gatewayConfigSchema.parse({ allowed_server_urls: mcpUrl === undefined ? [] : [mcpUrl] }),
    model: `openai:${model}`,
    log: line => console.error(line),
  });
  const app = createRunsApp({ store, agents: new Map(), mounted: [responses] });
  const serving: Serving = await serveRuns(app, { host: '127.0.0.1', port: 0 });
  closing.push(
    () => serving.close(),
    () => service.close(),
  );
  return `${serving.url}/v1`;
}

function describeScenario(name: string, differences: readonly Difference[]): string {
  if (differences.length === 0) return `same     ${name}`;
  const lines = differences.flatMap(({ name: full, ours, theirs }) => [
    `  ${full}`,
    ...lineDifferences(theirs, ours).map(line => `    - ${line}`),
    ...lineDifferences(ours, theirs).map(line => `    + ${line}`),
    ...(isReordered(ours, theirs) ? [`    - ${theirs.join(', ')}`, `    + ${ours.join(', ')}`] : []),
  ]);
  return [`differs  ${name}`, ...lines].join('\n');
}

/** The lines of `one` that `other` lacks. */
function lineDifferences(one: readonly string[], other: readonly string[]): string[] {
  return one.filter(line => !other.includes(line));
}

function isReordered(one: readonly string[], other: readonly string[]): boolean {
  return lineDifferences(one, other).length === 0 && lineDifferences(other, one).length === 0;
}

function describeResult({ scenarios: count, skipped, differences, accepted }: Comparison): string {
  return [
    '',
    `${count} scenarios, ${differences.length} differences (- the other server, + the gateway)`,
    ...(accepted.length === 0 ? [] : [`accepted: ${accepted.join(', ')}`]),
    ...(skipped.length === 0
      ? []
      : [`skipped, because there is no MCP server that both can reach (--mcp): ${skipped.join(', ')}`]),
  ].join('\n');
}
