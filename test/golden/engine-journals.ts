import { scripted } from '../../adapters/scripted.ts';
import { MAX_CRASHES } from '../../engine/driver/detect-crash-loop.ts';
import type { FaultPoint } from '../../engine/driver/host.ts';
import { appendEvidence } from '../../engine/journal/append-evidence.ts';
import { redactRun } from '../../engine/journal/redaction/redact-run.ts';
import type { Run } from '../../engine/run/run.ts';
import type { RunEvent } from '../../protocol/event.ts';
import { shortenOwnerName } from '../../protocol/owner-name.ts';
import type { Store } from '../../protocol/store.ts';
import { memory } from '../../stores/memory.ts';
import { createAgent } from '../../tools/agent/agent.ts';
import type { AgentOptions } from '../../tools/agent/agent-options.ts';
import { ManualHost } from '../../tools/testing/manual-host.ts';
import { calls, clientTool, eventsOf, makeGate, makeTool } from '../support/engine/agents.ts';
import { watchStore } from '../support/engine/watched-store.ts';

/**
 * Runs of the engine itself, with scripted models and a clock that stands still: what it writes into a
 * journal, in which order, is part of what is held.
 */

type Process = {
  host: ManualHost;
  store: Store;
  /** Lets the process end when the n-th such point is reached; what is left of it never acts again. */
  dieAt(point: FaultPoint, nth?: number): Promise<void>;
};

type Scene = {
  about: string;
  /** Plays it, and gives the id of the run that is kept. */
  play(begin: (name?: string) => Process): Promise<string>;
};

const START = Date.UTC(2026, 0, 1);
const NEVER = new Promise<never>(() => {});

export type EngineJournal = { name: string; about: string; events: RunEvent[] };

export async function recordScene(name: string): Promise<EngineJournal> {
  const scene = SCENES[name];
  if (scene === undefined) throw new Error(`there is no scene ${name}`);
  const shared = memory();
  let processes = 0;
  const runId = await scene.play(() => {
    const process = makeProcess(shared, START + processes * 60_000, `p${processes + 1}_`);
    processes += 1;
    return process;
  });
  return { name, about: scene.about, events: hideProcess(await eventsOf(shared, runId)) };
}

/** The same on every machine. */
function hideProcess(events: readonly RunEvent[]): RunEvent[] {
  const name = events.flatMap(event => (event.type === 'run.claimed' ? [event.by] : []))[0];
  if (name === undefined) return [...events];
  const hide = (text: string, part: string) =>
    text.replaceAll(JSON.stringify(part).slice(1, -1), 'a process');
  return JSON.parse(hide(hide(JSON.stringify(events), name), shortenOwnerName(name)));
}

export function listScenes(): string[] {
  return Object.keys(SCENES);
}

function makeProcess(shared: Store, now: number, name: string): Process {
  let over = false;
  const host = new ManualHost({ now, name });
  const store = watchStore(shared, { before: () => (over ? NEVER : undefined) });
  const dieAt = async (point: FaultPoint, nth = 1) => {
    let left = nth;
    let died = () => {};
    const ended = new Promise<void>(resolve => {
      died = resolve;
    });
    host.reach = reached => {
      if (over) throw new Error('this process has ended');
      if (reached !== point) return;
      left -= 1;
      if (left > 0) return;
      over = true;
      died();
      throw new Error('this process has ended');
    };
    await host.settle(ended);
  };
  return { host, store, dieAt };
}

type Turns = Parameters<typeof scripted>[0];

function agentOf({ host, store }: Process, turns: Turns, options: Partial<AgentOptions> = {}) {
  return createAgent({ name: 'golden', version: '1', host, store, model: scripted(turns), ...options });
}

/** An agent whose sub-agent pays behind an approval. */
function familyOf(process: Process) {
  const payer = createAgent({
    ...{ name: 'payer', model: scripted([calls('pay'), { text: 'Paid.' }]) },
    tools: [makeTool('pay', { approval: true })],
  });
  const ask = payer.asTool({ name: 'ask', description: 'Pays.' });
  return agentOf(process, [calls(['ask', { input: 'pay' }]), { text: 'Done.' }], { tools: [ask] });
}

async function rest({ host }: Process, run: Run): Promise<string[]> {
  const settled = await host.settle(run.settled());
  if (settled.status !== 'waiting') return [];
  return [...settled.approvals, ...settled.results, ...settled.doubts].map(({ callId }) => callId);
}

/** The run that a process drives until it dies. */
async function driveUntil(process: Process, run: Run, point: FaultPoint, nth?: number): Promise<void> {
  run.settled().catch(() => {});
  await process.dieAt(point, nth);
}

const failing = () => {
  throw new Error('no such file');
};

const SCENES: Readonly<Record<string, Scene>> = {
  'parallel-tools': {
    about: 'Three tools run at once; one fails, one is unknown; the model answers.',
    async play(begin) {
      const process = begin();
      const agent = agentOf(
        process,
        [{ text: 'Let me see.', ...calls('read', 'list', 'lost') }, { text: 'Done.' }],
        {
          tools: [makeTool('read', { sideEffect: 'none' }), makeTool('list', { run: failing })],
        },
      );
      const run = await agent.start('look');
      await rest(process, run);
      return run.id;
    },
  },
  'mixed-approvals': {
    about: 'A round of a free call, one approved with another input, one rejected, one answered by a person.',
    async play(begin) {
      const process = begin();
      const agent = agentOf(process, [calls('read', 'pay', 'pay', 'pay'), calls('pay'), { text: 'Paid.' }], {
        tools: [makeTool('read', { sideEffect: 'none' }), makeTool('pay', { approval: true })],
      });
      const run = await agent.start('pay');
      const [first = '', second = '', third = ''] = await rest(process, run);
      await run.approve(first, { input: { cents: 5 }, by: 'ann' });
      await run.reject(second, { reason: 'too much', by: 'ben' });
      await run.answer(third, { output: { paid: 'by hand' }, by: 'ann' });
      const [later = ''] = await rest(process, run);
      await run.approve(later, { sticky: true, by: 'ann' });
      await rest(process, run);
      return run.id;
    },
  },
  'waits-for-approval': {
    about: 'A run that rests: one call was run, another waits for a person, with a deadline.',
    async play(begin) {
      const process = begin();
      const agent = agentOf(process, [calls('read', 'pay')], {
        tools: [
          makeTool('read', { sideEffect: 'none' }),
          makeTool('pay', { approval: () => ({ required: true, reason: 'money', expiresInMs: 86_400_000 }) }),
        ],
      });
      const run = await agent.start('pay');
      await rest(process, run);
      return run.id;
    },
  },
  'approval-expires': {
    about: 'Nobody decides in time: the call is refused and the model told.',
    async play(begin) {
      const process = begin();
      const agent = agentOf(process, [calls('pay'), { text: 'Not paid.' }], {
        tools: [makeTool('pay', { approval: () => ({ required: true, expiresInMs: 5_000 }) })],
      });
      const run = await agent.start('pay');
      await rest(process, run);
      await process.host.advance(5_000);
      await rest(process, run);
      return run.id;
    },
  },
  'message-supersedes': {
    about: 'A message comes while a call waits for approval and another for the client.',
    async play(begin) {
      const process = begin();
      const agent = agentOf(process, [calls('pay', 'show'), { text: 'Something else, then.' }], {
        tools: [makeTool('pay', { approval: true }), clientTool('show')],
      });
      const run = await agent.start('pay');
      await rest(process, run);
      await run.send('Wait, something else.', { by: 'ann' });
      const [open = ''] = await rest(process, run);
      await run.answer(open, { output: 'shown', by: 'page' });
      await rest(process, run);
      return run.id;
    },
  },
  'under-way': {
    about: 'The process died while an idempotent and a once call ran: nobody has looked yet.',
    async play(begin) {
      const process = begin();
      const agent = agentOf(process, [calls('put', 'pay')], {
        tools: [makeTool('put', { sideEffect: 'idempotent' }), makeTool('pay')],
      });
      const run = await agent.start('pay');
      await driveUntil(process, run, 'tool.after');
      return run.id;
    },
  },
  'doubt-resolved': {
    about: 'A once call was interrupted: a person says that it happened; the idempotent one ran again.',
    async play(begin) {
      const tools = [makeTool('put', { sideEffect: 'idempotent' }), makeTool('pay')];
      const first = begin();
      const died = await agentOf(first, [calls('put', 'pay')], { tools }).start('pay');
      await driveUntil(first, died, 'tool.after');
      const second = begin();
      const run = await agentOf(second, [calls('put', 'pay'), { text: 'Paid.' }], { tools }).open(died.id);
      const [doubted = ''] = await rest(second, run);
      await run.resolve(doubted, { happened: true, output: 'paid', by: 'ann' });
      await rest(second, run);
      return run.id;
    },
  },
  'in-doubt': {
    about: 'A run that rests in doubt of a once call.',
    async play(begin) {
      const tools = [makeTool('pay')];
      const first = begin();
      const died = await agentOf(first, [calls('pay')], { tools }).start('pay');
      await driveUntil(first, died, 'tool.after');
      const second = begin();
      await rest(second, await agentOf(second, [calls('pay')], { tools }).open(died.id));
      return died.id;
    },
  },
  reconciled: {
    about: 'A once call was interrupted, and its tool knows that it did not happen: it runs.',
    async play(begin) {
      const tools = [makeTool('pay', { reconcile: () => ({ happened: false }) })];
      const first = begin();
      const died = await agentOf(first, [calls('pay')], { tools }).start('pay');
      await driveUntil(first, died, 'tool.before');
      const second = begin();
      const run = await agentOf(second, [calls('pay'), { text: 'Paid.' }], { tools }).open(died.id);
      await rest(second, run);
      return run.id;
    },
  },
  'retries-and-fallback': {
    about: 'The first model is busy once, then gives up for good; the second goes on. A tool is tried twice.',
    async play(begin) {
      const process = begin();
      let failures = 0;
      const flaky = makeTool('flaky', {
        sideEffect: 'idempotent',
        retries: 1,
        run: () => {
          failures += 1;
          if (failures === 1) throw new Error('busy');
          return 'at last';
        },
      });
      const busy = { error: { code: 'overloaded', times: 1 } } as const;
      const gone = { error: { code: 'authentication' } } as const;
      const models = [scripted([busy, calls('flaky'), gone]), scripted([calls('flaky'), { text: 'Done.' }])];
      const run = await agentOf(process, [], { model: models, tools: [flaky] }).start('try');
      await rest(process, run);
      return run.id;
    },
  },
  'separate-answer': {
    about: 'Planning does not stream; its draft is left out, and a call with tools off answers.',
    async play(begin) {
      const process = begin();
      const turns = [calls('read'), { text: 'A draft.' }, { text: 'The answer.' }];
      const agent = agentOf(process, turns, {
        finalAnswer: 'separate',
        tools: [makeTool('read', { sideEffect: 'none' })],
      });
      const run = await agent.start('answer');
      await rest(process, run);
      return run.id;
    },
  },
  finishers: {
    about: 'A finisher sends the answer back once, then changes its text.',
    async play(begin) {
      const process = begin();
      const agent = agentOf(process, [{ text: 'no' }, { text: 'yes' }], {
        finalAnswer: 'held',
        finishers: [({ text }) => (text === 'no' ? { reject: 'Say yes.' } : { text: `${text}!` })],
      });
      const run = await agent.start('answer');
      await rest(process, run);
      return run.id;
    },
  },
  'closing-call': {
    about: 'The limit on turns is reached: one closing call with tools off, whose calls are refused.',
    async play(begin) {
      const process = begin();
      const turns = [calls('read'), { text: 'In short.', ...calls('read') }];
      const agent = agentOf(process, turns, {
        limits: { turns: 1 },
        tools: [makeTool('read', { sideEffect: 'none' })],
      });
      const run = await agent.start('look');
      await rest(process, run);
      return run.id;
    },
  },
  'paused-and-stepped': {
    about: 'A run that begins paused, is stepped once, and let go.',
    async play(begin) {
      const process = begin();
      const agent = agentOf(process, [calls('read'), { text: 'Done.' }], {
        tools: [makeTool('read', { sideEffect: 'none' })],
      });
      const run = await agent.start('look', { paused: true });
      await rest(process, run);
      await run.step({ by: 'ann' });
      await rest(process, run);
      await run.unpause({ by: 'ann' });
      await rest(process, run);
      return run.id;
    },
  },
  cancelled: {
    about: 'Somebody cancels while a once call is open; the run tells what is unsettled.',
    async play(begin) {
      const process = begin();
      const agent = agentOf(process, [calls('read', 'pay')], {
        tools: [makeTool('read', { sideEffect: 'none' }), makeTool('pay', { approval: true })],
      });
      const run = await agent.start('pay');
      await rest(process, run);
      await run.cancel({ by: 'ann', reason: 'changed my mind' });
      await rest(process, run);
      return run.id;
    },
  },
  'cancel-requested': {
    about: 'A process asks the one that drives the run to cancel it: its tool has the grace time.',
    async play(begin) {
      const [process, other] = [begin(), begin()];
      const gate = makeGate();
      const options = { tools: [makeTool('pay', { run: () => gate.promise.then(() => 'paid') })] };
      const run = await agentOf(process, [calls('pay')], options).start('pay');
      await process.host.idle();
      const seen = await agentOf(other, [calls('pay')], options).open(run.id);
      await seen.cancel({ by: 'ann', reason: 'changed my mind' });
      await process.host.advance(1_000);
      gate.open();
      await rest(process, run);
      return run.id;
    },
  },
  'late-evidence': {
    about:
      'A once call goes on after its run was cancelled: what it gave is kept beside, and a surface left a note.',
    async play(begin) {
      const process = begin();
      const gate = makeGate();
      const run = await agentOf(process, [calls('pay')], {
        tools: [makeTool('pay', { run: () => gate.promise.then(() => 'paid') })],
      }).start('pay');
      await appendEvidence(process.store, run.id, {
        ...{ type: 'run.noted', at: process.host.now(), by: 'page', note: { tab: 1 } },
      });
      await process.host.idle();
      await process.host.settle(run.cancel({ by: 'ann' }));
      gate.open();
      await process.host.idle();
      return run.id;
    },
  },
  redacted: {
    about: 'What was asked, and the input of a call that was approved, were redacted when the run had ended.',
    async play(begin) {
      const process = begin();
      const run = await agentOf(process, [calls(['pay', { to: 'ann' }]), { text: 'Paid.' }], {
        tools: [makeTool('pay', { approval: true })],
      }).start('pay ann');
      const [open = ''] = await rest(process, run);
      await run.approve(open, { by: 'bob' });
      await rest(process, run);
      const turn = (await process.store.read(run.id)).find(({ event }) => event.type === 'turn.completed');
      const paths = ['/1/input/0/content/0/text', `/${turn?.seq}/calls/0/input/to`];
      await redactRun(process.store, run.id, { paths, by: 'eve', host: process.host });
      return run.id;
    },
  },
  'sub-agent': {
    about: 'A sub-agent waits for approval: its parent waits for it, and goes on with its answer.',
    async play(begin) {
      const process = begin();
      const run = await familyOf(process).start('pay');
      const [open = ''] = await rest(process, run);
      await run.approve(open, { by: 'ann' });
      await rest(process, run);
      return run.id;
    },
  },
  'run-of-a-sub-agent': {
    about: 'The run of that sub-agent.',
    async play(begin) {
      const process = begin();
      const run = await familyOf(process).start('pay');
      const [open = ''] = await rest(process, run);
      await run.approve(open, { by: 'ann' });
      await rest(process, run);
      const runs = await process.store.list();
      return runs.find(({ runId }) => runId !== run.id)?.runId ?? '';
    },
  },
  quarantined: {
    about: 'Five processes died of one call: the run is paused, and tried again when somebody says so.',
    async play(begin) {
      const tools = [makeTool('pay', { sideEffect: 'idempotent' })];
      const turns = [calls('pay'), { text: 'Paid.' }];
      const first = begin();
      const { id } = await agentOf(first, turns, { tools }).start('pay');
      await driveUntil(first, await agentOf(first, turns, { tools }).open(id), 'tool.before');
      for (let died = 0; died < MAX_CRASHES - 1; died += 1) {
        const process = begin();
        await driveUntil(process, await agentOf(process, turns, { tools }).open(id), 'tool.before');
      }
      const last = begin();
      const run = await agentOf(last, turns, { tools }).open(id);
      await rest(last, run);
      await run.unpause({ by: 'ann' });
      await rest(last, run);
      return id;
    },
  },
  finished: {
    about: 'A run that has ended, for another to continue.',
    async play(begin) {
      const process = begin();
      const run = await agentOf(process, [{ text: 'Hello.' }]).start('hello');
      await rest(process, run);
      return run.id;
    },
  },
  continued: {
    about: 'A run that continues the finished one.',
    async play(begin) {
      const process = begin();
      const agent = agentOf(process, [{ text: 'Hello.' }, { text: 'Still here.' }]);
      const before = await agent.start('hello');
      await rest(process, before);
      const run = await agent.start('still there?', { continues: before.id });
      await rest(process, run);
      return run.id;
    },
  },
};
