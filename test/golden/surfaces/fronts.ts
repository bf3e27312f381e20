import { createA2aApi } from '../../../fronts/a2a/a2a-api.ts';
import { createAgUiHandler } from '../../../fronts/ag-ui/index.ts';
import { type ChatHandlerOptions, createChatHandler } from '../../../fronts/ai-sdk-ui/index.ts';
import { createMcpApi } from '../../../fronts/mcp/mcp-api.ts';
import { remoteRun } from '../../../fronts/react/remote-run.ts';
import type { ObservedRun } from '../../../fronts/react/run-snapshot.ts';
import { ServedRuns } from '../../../fronts/served/served-runs.ts';
import type { OpenItem, RunView } from '../../../protocol/run-view.ts';
import { createRunsApp } from '../../../server/app.ts';
import type { MountedApi } from '../../../server/mounted-api.ts';
import { currentClient } from '../../support/fronts/mcp.ts';
import { readFrames, watchSnapshots } from './direct.ts';
import { recordPhases, type Surface } from './record.ts';
import { type Act, INPUT, type Scenario, Stage } from './stage.ts';

/** Surfaces with requests of their own, which begin runs and decide calls. */

const ORIGIN = 'http://127.0.0.1:4100';

/** Runs whose beginning is another than that of a request. */
const beginsElsewhere = ({ start, died, forksAt }: Scenario) =>
  start !== undefined || died !== undefined || forksAt !== undefined;

function post(path: string, body: unknown, headers: Record<string, string> = {}): Request {
  return new Request(ORIGIN + path, {
    method: 'POST',
    headers: { host: '127.0.0.1:4100', 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  });
}

function get(path: string): Request {
  return new Request(ORIGIN + path, { headers: { host: '127.0.0.1:4100' } });
}

/** An open call that an act decides; none if the act is the engine's command. */
async function decided(stage: Stage, act: Act): Promise<OpenItem | undefined> {
  return act.type === 'run' ? undefined : await stage.open(act);
}

type UIPart = { type: string; toolCallId?: string; [name: string]: unknown };
type UIMessage = { id: string; role: string; parts: UIPart[] };

/** The messages as a page posts them after an act: its call's part is answered. */
function answered(messages: readonly UIMessage[], call: OpenItem, act: Act): UIMessage[] {
  return messages.map(message => ({
    ...message,
    parts: message.parts.map(part => {
      if (part.toolCallId?.endsWith(call.callId) !== true) return part;
      const approval = part.approval as { id: string } | undefined;
      if (act.type === 'approve')
        return { ...part, state: 'approval-responded', approval: { ...approval, approved: true } };
      if (act.type === 'reject') {
        const { reason } = act;
        return { ...part, state: 'approval-responded', approval: { ...approval, approved: false, reason } };
      }
      if (act.type !== 'answer') return part;
      return act.isError
        ? { ...part, state: 'output-error', errorText: String(act.output) }
        : { ...part, state: 'output-available', output: act.output };
    }),
  }));
}

const chat: Surface = {
  name: 'ai-sdk-chat',
  leavesOut: beginsElsewhere,
  async record(scenario) {
    const stage = await Stage.open(scenario);
    const options: ChatHandlerOptions = { log: line => stage.log(line) };
    const handler = createChatHandler(stage.agent, options);
    const read = async (request: Request) => {
      const response = await handler(request);
      const head = response.status === 200 ? '' : `${response.status} `;
      return head + (await readFrames(response));
    };
    const resume = () => read(get('/api/chat/chat-1/stream'));
    const question = { id: 'question', role: 'user', parts: [{ type: 'text', text: INPUT }] };
    const recording = await recordPhases(
      stage,
      async (act, recording) => {
        if (act === null)
          return recording.add(
            await read(post('/api/chat', { id: 'chat-1', messages: [question], trigger: 'submit-message' })),
          );
        const call = await decided(stage, act);
        // The page cannot say these, so another client does.
        const isOthers =
          act.type === 'resolve' || act.type === 'run' || (act.type === 'approve' && act.input);
        if (call === undefined || isOthers) {
          await stage.act(act);
          return recording.add(await resume());
        }
        const messages = (await (await handler(get('/api/chat/chat-1'))).json()) as UIMessage[];
        const body = { id: 'chat-1', messages: answered(messages, call, act), trigger: 'submit-message' };
        recording.add(await read(post('/api/chat', { ...body, messageId: messages.at(-1)?.id })));
      },
      resume,
    );
    recording.title('the messages');
    const messages = (await (await stage.until(handler(get('/api/chat/chat-1')))).json()) as UIMessage[];
    for (const { parts, ...message } of messages) recording.json([message, ...parts]);
    return await recording.text(stage);
  },
};

/** What AG-UI's clients say to an interrupt. */
function payloadOf(act: Exclude<Act, { type: 'run' }>): unknown {
  switch (act.type) {
    case 'approve':
      return { approved: true, ...(act.input && { editedArgs: act.input }) };
    case 'reject':
      return { approved: false, reason: act.reason };
    case 'answer':
      return { approved: false, output: act.output, isError: act.isError };
    case 'resolve':
      return act.as;
  }
}

const agUi: Surface = {
  name: 'ag-ui',
  async record(scenario) {
    const stage = await Stage.open(scenario, { thread: 'thread-1' });
    if (beginsElsewhere(scenario)) await stage.begin({ thread: 'thread-1' });
    const handler = createAgUiHandler(stage.agent, { log: line => stage.log(line) });
    let requests = 0;
    const ask = async (more: object, from = handler) => {
      requests += 1;
      const question = { id: 'question', role: 'user', content: INPUT };
      const messages = beginsElsewhere(scenario) ? [] : [question];
      const body = { threadId: 'thread-1', runId: `request-${requests}`, state: {}, messages, tools: [] };
      return await readFrames(await from(post('/', { ...body, context: [], forwardedProps: {}, ...more })));
    };
    const recording = await recordPhases(
      stage,
      async (act, recording) => {
        const call = act && (await decided(stage, act));
        if (act === null) return recording.add(await ask({}));
        if (!call || act.type === 'run') {
          await stage.act(act);
          return recording.add(await ask({}));
        }
        const interruptId = [call.kind, call.runId, call.callId].map(encodeURIComponent).join(':');
        const resume = [{ interruptId, status: 'resolved', payload: payloadOf(act) }];
        recording.add(await ask({ resume }));
      },
      () => ask({ messages: [] }),
    );
    recording.title('a later request of the thread, to another process');
    recording.add(await stage.until(ask({ messages: [] }, createAgUiHandler(stage.agent))));
    return await recording.text(stage);
  },
};

/** The runs API with another API, over a scenario's agent. */
function serve(stage: Stage, api: (runs: ServedRuns) => MountedApi[]) {
  const { store, host, agent } = stage;
  const log = (line: string) => stage.log(line);
  const agents = new Map([[agent.name, agent]]);
  const runs = new ServedRuns({ store, agents, host, log });
  const mounted = api(runs);
  const app = createRunsApp({ store, agents, mounted, host, log });
  return { send: async (request: Request) => await app.request(request), close: () => app.close() };
}

/** What A2A's clients say about a call. */
function dataOf(act: Exclude<Act, { type: 'run' }>): object {
  switch (act.type) {
    case 'approve':
      return { approved: true, input: act.input };
    case 'reject':
      return { approved: false, reason: act.reason };
    case 'answer':
      return { output: act.output, isError: act.isError };
    case 'resolve':
      return act.as;
  }
}

const a2a: Surface = {
  name: 'a2a',
  async record(scenario) {
    const stage = await Stage.open(scenario);
    const log = (line: string) => stage.log(line);
    const { send, close } = serve(stage, runs => [createA2aApi({ runs, hasToken: false, log })]);
    const read = async (request: Request) => await readFrames(await send(request));
    const say = (message: object) =>
      read(
        post('/a2a/desk/message:stream', {
          message: { messageId: 'message', role: 'ROLE_USER', ...message },
        }),
      );
    const path = async (rest: string) =>
      `/a2a/desk/tasks/${encodeURIComponent((await stage.opened()).id)}${rest}`;
    const subscribe = async () => await read(get(await path(':subscribe')));
    if (beginsElsewhere(scenario)) await stage.begin();
    const recording = await recordPhases(
      stage,
      async (act, recording) => {
        const call = act && (await decided(stage, act));
        if (act === null && !beginsElsewhere(scenario))
          recording.add(await say({ parts: [{ text: INPUT }] }));
        else if (act !== null && act.type !== 'run' && call) {
          const data = { callId: await keyOf(stage, call), ...dataOf(act) };
          recording.add(await say({ taskId: (await stage.opened()).id, parts: [{ data }] }));
        } else {
          if (act !== null) await stage.act(act);
          await (await stage.opened()).settled();
        }
        recording.title('the task');
        recording.add(await read(get(await path(''))));
      },
      subscribe,
    );
    close();
    return await recording.text(stage);
  },
};

/** How A2A names an open call. */
async function keyOf(stage: Stage, call: OpenItem): Promise<string> {
  return call.runId === (await stage.opened()).id ? call.callId : `${call.runId}/${call.callId}`;
}

type Reply = {
  requestState?: string;
  inputRequests?: Record<string, unknown>;
  content?: unknown[];
};

/** What a person answers to the form about a call. */
function formOf(act: Exclude<Act, { type: 'run' }>): object {
  switch (act.type) {
    case 'approve':
      return { action: 'accept', content: act.input ? { input: JSON.stringify(act.input) } : {} };
    case 'reject':
      return { action: 'decline' };
    case 'answer':
      return act.isError
        ? { action: 'decline' }
        : { action: 'accept', content: { output: JSON.stringify(act.output) } };
    case 'resolve': {
      const { as } = act;
      if ('retry' in as) return { action: 'accept', content: { outcome: 'retry' } };
      return 'failed' in as
        ? { action: 'accept', content: { outcome: 'failed', output: as.failed } }
        : { action: 'accept', content: { outcome: 'happened', output: as.output } };
    }
  }
}

/** The results of a tool, and what a waiting run asks: for clients of the current revision. */
const mcp: Surface = {
  name: 'mcp',
  leavesOut: beginsElsewhere,
  async record(scenario) {
    const stage = await Stage.open(scenario);
    stage.isRealTime = true;
    const log = (line: string) => stage.log(line);
    const key = () => new Uint8Array(32).fill(7);
    const { send, close } = serve(stage, runs => [createMcpApi({ runs, key, version: '1.0.0', log })]);
    const fetchHere: typeof fetch = async (url, init) => {
      const headers = new Headers(init?.headers);
      headers.set('host', '127.0.0.1:4100');
      return await send(new Request(String(url), { ...init, headers }));
    };
    const client = await currentClient({ url: new URL(`${ORIGIN}/mcp`), send: fetchHere });
    let last: Reply = {};
    const recording = await recordPhases(stage, async (act, recording) => {
      const call = act && act.type !== 'run' ? await stage.open(act) : undefined;
      if (act !== null && (call === undefined || act.type === 'run')) {
        await stage.act(act);
        await (await stage.opened()).settled();
      }
      if (act !== null && last.requestState === undefined) {
        const settled = await (await stage.opened()).settled();
        return recording.json({ 'no request asks': settled.status });
      }
      const answers =
        act === null || act.type === 'run' || call === undefined
          ? {}
          : { [await keyOf(stage, call)]: formOf(act) };
      const again = act && { requestState: last.requestState, inputResponses: answers };
      const params = { name: 'desk', arguments: { input: INPUT }, ...again };
      const onprogress = (progress: unknown) => recording.json({ progress });
      const reply = await client
        .callTool(params as never, { allowInputRequired: true, onprogress } as never)
        .catch((error: unknown) => ({ failed: String(error) }));
      last = reply as Reply;
      recording.json({ ...last, ...(last.requestState && { requestState: 'sealed' }) });
    });
    await client.close();
    close();
    return await recording.text(stage);
  },
};

/** Meanwhile, timers of the process are those of the manual clock, and waits are not random. */
async function withTimersOf<Value>(stage: Stage, work: () => Promise<Value>): Promise<Value> {
  const { setTimeout, clearTimeout } = globalThis;
  const { random } = Math;
  const cancels = new Map<object, () => void>();
  Math.random = () => 0.5;
  const set = (fire: () => void, ms = 0) => {
    const timer = { unref: () => timer, ref: () => timer };
    cancels.set(timer, stage.host.setTimer(ms, fire));
    return timer;
  };
  Object.assign(globalThis, { setTimeout: set, clearTimeout: (timer: object) => cancels.get(timer)?.() });
  try {
    return await work();
  } finally {
    Object.assign(globalThis, { setTimeout, clearTimeout });
    Math.random = random;
  }
}

async function decide(observed: ObservedRun<RunView>, call: OpenItem, act: Exclude<Act, { type: 'run' }>) {
  const by = 'ann';
  switch (act.type) {
    case 'approve':
      return await observed.approve(call, { by, ...(act.input && { input: act.input }) });
    case 'reject':
      return await observed.reject(call, { by, ...(act.reason && { reason: act.reason }) });
    case 'answer':
      return await observed.answer(call, { by, output: act.output, ...(act.isError && { isError: true }) });
    case 'resolve':
      return await observed.resolve(call, { by, ...act.as });
  }
}

const reactRemote: Surface = {
  name: 'react-remote',
  leavesOut: beginsElsewhere,
  async record(scenario) {
    const stage = await Stage.open(scenario);
    const { send, close } = serve(stage, () => []);
    const fetchHere: typeof fetch = async (url, init) => {
      const request = new Request(new URL(String(url), ORIGIN), init);
      request.headers.set('host', '127.0.0.1:4100');
      return await send(request);
    };
    return await withTimersOf(stage, async () => {
      const { runId } = (await (await send(post('/runs', { input: INPUT }))).json()) as {
        runId: string;
      };
      const observe = () => remoteRun(`/runs/${runId}`, { fetch: fetchHere });
      const watch = async (act: Act | null) => {
        const observed = observe();
        const call = act && (await decided(stage, act));
        return await watchSnapshots(observed, async () => {
          if (act?.type === 'run') await stage.act(act);
          else if (act && call) await decide(observed, call, act);
          await (await stage.opened()).settled();
          await stage.host.advance(100);
        });
      };
      const recording = await recordPhases(
        stage,
        async (act, recording) => recording.add(await watch(act)),
        () => watch(null),
      );
      close();
      return await recording.text(stage);
    });
  },
};

export const FRONTS: readonly Surface[] = [chat, agUi, a2a, mcp, reactRemote];
