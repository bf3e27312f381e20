import { transition } from 'xstate';
import { answering, calling, START, settling, stamp, starting } from '../../explore/make-events.ts';
import { agentMachine } from '../../machines/agent.ts';
import { type ChartState, initial, makeStepper, statePath } from '../../machines/step.ts';
import {
  type ChartEvent,
  JOURNAL_FORMAT,
  type QualifiedCall,
  type RunStarted,
} from '../../protocol/event.ts';
import { userMessage } from '../../protocol/message.ts';
import { time } from '../stopwatch.ts';
import type { Workload } from '../workload.ts';

const ROUNDS = 20;
const WARM_UP = 200;
const RUNS = 400;

type Next = (state: ChartState, event: ChartEvent) => ChartState;

const xstate = makeStepper(agentMachine, { compiles: false });
const compiled = makeStepper(agentMachine);

const CONTENDERS: Readonly<Record<string, Next>> = {
  'XState, pure transition': (state, event) => transition(agentMachine, state, event)[0],
  'XState, one scope': (state, event) => xstate.next(state, event).state,
  'the chart, compiled': (state, event) => compiled.next(state, event).state,
};

/** The cost of the chart's steps: rounds of one call that is made, started and settled. */
export const chart: Workload = {
  name: 'chart',
  title: `The chart alone: ${ROUNDS} rounds of one call, three events each`,
  contenders: Object.keys(CONTENDERS),
  repetitions: 3,
  columns: [
    { label: 'CPU µs/round', metric: 'cpuUsPerRound', digits: 1 },
    { label: '× XState', metric: 'cpuUsPerRound', as: 'ratio', digits: 2 },
  ],
  async measure(name) {
    const next = CONTENDERS[name];
    if (next === undefined) throw new Error(`Unknown contender "${name}".`);
    const { state: begun } = initial(STARTED);
    const events = makeEvents(begun);
    const play = async (runs: number) => {
      for (let run = 0; run < runs; run += 1) {
        const end = events.reduce(next, begun);
        if (statePath(end) !== 'finished') throw new Error(`The run ended in ${statePath(end)}.`);
      }
    };
    await play(WARM_UP);
    const { cpuMs } = await time(() => play(RUNS));
    return { requests: '', metrics: { cpuUsPerRound: (1000 * cpuMs) / (RUNS * ROUNDS) } };
  },
};

const STARTED: RunStarted = {
  type: 'run.started',
  at: START,
  runId: 'run',
  format: JOURNAL_FORMAT,
  chart: { version: 1, hash: '' },
  agent: { name: 'agent' },
  config: {
    models: [{ provider: 'test', model: 'test' }],
    toolChoice: 'auto',
    finalAnswer: 'live',
    onMessage: 'queue',
    onLimit: 'answer',
    limits: { turns: ROUNDS + 1, toolCalls: ROUNDS },
    attempts: 1,
    checksAnswer: false,
    answerBlocks: 1,
  },
  input: [userMessage('Measure the points.')],
  stream: true,
};

/** The events of all rounds of a run, and its answer. */
function makeEvents(begun: ChartState): ChartEvent[] {
  const rounds = Array.from({ length: ROUNDS }, (_, round) => makeCall(`call_${round}`)).flatMap(call => [
    calling(call),
    starting(call.callId),
    settling(call.callId),
  ]);
  const events: ChartEvent[] = [];
  let state = begun;
  for (const one of [...rounds, answering('The points are measured.')]) {
    const event = stamp(state.context, one);
    events.push(event);
    state = compiled.next(state, event).state;
  }
  return events;
}

function makeCall(callId: string): QualifiedCall {
  return {
    callId,
    name: 'measure',
    input: {},
    digest: callId,
    sideEffect: 'none',
    reconcilable: false,
    executedBy: 'engine',
    gate: false,
  };
}
