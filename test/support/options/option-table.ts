import * as z from 'zod';
import { aiSdk } from '../../../adapters/ai-sdk.ts';
import { anthropic } from '../../../adapters/anthropic.ts';
import { azure } from '../../../adapters/azure.ts';
import { cerebras } from '../../../adapters/cerebras.ts';
import { deepseek } from '../../../adapters/deepseek.ts';
import { gemini } from '../../../adapters/gemini.ts';
import { groq } from '../../../adapters/groq.ts';
import { harmony } from '../../../adapters/harmony.ts';
import { mistral } from '../../../adapters/mistral.ts';
import { modelFromEnv } from '../../../adapters/model-from-env.ts';
import { ollama } from '../../../adapters/ollama.ts';
import { openaiChat } from '../../../adapters/openai-chat.ts';
import { openaiResponses } from '../../../adapters/openai-responses.ts';
import { openrouter } from '../../../adapters/openrouter.ts';
import { scripted } from '../../../adapters/scripted.ts';
import { vllm } from '../../../adapters/vllm.ts';
import { xai } from '../../../adapters/xai.ts';
import {
  citationFilter,
  content,
  createAgent,
  deleteRuns,
  fitTokens,
  keepLast,
  listAll,
  numberCitations,
  type Run,
  redactRun,
  streamAndClassify,
  tool,
  webhook,
} from '../../../agent/index.ts';
import { agentInput, agentServices, fromAdapter } from '../../../agent/machine.ts';
import { createA2aHandler } from '../../../fronts/a2a/index.ts';
import { createAgUiHandler } from '../../../fronts/ag-ui/index.ts';
import { createChatHandler, toUIMessageResponse, toUIMessages } from '../../../fronts/ai-sdk-ui/index.ts';
import { createMcpHandler } from '../../../fronts/mcp/index.ts';
import { instrument } from '../../../fronts/otel/index.ts';
import { remoteRun, useRun } from '../../../fronts/react/index.ts';
import { restateAgent, restateWorker } from '../../../hosts/restate/index.ts';
import { never } from '../../../rules/condition.ts';
import { rule } from '../../../rules/rule.ts';
import { turns } from '../../../runner/index.ts';
import {
  chatApp,
  createResponsesHandler,
  createStoryHandler,
  responsesApp,
  runsApp,
  worker,
} from '../../../server/index.ts';
import { storeChecks } from '../../../stores/conformance.ts';
import { memory } from '../../../stores/memory.ts';
import { postgres } from '../../../stores/postgres.ts';
import { sqlite } from '../../../stores/sqlite.ts';
import {
  adapterChecks,
  atRandom,
  backtest,
  checkPath,
  explore,
  exploreFrom,
  ManualHost,
  regress,
  replayFetch,
  startReplayServer,
} from '../../../testing/index.ts';
import { aiSdkTools } from '../../../tools/ai-sdk.ts';
import { mcp } from '../../../tools/mcp.ts';
import { notes } from '../../../tools/notes/index.ts';
import { skills } from '../../../tools/skills.ts';

/** Options that a test adds; the types of the functions do not have them. */
export type Given = Readonly<Record<string, unknown>>;

/** How to call a function with options added, and one of the names that it knows. */
type Row = { name: string; call(given: Given): unknown; code?: 'input-invalid'; isOnPage?: true };

const model = scripted([{ text: 'Done.' }]);
const agent = createAgent({ name: 'desk', model });
const basics = { name: 'pay', description: 'Pays.', input: z.object({}) };
const limited = { name: 'desk', model };
const invalid = { code: 'input-invalid' } as const;
/** Functions for pages throw a `TypeError` that lists the known names. */
const onPage = { isOnPage: true } as const;

const started = agent.start('Hello') as Promise<Run>;
const run = (name: string, act: (run: Run, given: Given) => unknown): Row => ({
  name,
  ...invalid,
  call: async given => await act(await started, given),
});
/** Adapters take the options of connections. */
const adapter = (open: (options: { model: string } & Given) => unknown): Row => ({
  name: 'baseURL',
  call: given => open({ model: 'm', ...given }),
});

/** What takes options, by `FUNCTION PARAMETER`. */
export const OPTION_TABLE: Readonly<Record<string, Row>> = {
  'createAgent options': { name: 'model', call: given => createAgent({ ...limited, ...given }) },
  'createAgent limits': { name: 'turns', call: limits => createAgent({ ...limited, limits }) },
  'createAgent retry': { name: 'attempts', call: retry => createAgent({ ...limited, retry }) },
  'createAgent settings': { name: 'temperature', call: settings => createAgent({ ...limited, settings }) },
  'createAgent output': {
    name: 'schema',
    call: given => createAgent({ ...limited, output: { schema: z.object({}), ...given } }),
  },
  'createAgent prices': {
    name: 'cachedInput',
    call: given => createAgent({ ...limited, prices: { m: { input: 1, output: 1, ...given } } }),
  },
  'createAgent toolChoice': {
    name: 'name',
    call: given => createAgent({ ...limited, tools: [tool(basics)], toolChoice: { name: 'pay', ...given } }),
  },
  'createAgent migrations': {
    name: 'migrate',
    call: given =>
      createAgent({
        ...limited,
        migrations: [{ from: { agent: '1' }, to: { agent: '2' }, migrate: all => all, ...given }],
      }),
  },
  'createAgent migrations from': {
    name: 'agent',
    call: given =>
      createAgent({
        ...limited,
        migrations: [{ from: { agent: '1', ...given }, to: { agent: '2' }, migrate: all => all }],
      }),
  },
  'tool options': { name: 'approval', call: given => tool({ ...basics, ...given }) },
  'tool approval': {
    name: 'expiresInMs',
    call: given => tool({ ...basics, approval: { required: true, ...given } }),
  },
  'tool approval, as its function returns it': {
    name: 'expiresInMs',
    call: given => {
      const call = { callId: 'c', runId: 'r', name: 'pay', input: {}, runContext: undefined };
      return tool({ ...basics, approval: () => ({ required: true, ...given }) }).approval(call);
    },
  },
  'tool approval, pure': {
    name: 'rule',
    call: given => tool({ ...basics, approval: { pure: true, rule: () => true, ...given } }),
  },
  'rule options': { name: 'mode', call: given => rule({ when: never('pay'), ...given }) },
  'rule then': {
    name: 'quorum',
    call: given => rule({ when: never('pay'), then: { type: 'ask', ...given } }),
  },
  'mcp options': { name: 'trustHints', call: given => mcp({ command: 'node', ...given }) },
  'mcp tools': {
    name: 'hidden',
    call: override => mcp({ command: 'node', tools: { read: override } }),
  },
  'mcp resources': { name: 'read', call: resources => mcp({ command: 'node', resources }) },
  'mcp skills': { name: 'trusted', call: skills => mcp({ command: 'node', skills }) },
  'mcp oauth': { name: 'issuer', call: oauth => mcp({ url: 'https://desk.example/mcp', oauth }) },
  'notes options': { name: 'by', call: given => notes({ by: 'user', ...given }) },
  'skills options': { name: 'trusted', call: given => skills('no-such-folder', given) },
  'aiSdkTools settings': {
    name: 'timeoutMs',
    call: settings =>
      aiSdkTools(
        { pay: { inputSchema: z.object({}), execute: () => 1 } },
        { pay: settings as { timeoutMs?: number } },
      ),
  },
  'Agent.start options': { name: 'labels', ...invalid, call: given => agent.start('Hello', given) },
  'Agent.start limits': { name: 'turns', ...invalid, call: limits => agent.start('Hello', { limits }) },
  'Agent.start launch': { name: 'module', ...invalid, call: launch => agent.start('Hello', { launch }) },
  'Agent.run options': { name: 'labels', ...invalid, call: given => agent.run('Hello', given) },
  'Agent.map options': { name: 'labels', ...invalid, call: given => agent.map(['Hello'], given) },
  'Agent.map limits': { name: 'turns', ...invalid, call: limits => agent.map(['Hello'], { limits }) },
  'Agent.open options': run('labels', (run, given) => agent.open(run.id, given)),
  'Agent.thread options': { name: 'labels', ...invalid, call: given => agent.thread('t', given) },
  'Thread.delete options': { name: 'by', ...invalid, call: given => agent.thread('t').delete(given) },
  'Agent.migrate options': run('as', (run, given) => agent.migrate(run.id, given)),
  'Agent.input options': { name: 'labels', ...invalid, call: given => agent.input('Hello', given) },
  'Agent.services options': { name: 'persist', call: given => agent.services(given) },
  'Agent.asTool options': {
    name: 'approval',
    call: given => agent.asTool({ name: 'ask', description: 'Asks.', ...given }),
  },
  'agentServices options': { name: 'model', call: given => agentServices({ model, ...given }) },
  'agentServices live': { name: 'persist', call: given => agentServices({ model }, given) },
  'agentInput options': { name: 'model', call: given => agentInput('Hello', { model, ...given }) },
  'agentInput start': { name: 'labels', ...invalid, call: given => agentInput('Hello', { model }, given) },
  'fromAdapter options': { name: 'settings', call: given => fromAdapter(model, given) },
  'Run.yield options': run('graceMs', (run, given) => run.yield(given)),
  'Run.events options': run('follow', (run, given) => run.events(given)),
  'Run.eventBatches options': run('textFirst', (run, given) => run.eventBatches(given)),
  'Run.story options': run('follow', (run, given) => run.story(given)),
  'Run.approve options': run('sticky', (run, given) => run.approve('c', given)),
  'Run.reject options': run('reason', (run, given) => run.reject('c', given)),
  'Run.answer options': run('isError', (run, given) => run.answer('c', { output: 1, ...given })),
  'Run.resolve resolution': run('force', (run, given) => run.resolve('c', { retry: true, ...given })),
  'Run.send options': run('requestId', (run, given) => run.send('Hello', given)),
  'Run.editTranscript options': run('requestId', (run, given) => run.editTranscript([], given)),
  'Run.retry options': run('force', (run, given) => run.retry('c', given)),
  'Run.editTurn options': run('text', (run, given) => run.editTurn(given)),
  'Run.editTurn calls': run('callId', (run, given) =>
    run.editTurn({ calls: [{ name: 'pay', input: {}, ...given }] }),
  ),
  'Run.editCall options': run('digest', (run, given) => run.editCall('c', { input: {}, ...given })),
  'Run.setBreakpoints options': run('requestId', (run, given) => run.setBreakpoints([], given)),
  'Run.setBreakpoints breakpoints': run('costOver', (run, given) =>
    run.setBreakpoints([{ id: 'a', ...given }]),
  ),
  'Run.setBreakpoints where': run('value', (run, given) =>
    run.setBreakpoints([{ id: 'a', where: { path: 'input', op: '=', value: 1, ...given } }]),
  ),
  'Run.setParams params': run('instructions', (run, given) => run.setParams(given)),
  'Run.setParams settings': run('temperature', (run, settings) => run.setParams({ settings })),
  'Run.setParams limits': run('turns', (run, limits) => run.setParams({ limits })),
  'Run.setParams options': run('requestId', (run, given) => run.setParams({}, given)),
  'Run.pause options': run('requestId', (run, given) => run.pause(given)),
  'Run.unpause options': run('requestId', (run, given) => run.unpause(given)),
  'Run.signedIn options': run('requestId', (run, given) => run.signedIn('crm', given)),
  'Run.step options': run('requestId', (run, given) => run.step(given)),
  'Run.cancel options': run('reason', (run, given) => run.cancel(given)),
  'Run.fork options': run('replayTools', (run, given) => run.fork({ at: 1, ...given })),
  'Run.submit commands': run('callId', (run, given) =>
    run.submit([{ type: 'approve', callId: 'c', ...given }]),
  ),
  'Store.list filter': { name: 'status', ...invalid, call: given => memory().list(given) },
  'Store.prune options': {
    name: 'status',
    ...invalid,
    call: given => memory().prune({ before: 0, ...given }),
  },
  'Store.delete options': { name: 'cascade', ...invalid, call: given => memory().delete('r', given) },
  'deleteRuns options': {
    name: 'by',
    ...invalid,
    call: given => deleteRuns(memory(), { labels: { user: '7' }, ...given }),
  },
  'Store.redact options': {
    name: 'paths',
    ...invalid,
    call: given => memory().redact('r', { paths: [''], ...given }),
  },
  'listAll filter': { name: 'status', ...invalid, call: given => listAll(memory(), given).next() },
  'redactRun options': {
    name: 'isDead',
    ...invalid,
    call: given => redactRun(memory(), 'r', { paths: ['/1/input'], ...given }),
  },
  'keepLast options': { name: 'pinned', call: given => keepLast(1, given) },
  'fitTokens options': { name: 'tokensOf', call: given => fitTokens(1, given) },
  'numberCitations options': {
    name: 'marker',
    call: given => numberCitations({ sources: () => [], ...given }),
  },
  'citationFilter options': {
    name: 'marker',
    call: given => citationFilter([], { sources: () => [], ...given }),
  },
  'content options': { name: 'data', ...invalid, call: given => content('A text.', given) },
  'webhook options': {
    name: 'secret',
    call: given => webhook({ url: 'https://example.com/hook', secret: 's', ...given }),
  },
  'streamAndClassify options': {
    name: 'onText',
    ...invalid,
    call: given => streamAndClassify(model, { transcript: 'Hello' }, given),
  },
  'streamAndClassify request': {
    name: 'toolChoice',
    ...invalid,
    call: given => streamAndClassify(model, { transcript: 'Hello', ...given }),
  },
  'Runner.setMessagesParams change': {
    name: 'instructions',
    ...invalid,
    call: async given => {
      const runner = turns(agent, 'Hello');
      for await (const _ of runner) runner.setMessagesParams(given);
    },
  },
  'turns options': { name: 'maxTurns', ...invalid, call: given => turns(agent, 'Hello', given) },
  'aiSdk options': {
    name: 'headers',
    call: given =>
      aiSdk(
        {
          specificationVersion: 'v3',
          provider: 'p',
          modelId: 'm',
          doGenerate: async () => ({}),
          doStream: async () => ({}),
        },
        given,
      ),
  },
  'anthropic options': adapter(anthropic),
  'azure options': adapter(azure),
  'cerebras options': adapter(cerebras),
  'deepseek options': adapter(deepseek),
  'gemini options': adapter(gemini),
  'groq options': adapter(groq),
  'harmony options': adapter(harmony),
  'mistral options': adapter(mistral),
  'modelFromEnv options': {
    name: 'fetch',
    call: given => modelFromEnv('openai:gpt-5', given),
  },
  'ollama options': adapter(ollama),
  'openaiChat options': adapter(openaiChat),
  'openaiResponses options': adapter(openaiResponses),
  'openrouter options': adapter(openrouter),
  'vllm options': adapter(vllm),
  'xai options': adapter(xai),
  'scripted options': { name: 'delayScale', call: given => scripted({ turns: [], ...given }) },
  'remoteRun options': { name: 'token', ...onPage, call: given => remoteRun('/runs/r', given) },
  'useRun options': { name: 'token', ...onPage, call: given => useRun('/runs/r', given) },
  'createChatHandler options': { name: 'authorize', call: given => createChatHandler(agent, given) },
  'toUIMessages options': run('onError', (run, given) => toUIMessages(run, given)),
  'toUIMessageResponse options': run('onError', (run, given) => toUIMessageResponse(run, given)),
  'createAgUiHandler options': { name: 'authorize', call: given => createAgUiHandler(agent, given) },
  'createA2aHandler options': { name: 'authorize', call: given => createA2aHandler(agent, given) },
  'createMcpHandler options': { name: 'secret', call: given => createMcpHandler(agent, given) },
  'createResponsesHandler options': { name: 'gateway', call: given => createResponsesHandler(agent, given) },
  'createStoryHandler options': { name: 'authorize', call: given => createStoryHandler(agent, given) },
  'Run.storyBatches options': run('follow', (run, given) => run.storyBatches(given)),
  'runsApp options': { name: 'authorize', call: given => runsApp({ agents: [agent], ...given }) },
  'runsApp gateway': {
    name: 'config',
    call: given => runsApp({ agents: [agent], gateway: { store: memory(), ...given } }),
  },
  'responsesApp options': { name: 'config', call: given => responsesApp({ store: memory(), ...given }) },
  'chatApp options': { name: 'config', call: given => chatApp({ store: memory(), ...given }) },
  'worker options': { name: 'slots', call: given => worker(agent, given) },
  'instrument options': { name: 'content', call: given => instrument(agent, given) },
  'restateAgent address': { name: 'ingress', call: given => restateAgent(agent, given) },
  'restateWorker address': { name: 'ingress', call: given => restateWorker([agent], given) },
  'postgres options': { name: 'patienceMs', call: given => postgres('postgres://db.invalid/a', given) },
  'sqlite options': { name: 'busyTimeoutMs', call: given => sqlite('never-opened.db', given) },
  'storeChecks tested': {
    name: 'reopen',
    ...invalid,
    call: given => storeChecks({ open: async () => memory(), ...given }),
  },
  'adapterChecks subject': {
    name: 'except',
    ...invalid,
    call: given => adapterChecks({ open: () => model, exchanges: [], ...given }),
  },
  'adapterChecks exchanges': {
    name: 'sameTurnAs',
    ...invalid,
    call: given =>
      adapterChecks({
        open: () => model,
        exchanges: [{ name: 'a', response: '', streamed: true, ...given }],
      }),
  },
  'atRandom options': {
    name: 'times',
    ...invalid,
    call: given => atRandom(new Uint8Array(1), { seed: 1, times: 1, ...given }).next(),
  },
  'replayFetch answers': { name: 'status', ...invalid, call: given => replayFetch({ chunks: [], ...given }) },
  'startReplayServer options': { name: 'path', ...invalid, call: given => startReplayServer(given) },
  'explore options': { name: 'maxStates', ...invalid, call: given => explore(agent, given) },
  'explore samples': { name: 'outputs', ...invalid, call: pay => explore(agent, { samples: { pay } }) },
  'exploreFrom options': { name: 'maxStates', ...invalid, call: given => exploreFrom(agent, [], given) },
  'backtest options': { name: 'labels', ...invalid, call: given => backtest(agent, given) },
  'regress options': { name: 'samples', ...invalid, call: given => regress(agent, given) },
  'checkPath options': {
    name: 'samples',
    ...invalid,
    call: given => checkPath(agent, { past: [agent.input('Hello')], path: [] }, given),
  },
  'ManualHost options': { name: 'reach', ...invalid, call: given => new ManualHost(given) },
};
