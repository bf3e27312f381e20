import { describe, expect, test } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import type { AgentOptions } from '../../../agent/agent-options.ts';
import { MAX_CRASHES } from '../../../engine/driver/detect-crash-loop.ts';
import { loadRun } from '../../../engine/journal/load-run.ts';
import { EngineError } from '../../../protocol/error.ts';
import type { Store } from '../../../protocol/store.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { calls, countEvents, eventsOf, makeTool } from '../../support/engine/agents.ts';
import { answerWith } from '../../support/engine/models.ts';

const RUN = 'run_1';
const START = Date.UTC(2026, 0, 1);
/** Longer than a lease, so that the previous owner counts as gone. */
const SILENCE_MS = 60_000;

/** Processes that drive one run, one after another; each hangs and never resumes. */
class Processes {
  readonly store: Store = memory();
  readonly #options: Omit<AgentOptions, 'store' | 'host' | 'name'>;
  #count = 0;

  constructor(options: Omit<AgentOptions, 'store' | 'host' | 'name'>) {
    this.#options = options;
  }

  next(options: Partial<AgentOptions> = {}) {
    this.#count += 1;
    const host = new ManualHost({ now: START + this.#count * SILENCE_MS, name: `${this.#count}_` });
    const agent = createAgent({ name: 'a', ...this.#options, ...options, store: this.store, host });
    return { host, agent };
  }

  /** Starts or takes over the run in a new process, which hangs once nothing can progress. */
  async die(): Promise<void> {
    const { host, agent } = this.next();
    if (this.#count === 1) await agent.start('go', { runId: RUN });
    else void (await agent.open(RUN)).settled().catch(() => {});
    await host.idle();
  }

  async settle(options: Partial<AgentOptions> = {}) {
    const { host, agent } = this.next(options);
    const run = await agent.open(RUN);
    return { host, run, settled: await host.settle(run.settled()) };
  }
}

const never = () => new Promise<never>(() => {});
const hangingTool = makeTool('hang', { sideEffect: 'none', run: never });
const callHang = () => scripted([calls('hang'), { text: 'done' }]);

async function dieTimes(processes: Processes, times: number): Promise<void> {
  for (let died = 0; died < times; died += 1) await processes.die();
}

describe('a run whose processes die one after another', () => {
  test('is paused with the reason after too many deaths in a tool', async () => {
    const processes = new Processes({ model: callHang(), tools: [hangingTool] });
    await dieTimes(processes, MAX_CRASHES);
    const started = await countEvents(processes.store, RUN, 'tool.started');
    expect(started).toBe(MAX_CRASHES);
    const { settled } = await processes.settle();
    expect(settled).toMatchObject({ status: 'waiting', paused: true, approvals: [], doubts: [] });
    expect(settled).toMatchObject({
      open: [{ kind: 'pause', reason: expect.stringMatching(/^5 processes in a row died .*hang/) }],
    });
    expect(await countEvents(processes.store, RUN, 'tool.started')).toBe(started);
    expect((await eventsOf(processes.store, RUN)).at(-1)?.type).toBe('run.quarantined');
  });

  test('is driven on after fewer deaths', async () => {
    const processes = new Processes({ model: callHang(), tools: [hangingTool] });
    await dieTimes(processes, MAX_CRASHES - 1);
    const { settled } = await processes.settle({ tools: [makeTool('hang', { sideEffect: 'none' })] });
    expect(settled).toMatchObject({ status: 'finished', text: 'done' });
  });

  test('retries with the same key once it is unpaused, and finishes if it can', async () => {
    const processes = new Processes({ model: callHang(), tools: [hangingTool] });
    await dieTimes(processes, MAX_CRASHES);
    const keys: string[] = [];
    const tools = [
      makeTool('hang', { sideEffect: 'none', run: (_input, { key }) => `run with ${keys.push(key)}` }),
    ];
    const { host, run } = await processes.settle({ tools });
    expect(keys).toEqual([]);
    expect(await run.unpause()).toEqual({ accepted: true });
    expect(await host.settle(run.settled())).toMatchObject({ status: 'finished', text: 'done' });
    expect(keys).toEqual([`${RUN}:1:call_0_0`]);
  });

  test('is paused again when its processes keep dying', async () => {
    const processes = new Processes({ model: callHang(), tools: [hangingTool] });
    await dieTimes(processes, MAX_CRASHES);
    const { host, run } = await processes.settle();
    await run.unpause();
    await host.idle();
    await dieTimes(processes, MAX_CRASHES);
    const { settled } = await processes.settle();
    expect(settled).toMatchObject({
      status: 'waiting',
      open: [{ kind: 'pause', reason: expect.any(String) }],
    });
    expect(await countEvents(processes.store, RUN, 'run.quarantined')).toBe(2);
  });

  test('is paused after deaths in the model call, and then repeats the same attempt once', async () => {
    const processes = new Processes({ model: answerWith(never), retry: { attempts: 1 } });
    await dieTimes(processes, MAX_CRASHES);
    const { run, settled } = await processes.settle();
    expect(settled).toMatchObject({ status: 'waiting', paused: true, turns: 0 });
    const { host, agent } = processes.next({ model: scripted([{ text: 'done' }]) });
    const reopened = await agent.open(run.id);
    await reopened.unpause();
    expect(await host.settle(reopened.settled())).toMatchObject({ status: 'finished', text: 'done' });
    const { context } = (await loadRun(processes.store, RUN)).state;
    expect(context.turn).toMatchObject({ number: 1, attempt: 1, model: 0 });
  });

  test('repeats the final-answer call with tools off', async () => {
    let asked = 0;
    const model = answerWith(() => {
      asked += 1;
      return asked === 1 ? { text: 'draft' } : never();
    });
    const processes = new Processes({ model, finalAnswer: 'separate' });
    await dieTimes(processes, MAX_CRASHES);
    await processes.settle();
    const { host, agent } = processes.next({
      model: answerWith(({ toolChoice }) => ({ text: `choice ${toolChoice}` })),
    });
    const run = await agent.open(RUN);
    await run.unpause();
    expect(await host.settle(run.settled())).toMatchObject({ status: 'finished', text: 'choice none' });
  });

  test('is paused after deaths in the check of the answer, which runs once it is unpaused', async () => {
    const processes = new Processes({ model: scripted([{ text: 'done' }]), guardrails: { answer: never } });
    await dieTimes(processes, MAX_CRASHES);
    const { host, run, settled } = await processes.settle({
      guardrails: { answer: text => ({ type: 'replace', value: `${text}, looked at` }) },
    });
    expect(settled).toMatchObject({
      status: 'waiting',
      open: [{ kind: 'pause', reason: expect.any(String) }],
    });
    await run.unpause();
    expect(await host.settle(run.settled())).toMatchObject({ status: 'finished', text: 'done, looked at' });
  });

  test('keeps the batch: settled calls stay, gated calls wait, and a transcript edit is refused', async () => {
    const tools = [
      hangingTool,
      makeTool('pay', { approval: true }),
      makeTool('look', { sideEffect: 'none', run: () => 'seen' }),
    ];
    const processes = new Processes({
      model: scripted([calls('hang', 'pay', 'look'), { text: 'done' }]),
      tools,
    });
    await dieTimes(processes, MAX_CRASHES);
    const { host, run, settled } = await processes.settle({
      tools: [makeTool('hang', { sideEffect: 'none', run: () => 'hung' }), ...tools.slice(1)],
    });
    expect(settled).toMatchObject({ paused: true, approvals: [{ name: 'pay' }] });
    expect(await run.editTranscript([])).toMatchObject({ accepted: false });
    await run.approve('call_0_1');
    await run.unpause();
    const ended = await host.settle(run.settled());
    expect(ended).toMatchObject({
      status: 'finished',
      results: [{ output: 'hung' }, { output: 'pay ran' }, { output: 'seen' }],
    });
    expect(await countEvents(processes.store, RUN, 'turn.completed')).toBe(2);
  });

  test('is not paused when one more call settles in each process', async () => {
    const slow = Array.from({ length: 8 }, (_, index) => `slow${index}`);
    let process = 0;
    const tools = slow.map((name, index) =>
      makeTool(name, { sideEffect: 'none', run: () => (index < process ? name : never()) }),
    );
    const processes = new Processes({
      model: scripted([calls(...slow), { text: 'done' }]),
      tools,
      toolConcurrency: 1,
    });
    for (process = 1; process < slow.length; process += 1) await processes.die();
    process = slow.length;
    expect((await processes.settle()).settled).toMatchObject({ status: 'finished' });
  });

  test('is not paused when processes fail before driving', async () => {
    const processes = new Processes({ model: callHang(), tools: [hangingTool] });
    await processes.die();
    const unreachable = {
      connect: () => Promise.reject(new EngineError('tool-source-failed', 'no such server')),
      close: async () => {},
    };
    for (let tried = 0; tried < MAX_CRASHES + 3; tried += 1) {
      await expect(processes.settle({ tools: [unreachable] })).rejects.toThrow('no such server');
    }
    const { settled } = await processes.settle({ tools: [makeTool('hang', { sideEffect: 'none' })] });
    expect(settled).toMatchObject({ status: 'finished' });
  });
});
