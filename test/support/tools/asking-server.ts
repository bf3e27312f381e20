/**
 * An MCP server of revision 2026-07-28, made with the official SDK, whose tools ask people and begin tasks. All it knows is
 * in a folder, so that a restarted one is the same server: `ledger`, what was done, a line each, and the tasks.
 * As a program it serves over stdio; its argument is the folder.
 */
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { acceptedContent, inputRequired, McpServer, ProtocolError } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import * as z from 'zod';

const TASKS = 'io.modelcontextprotocol/tasks';
const INVALID_PARAMS = -32602;

/** In each state of a call. It has to come back as it is. */
const MARK = ' "ä€\u{1F511}\\n\t ';

const text = (value: string) => ({ content: [{ type: 'text' as const, text: value }] });

const state = z.strictObject({ mark: z.literal(MARK), amount: z.number(), account: z.string().optional() });

function readState(given: unknown): z.infer<typeof state> | undefined {
  if (given === undefined) return undefined;
  const read = state.safeParse(JSON.parse(String(given)));
  if (read.success) return read.data;
  throw new ProtocolError(INVALID_PARAMS, 'this state is not from here');
}

const form = (message: string, properties: Record<string, { type: 'string' | 'boolean'; enum?: string[] }>) =>
  inputRequired.elicit({
    message,
    requestedSchema: { type: 'object', properties: properties as never, required: Object.keys(properties) },
  });

type Task = { topic: string; polls: number; answers: Record<string, unknown>; cancelled: boolean };

export class AskingWorld {
  readonly folder: string;

  constructor(folder: string) {
    this.folder = folder;
    mkdirSync(folder, { recursive: true });
  }

  get ledger(): string[] {
    const file = join(this.folder, 'ledger');
    return existsSync(file) ? readFileSync(file, 'utf8').split('\n').filter(Boolean) : [];
  }

  note(line: string): void {
    appendFileSync(join(this.folder, 'ledger'), `${line}\n`);
  }

  /** `undefined` for one that was never begun, or lost. */
  readTask(taskId: string): Task | undefined {
    const file = join(this.folder, `${taskId}.task`);
    return existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : undefined;
  }

  get tasks(): (Task & { taskId: string })[] {
    const files = readdirSync(this.folder).filter(name => name.endsWith('.task'));
    return files.flatMap(name => {
      const taskId = name.slice(0, -'.task'.length);
      const task = this.readTask(taskId);
      return task === undefined ? [] : [{ ...task, taskId }];
    });
  }

  writeTask(taskId: string, task: Task): void {
    const file = join(this.folder, `${taskId}.task`);
    writeFileSync(`${file}.${process.pid}`, JSON.stringify(task));
    renameSync(`${file}.${process.pid}`, file);
  }
}

/** Adds the tools. `halt`: called by the tool `halt` when it has answers and has begun; its result never comes. */
export function addAsking(server: McpServer, world: AskingWorld, halt: () => unknown = () => {}): void {
  const annotations = { idempotentHint: true };
  server.registerTool('pay', { inputSchema: z.object({ amount: z.number() }) }, ({ amount }, { mcpReq }) => {
    const known = readState(mcpReq.requestState());
    const answers = mcpReq.inputResponses;
    world.note(`asked ${known === undefined ? 'first' : JSON.stringify(answers)}`);
    const asked = (question: string, request: ReturnType<typeof form>, account?: string) =>
      inputRequired({
        inputRequests: { [question]: request },
        requestState: JSON.stringify({ mark: MARK, amount, account }),
      });
    if (known === undefined)
      return asked(
        'account',
        form('Which account?', { account: { type: 'string', enum: ['main', 'spare'] } }),
      );
    if (known.amount !== amount) throw new ProtocolError(INVALID_PARAMS, 'this state is of another call');
    const account = acceptedContent(answers, 'account', z.object({ account: z.string() }))?.account;
    if (known.account === undefined) {
      if (account === undefined) return text('not paid: no account');
      return asked('is it right?', form(`Pay ${amount}?`, { sure: { type: 'boolean' } }), account);
    }
    const sure = acceptedContent(answers, 'is it right?', z.object({ sure: z.boolean() }))?.sure;
    if (sure !== true) return text('not paid: not sure');
    world.note(`paid ${amount} from ${known.account}`);
    return text(`paid ${amount} from ${known.account}`);
  });
  for (const [name, hints] of [
    ['halt', {}],
    ['halt_again', annotations],
  ] as const)
    server.registerTool(name, { annotations: hints }, async ({ mcpReq: { inputResponses } }) => {
      if (inputResponses === undefined)
        return inputRequired({ inputRequests: { go: form('Go?', { go: { type: 'boolean' } }) } });
      const times = world.ledger.filter(line => line === `began ${name}`).length;
      world.note(`began ${name}`);
      if (times > 0) return text(`did ${name}`);
      await halt();
      return await new Promise<never>(() => {});
    });
  server.registerTool('visit', {}, ({ mcpReq }) => {
    if (mcpReq.inputResponses === undefined)
      return inputRequired({
        inputRequests: {
          key: inputRequired.elicitUrl({ message: 'Enter your key.', url: 'https://example.com/key?id=1' }),
        },
        requestState: 'id=1',
      });
    return text(JSON.stringify([mcpReq.inputResponses, mcpReq.requestState()]));
  });
  server.registerTool('nag', {}, ({ mcpReq }) => {
    const asked = Number(mcpReq.requestState() ?? 0) + 1;
    world.note(`nag ${asked - 1}`);
    return inputRequired({
      inputRequests: { ok: form('Ok?', { ok: { type: 'boolean' } }) },
      requestState: String(asked),
    });
  });
  server.registerTool('stall', {}, ({ mcpReq }) => {
    const asked = Number(mcpReq.requestState() ?? 0) + 1;
    return asked > 3 ? text(`done after ${asked}`) : inputRequired({ requestState: String(asked) });
  });
  server.registerTool('sample', {}, () =>
    inputRequired({
      inputRequests: {
        capital: inputRequired.createMessage({
          messages: [{ role: 'user', content: { type: 'text', text: 'The capital?' } }],
          maxTokens: 10,
        }),
      },
    }),
  );
  server.registerResource('vault', 'vault://1', {}, ({ href }, { mcpReq }) => {
    const pin = acceptedContent(mcpReq.inputResponses, 'pin', z.object({ pin: z.string() }))?.pin;
    if (pin === undefined)
      return inputRequired({ inputRequests: { pin: form('The PIN?', { pin: { type: 'string' } }) } });
    return { contents: [{ uri: href, text: `opened with ${pin}` }] };
  });
  addTasks(server, world);
}

function addTasks(server: McpServer, world: AskingWorld): void {
  server.server.registerCapabilities({ extensions: { [TASKS]: {} } });
  const times = { createdAt: '2026-11-29T00:00:00Z', lastUpdatedAt: '2026-11-29T00:00:00Z' };
  const describe = (taskId: string) => ({ taskId, ...times, ttlMs: 3_600_000, pollIntervalMs: 100 });
  for (const [name, annotations] of [
    ['research', {}],
    ['research_again', { idempotentHint: true }],
  ] as const)
    server.registerTool(name, { annotations, inputSchema: z.object({ topic: z.string() }) }, ({ topic }) => {
      const taskId = `task-${crypto.randomUUID()}`;
      world.writeTask(taskId, { topic, polls: 0, answers: {}, cancelled: false });
      world.note(`began ${topic}`);
      return { ...describe(taskId), resultType: 'task', status: 'working', content: [] };
    });
  const schemas = { params: z.looseObject({ taskId: z.string() }), result: z.looseObject({}) };
  const find = (taskId: string) => {
    const task = world.readTask(taskId);
    if (task === undefined)
      throw new ProtocolError(INVALID_PARAMS, 'Failed to retrieve task: Task not found');
    return task;
  };
  server.server.setRequestHandler('tasks/get', schemas, ({ taskId }) => {
    const before = find(taskId);
    const task = { ...before, polls: before.polls + 1 };
    world.writeTask(taskId, task);
    return { ...describe(taskId), ...stateOf(task) };
  });
  server.server.setRequestHandler('tasks/update', schemas, ({ taskId }, { mcpReq }) => {
    const task = find(taskId);
    world.note(`update ${JSON.stringify(mcpReq.inputResponses)}`);
    world.writeTask(taskId, { ...task, answers: { ...task.answers, ...mcpReq.inputResponses }, polls: 0 });
    return {};
  });
  server.server.setRequestHandler('tasks/cancel', schemas, ({ taskId }) => {
    world.writeTask(taskId, { ...find(taskId), cancelled: true });
    world.note('cancel');
    return {};
  });
}

/** What a task says of itself when it is asked for the `polls`-th time since it began, or since its last answer. */
function stateOf({ topic, polls, answers, cancelled }: Task): Record<string, unknown> {
  const done = { status: 'completed', result: text(`${topic}: ${JSON.stringify(answers)}`) };
  if (cancelled) return { status: 'cancelled' };
  switch (topic) {
    case 'refused':
      return { status: 'failed', error: { code: -32603, message: 'rate limit' } };
    case 'withdrawn':
      return { status: 'cancelled' };
    case 'unfinished':
      return { status: 'completed', result: { content: 'no list' } };
    case 'forever':
      return { status: 'working', statusMessage: `look ${polls}` };
    case 'who':
    case 'two people':
    case 'capital': {
      const [first, second] = ['who', 'who else'];
      const capital = { method: 'sampling/createMessage', params: {} };
      const ask = (key: string) => ({
        [key]: topic === 'capital' ? capital : form(`${key}?`, { name: { type: 'string' } }),
      });
      if (answers[first] === undefined) return { status: 'input_required', inputRequests: ask(first) };
      // An answer shows a little later.
      if (polls === 1) return { status: 'input_required', inputRequests: ask(first) };
      if (topic === 'who' || answers[second] !== undefined) return done;
      return { status: 'input_required', inputRequests: { ...ask(first), ...ask(second) } };
    }
    default:
      return polls < 3 ? { status: 'working', statusMessage: `${polls} of 3` } : done;
  }
}

if (process.argv[1]?.endsWith('asking-server.ts')) {
  const world = new AskingWorld(process.argv[2] ?? '');
  serveStdio(() => {
    const server = new McpServer({ name: 'asking', version: '1.0.0' });
    addAsking(server, world);
    return server;
  });
}
