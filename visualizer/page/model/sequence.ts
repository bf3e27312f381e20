import type { QualifiedCall } from '../../../protocol/event.ts';
import type { Item } from '../../../protocol/item.ts';
import { omitUndefined } from '../../../protocol/json.ts';
import { textOf } from '../../../protocol/message.ts';
import { nameModels } from '../../name-models.ts';
import type { StreamedEvent } from '../data/request.ts';
import { describeShownCall } from '../render/describe-call.ts';
import { describeShownEvent } from '../render/describe-event.ts';
import { formatLine, formatOutput, formatReply } from '../render/format.ts';

/** A column of the sequence: a person, a run, the model of runs, or a tool of runs. */
export type SequenceLane = { name: string; kind: 'person' | 'agent' | 'model' | 'tool' | 'sub-agent' };

/** Who says what to whom, by an entry: `from` `says` `to`: `about`. A model's request and response are one arrow. */
export type SequenceArrow = {
  runId: string;
  seq: number;
  /** ms since the epoch. */
  at: number;
  from: SequenceLane;
  to: SequenceLane;
  says: string;
  /** Safe to show, on one line. */
  about: string;
  failed: boolean;
};

type Journal = readonly StreamedEvent[];
/**
 * An arrow while it is sorted in: the runs that it starts and ends, and the run that it is below. `time` never falls,
 * because what a run does follows its call, whichever entry was written first.
 */
type Woven = { arrow: SequenceArrow; time: number; starts?: string; ends?: string; branch?: string };

const RANKS = ['person', 'agent', 'model', 'tool', 'sub-agent'];

/** All lanes, and the arrows in the order of time: what a sub-agent does is between its call and its answer. */
export function tellSequence(
  runId: string,
  journals: ReadonlyMap<string, Journal>,
  isFinished: boolean,
): { lanes: SequenceLane[]; arrows: SequenceArrow[] } {
  const teller = new SequenceTeller(runId, journals);
  const arrows = teller.weave(runId, isFinished).map(({ arrow }) => arrow);
  const lanes = [...teller.lanes.values()];
  return { lanes: lanes.sort((one, other) => RANKS.indexOf(one.kind) - RANKS.indexOf(other.kind)), arrows };
}

class SequenceTeller {
  readonly lanes = new Map<string, SequenceLane>();
  readonly #root: string;
  readonly #journals: ReadonlyMap<string, Journal>;
  readonly #names = new Map<string, number>();

  constructor(root: string, journals: ReadonlyMap<string, Journal>) {
    this.#root = root;
    this.#journals = journals;
  }

  weave(runId: string, isFinished: boolean): Woven[] {
    const woven: Woven[] = [];
    let waiting: Woven[] = [];
    let time = 0;
    const push = (one: Woven): void => {
      time = Math.max(time, one.time);
      woven.push({ ...one, time });
    };
    for (const one of this.#tell(runId, isFinished)) {
      const isDue = (other: Woven): boolean => other.time <= one.time || other.branch === (one.ends ?? '');
      for (const due of waiting.filter(isDue)) push(due);
      waiting = waiting.filter(other => !isDue(other));
      push(one);
      const { starts } = one;
      if (starts === undefined || !this.#journals.has(starts)) continue;
      const below = this.weave(starts, false).map(other => ({ ...other, branch: starts }));
      waiting = [...waiting, ...below].sort((before, after) => before.time - after.time);
    }
    for (const one of waiting) push(one);
    return woven;
  }

  #lane(kind: SequenceLane['kind'], name: string, key = name): SequenceLane {
    const known = this.lanes.get(`${kind} ${key}`);
    if (known !== undefined) return known;
    const count = (this.#names.get(name) ?? 0) + 1;
    this.#names.set(name, count);
    const lane = { kind, name: key === name || count === 1 ? name : `${name} ${count}` };
    this.lanes.set(`${kind} ${key}`, lane);
    return lane;
  }

  #run(runId: string, name: string): SequenceLane {
    const [started] = this.#journals.get(runId) ?? [];
    const agent = started?.type === 'run.started' ? started.agent.name : name;
    return this.#lane(runId === this.#root ? 'agent' : 'sub-agent', agent, runId);
  }

  #tell(runId: string, isFinished: boolean): Woven[] {
    const journal = this.#journals.get(runId) ?? [];
    const told: Woven[] = [];
    const calls = new Map<string, QualifiedCall>();
    const children = new Set<string>();
    const deciders = new Map<string, string>();
    for (const event of journal) {
      if (event.type === 'tool.suspended') children.add(event.callId);
      if ('by' in event && event.by && 'digest' in event)
        deciders.set('callId' in event ? event.callId : event.reviewId, event.by);
    }
    const agent = this.#run(runId, 'agent');
    const nameOf = (callId: string) => calls.get(callId)?.name ?? callId;
    const last = journal.findLast(({ type }) => type === 'turn.completed');
    let [model, starter] = ['model', 'person'];
    for (const event of journal) {
      const { type, seq, at } = event;
      const callId = 'callId' in event ? event.callId : '';
      const decider = 'reviewId' in event ? event.reviewId : callId;
      const by = 'by' in event && event.by ? event.by : deciders.get(decider);
      const say = (
        from: SequenceLane,
        says: string,
        to: SequenceLane,
        about: string,
        runs: Partial<Woven> = {},
      ): void => {
        const failed = type.endsWith('failed') || ('isError' in event && event.isError === true);
        const arrow = { runId, seq, at, from, to, says, about: formatLine(about, LONGEST), failed };
        told.push({ arrow, time: at, ...runs });
      };
      const person = (name = 'person') => this.#lane('person', name);
      const laneOf = (role: string | undefined): SequenceLane => {
        if (role === 'person') return person(by);
        if (role === 'model') return this.#lane('model', model);
        return role === 'tool' ? this.#lane('tool', nameOf(callId)) : agent;
      };
      const [from, says = '', to] = SAID[type]?.split(', ') ?? [];
      switch (event.type) {
        case 'run.started':
          for (const call of event.onlyCall ? [event.onlyCall] : []) calls.set(call.callId, call);
          model = nameModels(event.config.models.slice(0, 1)) || model;
          starter = by ?? starter;
          if (event.parent === undefined || runId === this.#root)
            say(person(by), 'writes to', agent, textsOf(event.input));
          break;
        case 'message.received': {
          const { from, items } = event;
          const ends = from?.runId;
          const sender = from === undefined ? person(by) : this.#run(from.runId, nameOf(from.callId));
          say(sender, 'writes to', agent, textsOf(items), omitUndefined({ ends }));
          break;
        }
        case 'turn.completed':
          say(agent, 'gets from', laneOf('model'), formatReply(event.text, event.calls));
          for (const call of event.calls) {
            calls.set(call.callId, call);
            const { name, input, error, gate, executedBy } = call;
            const asked = gate ? deciders.get(call.callId) : 'client';
            if (error === undefined && (gate || executedBy === 'client'))
              say(
                agent,
                'asks',
                person(asked),
                `${gate ? 'approve' : 'give the result of'} ${describeShownCall(name, input)}`,
              );
          }
          if (isFinished && event === last) say(agent, 'answers', person(starter), event.text);
          break;
        case 'tool.started':
          if (children.has(callId)) break;
          say(agent, 'asks', laneOf('tool'), formatOutput(calls.get(callId)?.input ?? ''));
          break;
        case 'tool.suspended': {
          const { input = '', answers } = calls.get(callId) ?? {};
          const starts = event.childRunId;
          const does = answers === 'directly' ? 'hands over to' : says;
          say(agent, does, this.#run(starts, nameOf(callId)), formatOutput(input), { starts });
          break;
        }
        case 'result.received': {
          const { childRunId: ends, output, answered } = event;
          const sender = ends === undefined ? person(by ?? 'client') : this.#run(ends, nameOf(callId));
          const does = answered?.handedBack ? 'hands back to' : says;
          say(sender, does, agent, formatOutput(output), omitUndefined({ ends }));
          break;
        }
        default: {
          const about = 'output' in event && event.output !== undefined ? formatOutput(event.output) : null;
          if (from !== undefined)
            say(laneOf(from), says, laneOf(to), about ?? describeShownEvent(event, nameOf));
        }
      }
    }
    return told;
  }
}

const LONGEST = 160;

/** Who says what to whom, by the type of an entry. */
const SAID: { readonly [type: string]: string } = {
  'turn.failed': 'agent, gets from, model',
  'transcript.compacted': 'agent, gets from, model',
  'compaction.failed': 'agent, gets from, model',
  'call.judged': 'agent, asks, person',
  'approval.decided': 'person, answers, agent',
  'review.requested': 'agent, asks, person',
  'review.decided': 'person, answers, agent',
  'question.asked': 'tool, asks, person',
  'question.answered': 'person, answers, tool',
  'sign-in.requested': 'agent, asks, person',
  'sign-in.completed': 'person, answers, agent',
  'tool.settled': 'tool, answers, agent',
  'tool.doubted': 'tool, leaves in doubt, agent',
  'doubt.resolved': 'person, answers, agent',
  'tool.suspended': 'agent, asks, sub-agent',
  'result.received': 'sub-agent, answers, agent',
  'run.cancelled': 'person, cancels, agent',
};

function textsOf(items: readonly Item[]): string {
  return items.map(textOf).join(' ');
}
