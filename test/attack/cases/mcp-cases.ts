import { fileURLToPath } from 'node:url';
import type { ScriptedTurn } from '../../../adapters/scripted/scripted-turns.ts';
import { EngineError, messageOf } from '../../../protocol/error.ts';
import type { JsonObject } from '../../../protocol/json.ts';
import { type McpOptions, mcp } from '../../../tools/mcp.ts';
import { warpTime, withinReal } from '../chaos/warp-time.ts';
import type { AttackCase } from './attack-case.ts';
import { runToEnd, WatchedModel } from './attacked-run.ts';
import { type Finding, found } from './finding.ts';
import { type HostileMode, LONG_TEXTS, serveHostileMcp } from './hostile-mcp.ts';
import { nestedArguments } from './nested-json.ts';

const SERVER = fileURLToPath(new URL('hostile-mcp.ts', import.meta.url));
const SECRET = 'Bearer attack-0123456789-secret';

/** Limits on a result in a request, and on the state of a run, in characters: a MiB, encoded as JSON, with its surroundings. */
const LARGEST_SHOWN = 2.5 * 1024 * 1024;
const LARGEST_STATE = 4 * 1024 * 1024;

/** The factor at which clocks run faster; two hours take these real ms. */
const WARP = 500;
const LONGEST_WARPED_MS = 15_000;

function hostile(mode: HostileMode, more: Partial<McpOptions> = {}) {
  return mcp({ command: process.execPath, args: [SERVER, mode], ...more } as McpOptions);
}

function calling(...inputs: (JsonObject | string)[]): ScriptedTurn[] {
  return [{ toolCalls: inputs.map(input => ({ name: 'act', arguments: input })) }, { text: 'done' }];
}

/** Runs against a server in this mode; a run that cannot start must fail with an error code. */
async function attack(mode: HostileMode, turns: readonly ScriptedTurn[]): Promise<Finding[]> {
  try {
    return (await runToEnd(new WatchedModel(turns), [hostile(mode)])).findings;
  } catch (error) {
    return error instanceof EngineError ? [] : [found('broken', `rejected unnamed: ${messageOf(error)}`)];
  }
}

async function attackWithProgress(): Promise<Finding[]> {
  const tools = hostile('endless-progress');
  await tools.connect();
  warpTime(WARP);
  const run = runToEnd(new WatchedModel(calling({})), [tools]).then(({ findings }) => findings);
  return await withinReal(LONGEST_WARPED_MS, run, 'a call with endless progress never ends');
}

async function attackWithHugeResult(): Promise<Finding[]> {
  const server = await serveHostileMcp('huge-result');
  const model = new WatchedModel(calling({}));
  const { findings, stateLength } = await runToEnd(model, [mcp({ url: server.url })]);
  await server.close();
  return [
    ...findings,
    ...(model.longest > LARGEST_SHOWN ? [found('broken', `a request had ${model.longest} characters`)] : []),
    ...(stateLength > LARGEST_STATE ? [found('broken', `the state has ${stateLength} characters`)] : []),
  ];
}

async function attackWithRedirect(): Promise<Finding[]> {
  const other = await serveHostileMcp('sound');
  const server = await serveHostileMcp('sound', other.url);
  const tools = mcp({ url: server.url, headers: { authorization: SECRET, 'x-attack-key': SECRET } });
  await runToEnd(new WatchedModel(calling({})), [tools]).catch(() => {});
  await Promise.all([server.close(), other.close()]);
  return other.seen
    .filter(request => request.includes('attack-0123456789'))
    .map(request => found('leaked', `another origin got ${request.slice(0, 200)}`));
}

/** Each list defines the tool otherwise, so no call may begin. */
async function attackWithTurncoat(): Promise<Finding[]> {
  const server = await serveHostileMcp('turncoat');
  const { findings } = await runToEnd(new WatchedModel(calling({}, {})), [mcp({ url: server.url })]);
  await server.close();
  const began = server.seen.filter(request => request.includes('"tools/call"'));
  return [...findings, ...began.map(() => found('broken', 'a call began whose tool had changed'))];
}

/** A backtracking pattern over a long text. */
async function maskCarelessly(): Promise<Finding[]> {
  const text = 'a'.repeat(30_000);
  while (process.cpuUsage().user < 6_000_000) text.replace(/([a-z][a-z0-9+.-]*:\/\/)[^\s/@]+@/gi, '***@');
  return [];
}

const PIECES = LONG_TEXTS.map(piece => ({ piece }));

export const mcpCases: readonly AttackCase[] = [
  {
    name: 'errors of 1,000,000 characters',
    short: true,
    run: () => attack('long-error', calling(...PIECES)),
  },
  { name: 'failures of 1,000,000 characters', run: () => attack('long-failure', calling(...PIECES)) },
  { name: 'a result nested 20,000 deep', run: () => attack('nested-result', calling({})) },
  { name: 'a schema nested 5,000 deep', run: () => attack('nested-schema', calling({})) },
  {
    name: 'a schema that is itself',
    short: true,
    run: () => attack('self-reference', calling({}, nestedArguments(5_000))),
  },
  {
    name: 'a pattern that backtracks',
    short: true,
    run: () => attack('slow-pattern', calling({ text: `${'a'.repeat(60)}!` })),
  },
  { name: 'endless pages of tools', run: () => attack('endless-pages', calling({})) },
  { name: 'two tools of one name', run: () => attack('twins', calling({})) },
  {
    name: 'tools named after the prototype',
    run: () =>
      attack('prototype', [
        { toolCalls: ['__proto__', 'constructor', 'toString', 'valueOf'].map(name => ({ name })) },
        { text: 'done' },
      ]),
  },
  { name: 'a result of 100 MB', run: attackWithHugeResult },
  { name: 'a server that dies in a call', short: true, run: () => attack('dies', calling({})) },
  { name: 'redirects with credentials', short: true, run: attackWithRedirect },
  { name: 'a tool that is never the same', short: true, run: attackWithTurncoat },
  { name: 'a question of 1,000,000 characters', run: () => attack('asks', calling({}, { piece: '://' })) },
  { name: 'progress forever', run: attackWithProgress },
  { name: 'a careless mask', control: true, short: true, run: maskCarelessly },
];
