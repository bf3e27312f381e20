import { scripted } from '../../adapters/scripted.ts';
import { createAgent } from '../../agent/agent.ts';
import { InDoubt } from '../../protocol/error.ts';
import type { HistoryCall } from '../../protocol/rule.ts';
import { never } from '../../rules/condition.ts';
import { rule } from '../../rules/rule.ts';
import { calls, clientTool, makeTool } from '../support/engine/agents.ts';
import { answerWith } from '../support/engine/models.ts';
import { actIn, type CrashAgent } from './crash-agent.ts';
import { makeAsk, makeBook, makeDial, makeFlaky } from './make-crash-tools.ts';

const BUSY = { error: { code: 'overloaded', times: 1 } } as const;
const GONE = { error: { code: 'authentication' } } as const;

/** Parallel tools of every side effect; a model that is busy once; a tool that is retried. */
const batch: CrashAgent = {
  name: 'batch',
  makeModels: () => [
    scripted([
      calls('read', 'put', 'pay', 'ask', 'pay'),
      BUSY,
      calls('ask', 'flaky', 'pay', 'ask'),
      { text: 'done' },
    ]),
  ],
  makeTools: world => [
    makeTool('read', { sideEffect: 'none', run: actIn(world, 'read') }),
    makeTool('put', { sideEffect: 'idempotent', maxResultBytes: 5, run: actIn(world, 'put', 'later') }),
    makeTool('pay', { run: actIn(world, 'pay') }),
    makeAsk(world),
    makeFlaky(world, 'idempotent'),
  ],
  options: { toolConcurrency: 3 },
};

/** Every kind of decision in one round, and a sticky rule for the next. */
const gates: CrashAgent = {
  name: 'gates',
  decidesEarly: true,
  makeModels: () => [
    scripted([
      calls(['refund', { to: 'ann' }], ['refund', { to: 'eve' }], ['wire', { to: 'bob' }], 'deploy', 'read', [
        'refund',
        { to: 'clerk' },
      ]),
      calls('deploy', ['refund', { to: 'ann' }], 'wire'),
      { text: 'done' },
    ]),
  ],
  makeTools: world => [
    makeTool('read', { sideEffect: 'none', run: actIn(world, 'read') }),
    makeTool('refund', { approval: true, run: actIn(world, 'refund') }),
    makeTool('wire', { approval: true, sideEffect: 'idempotent', run: actIn(world, 'wire') }),
    makeTool('deploy', { approval: true, run: actIn(world, 'deploy', 'later') }),
  ],
  decide({ name, input }) {
    const to = typeof input === 'object' && input !== null && 'to' in input ? input.to : undefined;
    if (to === 'eve') return { type: 'reject', reason: 'not to her' };
    if (to === 'bob') return { type: 'approve', input: { to: 'bobby' } };
    if (to === 'clerk') return { type: 'answer', output: 'paid by hand' };
    return { type: 'approve', sticky: name === 'deploy' };
  },
};

/** Client calls, next to a call that runs in the process. */
const clients: CrashAgent = {
  name: 'clients',
  notes: 64,
  makeModels: () => [scripted([calls('show', 'pay', 'pick'), calls('pick', 'ask'), { text: 'done' }])],
  makeTools: world => [
    makeTool('pay', { run: actIn(world, 'pay') }),
    makeAsk(world),
    clientTool('show'),
    clientTool('pick'),
  ],
};

/** The first model is busy, then fails; the answer is a separate call, and a guardrail runs before the end. */
const fallback: CrashAgent = {
  name: 'fallback',
  makeModels: () => [
    scripted([BUSY, calls('pay', 'flaky'), GONE]),
    scripted([calls('pay', 'flaky'), calls('pay', 'ask'), { text: 'done' }]),
  ],
  makeTools: world => [
    makeTool('pay', { run: actIn(world, 'pay') }),
    makeAsk(world),
    makeFlaky(world, 'none'),
  ],
  options: {
    finalAnswer: 'separate',
    guardrails: { answer: text => ({ type: 'replace', value: `${text}, and checked` }) },
  },
};

/** A message that arrives after the answer began gets an answer of its own. */
const DONE = { text: 'done' };

/** Messages from two handles while it runs; one supersedes a call that waits for approval; the run starts paused. */
const talk: CrashAgent = {
  name: 'talk',
  makeModels: () => [
    scripted([calls('read', 'pay'), calls('refund', 'put'), calls('pay'), DONE, DONE, DONE, DONE]),
  ],
  makeTools: world => [
    makeTool('read', { sideEffect: 'none', run: actIn(world, 'read') }),
    makeTool('put', { sideEffect: 'idempotent', run: actIn(world, 'put', 'later') }),
    makeTool('pay', { run: actIn(world, 'pay') }),
    makeTool('refund', { approval: true, run: actIn(world, 'refund') }),
  ],
  options: { onMessage: 'supersede' },
  start: { paused: true },
  decide: () => ({ type: 'send', text: 'no refund today' }),
  messages: [
    { text: 'hurry up', when: 'started', elsewhere: false },
    { text: 'and be kind', when: { acts: 'read' }, elsewhere: true },
    { text: 'still there?', when: { acts: 'put' }, elsewhere: false },
  ],
};

/** Calls with unknown outcomes, and the three ways to resolve them; messages are queued. */
const doubt: CrashAgent = {
  name: 'doubt',
  makeModels: () => [scripted([calls('blind', 'pay', 'blank'), calls('refund', 'pay'), { text: 'done' }])],
  makeTools: world => {
    const act = actIn(world, 'blind');
    return [
      makeTool('pay', { run: actIn(world, 'pay') }),
      makeTool('blind', {
        run: async (input, context) => {
          await act(input, context);
          throw new InDoubt('The line went dead.');
        },
      }),
      makeTool('blank', {
        run: () => {
          throw new InDoubt('The line was dead.');
        },
      }),
      makeTool('refund', { approval: true, run: actIn(world, 'refund') }),
    ];
  },
  options: { onMessage: 'queue' },
  messages: [{ text: 'well?', when: { acts: 'pay' }, elsewhere: true }],
  writtenOff: ['blank'],
};

/** No streaming; the answer is held and rejected once; a limit triggers the closing call. */
const held: CrashAgent = {
  name: 'held',
  makeModels: () => [
    scripted([
      calls('pay', 'read'),
      BUSY,
      calls('refund', 'pay', 'ask'),
      { text: 'no number' },
      calls('pay', 'pay'),
      { text: 'number 7' },
    ]),
  ],
  makeTools: world => [
    makeTool('read', { sideEffect: 'none', run: actIn(world, 'read', 'later') }),
    makeTool('pay', { run: actIn(world, 'pay') }),
    makeTool('refund', { approval: true, run: actIn(world, 'refund') }),
    makeAsk(world),
  ],
  start: { stream: false, limits: { turns: 4 } },
  options: {
    finalAnswer: 'held',
    guardrails: {
      answer: text => (text.includes('7') ? { type: 'pass' } : { type: 'block', reason: 'give the number' }),
    },
  },
};

/** Guardrails of every kind: they replace messages and results, gate a call, and block an answer. */
const judged: CrashAgent = {
  name: 'judged',
  makeModels: () => [
    scripted([
      calls('read', 'pay'),
      calls('put', 'pay'),
      calls('read', 'pay'),
      { text: 'no number' },
      { text: 'number 7' },
    ]),
  ],
  makeTools: world => [
    makeTool('read', { sideEffect: 'none', run: actIn(world, 'read', 'later') }),
    makeTool('put', { sideEffect: 'idempotent', run: actIn(world, 'put') }),
    makeTool('pay', { run: actIn(world, 'pay') }),
  ],
  options: {
    guardrails: {
      input: message => ({ type: 'replace', value: message }),
      toolOutput: output => ({ type: 'replace', value: `judged: ${JSON.stringify(output)}` }),
      toolInput(_, { name, transcript }) {
        return name === 'pay' && transcript.length > 3
          ? { type: 'ask', reason: 'a second payment' }
          : { type: 'pass' };
      },
      answer: text => (text.includes('7') ? { type: 'pass' } : { type: 'block', reason: 'give the number' }),
    },
  },
  messages: [{ text: 'and be kind', when: { acts: 'put' }, elsewhere: true }],
};

/** Whether a call of the tool has its result in the thread. */
function isDone(history: readonly HistoryCall[], tool: string): boolean {
  return history.some(({ name, outcome }) => name === tool && outcome === 'done');
}

/** Rules that ask and block with the turn, and, by what has happened since, right before the start. */
const ruled: CrashAgent = {
  name: 'ruled',
  makeModels: () => [
    scripted([
      calls('read', 'pay', 'put', 'pay'),
      calls('wire', 'put'),
      calls('pay', 'read'),
      { text: 'done' },
    ]),
  ],
  makeTools: world => [
    makeTool('read', { sideEffect: 'none', run: actIn(world, 'read', 'later') }),
    makeTool('put', { sideEffect: 'idempotent', run: actIn(world, 'put') }),
    makeTool('pay', { run: actIn(world, 'pay') }),
    makeTool('wire', { run: actIn(world, 'wire') }),
  ],
  options: {
    toolConcurrency: 1,
    rules: [
      never('wire').after('pay'),
      rule({
        name: 'paid after reading',
        when: ({ call, history }) => call.name === 'pay' && isDone(history, 'read'),
        then: 'ask',
      }),
      rule({ name: 'put once', when: ({ call, history }) => call.name === 'put' && isDone(history, 'put') }),
      rule({ name: 'tried', when: never('read'), mode: 'shadow' }),
    ],
  },
};

/** Tools that act and then time out, or start slowly, many at once. */
const slow: CrashAgent = {
  name: 'slow',
  makeModels: () => [
    scripted([calls('hang', 'put', 'hold', 'put', 'pay'), calls('hold', 'pay'), { text: 'done' }]),
  ],
  makeTools: world => {
    const [hang, hold] = [actIn(world, 'hang'), actIn(world, 'hold')];
    const forever = new Promise<string>(() => {});
    return [
      makeTool('put', { sideEffect: 'idempotent', run: actIn(world, 'put', 'later') }),
      makeTool('pay', { run: actIn(world, 'pay', 'later') }),
      makeTool('hang', { timeoutMs: 20, run: (input, context) => hang(input, context).then(() => forever) }),
      makeTool('hold', {
        timeoutMs: 20,
        run: (input, context) => hold(input, context).then(() => forever),
        reconcile: call =>
          world.outside.hasActed(call)
            ? { happened: true, output: 'found by the tool' }
            : { happened: false },
      }),
    ];
  },
  options: { toolConcurrency: 2 },
};

/** A run of many rounds, which resumes from its snapshots. */
const rounds: CrashAgent = {
  name: 'rounds',
  makeModels: () => [
    scripted([
      calls('pay'),
      calls('refund', 'put'),
      calls('pay', 'read'),
      calls('refund'),
      calls('ask', 'put'),
      calls('refund', 'pay'),
      calls('put'),
      { text: 'done' },
    ]),
  ],
  makeTools: world => [
    makeTool('read', { sideEffect: 'none', run: actIn(world, 'read') }),
    makeTool('put', { sideEffect: 'idempotent', run: actIn(world, 'put') }),
    makeTool('pay', { run: actIn(world, 'pay') }),
    makeTool('refund', { approval: true, run: actIn(world, 'refund') }),
    makeAsk(world),
  ],
};

/** Two parallel sub-agents; one of them asks for approval on its own run. */
const nested: CrashAgent = {
  name: 'nested',
  decidesBelow: true,
  makeModels: () => [
    scripted([
      calls('pay', ['helper', { input: 'help' }], ['clerk', { input: 'write' }]),
      calls(['clerk', { input: 'write again' }], 'refund'),
      { text: 'done' },
    ]),
  ],
  makeTools: world => {
    const pay = makeTool('pay', { run: actIn(world, 'pay') });
    const refund = makeTool('refund', { approval: true, run: actIn(world, 'refund') });
    const helper = createAgent({
      name: 'helper',
      model: scripted([calls('ask', 'refund', 'pay'), calls('pay'), { text: 'helped' }]),
      tools: [pay, refund, makeAsk(world)],
    });
    const clerk = createAgent({
      name: 'clerk',
      model: scripted([calls('put', 'pay'), { text: 'written' }]),
      tools: [pay, makeTool('put', { sideEffect: 'idempotent', run: actIn(world, 'put', 'later') })],
    });
    return [
      ...[pay, refund],
      helper.asTool({ name: 'helper', description: 'helps' }),
      clerk.asTool({ name: 'clerk', description: 'writes' }),
    ];
  },
};

/** Tools that ask people, of the agent and of two levels of sub-agents; some answers come from another handle. */
const asking: CrashAgent = {
  name: 'asking',
  decidesBelow: true,
  makeModels: () => [
    scripted([calls('book', 'pay', ['helper', { input: 'help' }]), calls('dial', 'book'), { text: 'done' }]),
  ],
  makeTools: world => {
    const pay = makeTool('pay', { run: actIn(world, 'pay') });
    const clerk = createAgent({
      name: 'clerk',
      model: scripted([calls('book', 'dial'), calls('pay'), { text: 'written' }]),
      tools: [pay, makeBook(world), makeDial(world)],
    });
    const helper = createAgent({
      name: 'helper',
      model: scripted([calls(['clerk', { input: 'write' }], 'dial'), { text: 'helped' }]),
      tools: [clerk.asTool({ name: 'clerk', description: 'writes' }), makeDial(world)],
    });
    return [pay, makeBook(world), makeDial(world), helper.asTool({ name: 'helper', description: 'helps' })];
  },
};

/** A conversation that is handed over, answered twice by the sub-agent, and handed back. */
const handed: CrashAgent = {
  name: 'handed',
  decidesBelow: true,
  // Scripts count every turn that their model reads, those of the other agent too.
  makeModels: () => [scripted([calls('pay', 'read'), calls('transfer_to_clerk'), ...[DONE, DONE, DONE]])],
  makeTools: world => {
    const pay = makeTool('pay', { run: actIn(world, 'pay') });
    const refund = makeTool('refund', { approval: true, run: actIn(world, 'refund') });
    const clerk = createAgent({
      name: 'clerk',
      model: scripted([
        ...[{}, {}, calls('refund', 'ask'), { text: 'refunded' }, calls('pay')],
        calls('transfer_to_handed'),
      ]),
      tools: [pay, refund, makeAsk(world)],
    });
    return [
      ...[pay, makeTool('read', { sideEffect: 'none', run: actIn(world, 'read', 'later') })],
      clerk.asTool({
        name: 'transfer_to_clerk',
        description: 'Refunds.',
        answers: 'directly',
        sees: 'transcript',
      }),
    ];
  },
  options: { onMessage: 'queue' },
  messages: [{ text: 'and pay ann', when: { acts: 'refund' }, elsewhere: true }],
};

/**
 * Answers that two editors review: the first one is sent back, the second one changed by one of them, and a message comes
 * meanwhile.
 */
const reviewed: CrashAgent = {
  name: 'reviewed',
  makeModels: () => [
    scripted([calls('pay', 'read'), { text: 'no number' }, calls('pay', 'ask'), { text: 'number 7' }]),
  ],
  makeTools: world => [
    makeTool('read', { sideEffect: 'none', run: actIn(world, 'read', 'later') }),
    makeTool('pay', { run: actIn(world, 'pay') }),
    makeAsk(world),
  ],
  options: {
    onMessage: 'queue',
    guardrails: {
      answer: text => ({ type: 'ask', reason: `is ${text} right?`, by: 'editors', not: 'sender', quorum: 2 }),
    },
  },
  review(answer, approvedBy) {
    if (answer === 'no number') return { by: 'eve', type: 'reject', reason: 'give the number' };
    if (approvedBy.length === 0)
      return { by: 'ann', type: 'approve', ...(answer === 'number 7' && { answer: 'number 8' }) };
    return { by: 'eve', type: 'approve' };
  },
  start: { by: 'max' },
  messages: [{ text: 'and be kind', when: 'reviewed', elsewhere: true }],
};

const LAST_TURN = 8;

/** The calls of a turn: a payment of its own, and at the end one that was done before. */
function callsOfTurn(turn: number) {
  if (turn === LAST_TURN) return [];
  const pay = { callId: `pay_${turn}`, name: 'pay', input: { turn: turn === LAST_TURN - 1 ? 1 : turn } };
  return [pay, { callId: `read_${turn}`, name: 'read', input: { note: `turn ${turn}.` } }];
}

/** A transcript that is compacted after every second turn; a call that was done before needs an approval. */
const compacted: CrashAgent = {
  name: 'compacted',
  makeModels: () => [
    answerWith(({ transcript, toolChoice }) => {
      const found = JSON.stringify(transcript).matchAll(/turn (\d+)\./g);
      const turn = Math.max(0, ...[...found].map(([, number]) => Number(number)));
      const usage = { inputTokens: turn % 2 === 0 ? 1 : 1000, outputTokens: 1, ...UNCOUNTED };
      if (toolChoice === 'none') return { text: `They paid up to turn ${turn}.`, usage };
      const toolCalls = callsOfTurn(turn + 1);
      return toolCalls.length === 0 ? { text: 'done', usage } : { toolCalls, usage };
    }),
  ],
  makeTools: world => [
    makeTool('read', { sideEffect: 'none', run: actIn(world, 'read') }),
    makeTool('pay', { run: actIn(world, 'pay') }),
  ],
  options: { compaction: { at: 1000, summarize: 'model' } },
};

const UNCOUNTED = { cachedInputTokens: null, cacheWriteTokens: null, reasoningTokens: null };

export const AGENTS: readonly CrashAgent[] = [
  ...[batch, gates, clients, fallback, talk],
  ...[doubt, held, judged, slow, rounds, nested, asking, handed, reviewed, ruled, compacted],
];

export function findAgent(name: string): CrashAgent {
  const agent = AGENTS.find(known => known.name === name);
  if (agent !== undefined) return agent;
  throw new Error(`There is no agent "${name}". There are: ${AGENTS.map(known => known.name).join(', ')}.`);
}
