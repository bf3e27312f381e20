import { type Agent, createAgent } from '../../agent/agent.ts';
import type { Host } from '../../engine/host/host.ts';
import type { OpenCall } from '../../engine/log/settled.ts';
import type { Run } from '../../engine/run/run.ts';
import type { JsonValue } from '../../protocol/json.ts';
import type { OpenQuestion, OpenReview } from '../../protocol/run-view.ts';
import type { Store } from '../../protocol/store.ts';
import type { CrashAgent, Environment, Message } from './crash-agent.ts';
import { openStore } from './open-store.ts';
import { type Acknowledged, isSame, type Outside, type Place } from './outside.ts';

/** What a person submits about a call in doubt. */
const RESOLUTIONS = {
  retry: { retry: true },
  failed: { failed: 'written off' },
  happened: { happened: true, output: 'found outside' },
} as const;

export const RUN = 'run_killed';

/** The groups of those who review answers. */
const EDITORS = ['editors'];

/** A model that is busy once is busy once in each process. */
const RETRY = { baseMs: 1, attempts: 8 };

/** More rounds of questions than any agent needs in one process; beyond it, people are asked the same forever. */
const MOST_ROUNDS = 60;

/** Starts or resumes the run of a folder, plays its people until the run has ended, and returns its status. */
export async function driveChart(
  scripted: CrashAgent,
  {
    folder,
    host,
    outside,
    reach,
  }: { folder: string; host: Host; outside: Outside } & Pick<Environment, 'reach'>,
): Promise<string> {
  const store = openStore(folder, () => host.now());
  const elsewhere = openStore(folder, () => host.now());
  let onAct = (_tool: string) => {};
  const world: Environment = { outside, reach, onAct: tool => onAct(tool) };
  const make = (shared: Store) =>
    createAgent({
      ...scripted.options,
      name: scripted.name,
      host,
      store: shared,
      retry: RETRY,
      model: scripted.makeModels(),
      tools: scripted.makeTools(world),
    });
  const agent = make(store);
  const known = await store.get(RUN);
  const run =
    known === undefined ? await agent.start('go', { ...scripted.start, runId: RUN }) : await agent.open(RUN);
  if (scripted.notes !== undefined) await appendNotes(elsewhere, scripted.notes);
  const people = new People({ scripted, run, store, outside, reach, other: make(elsewhere) });
  onAct = tool => people.notice(tool);
  const status = await people.work();
  await store.close();
  await elsewhere.close();
  return status;
}

/** Appends neutral entries in one commit until the journal has this length. */
async function appendNotes(store: Store, count: number): Promise<void> {
  const note = { type: 'run.noted', at: 0, by: 'nobody', note: 'The journal is long.' } as const;
  for (;;) {
    const { seq, status } = (await store.get(RUN)) ?? { seq: 0, status: 'running' };
    if (seq > count) return;
    const notes = Array.from({ length: count }, () => note);
    await store.append(RUN, { after: seq, input: true }, notes, { status });
  }
}

type Around = {
  scripted: CrashAgent;
  run: Run;
  store: Store;
  outside: Outside;
  reach: Environment['reach'];
  other: Agent;
};

/**
 * The people of a run. They record acknowledgements as soon as they get them. After a crash they repeat
 * what they have no record of, unless the run has it, and nothing that they have a record of.
 */
class People {
  readonly #around: Around;
  #talking: Promise<void> = Promise.resolve();
  /** Runs opened by another agent, as in another process. */
  readonly #elsewhere = new Map<string, Promise<Run>>();

  constructor(around: Around) {
    this.#around = around;
  }

  async work(): Promise<string> {
    const { run, scripted } = this.#around;
    for (const message of scripted.messages ?? []) if (this.#isDue(message)) this.#say(message);
    for (let round = 0; round < MOST_ROUNDS; round += 1) {
      const talk = this.#talking;
      await talk;
      const settled = await run.settled();
      if (this.#talking !== talk) continue;
      if (settled.status !== 'waiting') {
        for (const opened of this.#elsewhere.values()) await (await opened).settled();
        return settled.status;
      }
      if (settled.paused) await this.#steer(settled.turns === 0);
      await Promise.all([...settled.approvals].reverse().map(call => this.#decide(call)));
      for (const one of settled.questions) await this.#tell(one);
      for (const review of settled.reviews) await this.#review(review);
      const clients = settled.open.filter(one => one.kind === 'result');
      await Promise.all(clients.map(call => this.#answer(call, 'from the client')));
      for (const call of settled.doubts) await this.#resolve(call);
    }
    throw new Error(`People were asked ${MOST_ROUNDS} times and the run still waits.`);
  }

  /** Called when a tool acts: sends the messages that are due. */
  notice(tool: string): void {
    for (const message of this.#around.scripted.messages ?? [])
      if (typeof message.when === 'object' && message.when.acts === tool) this.#say(message);
    if (this.#around.scripted.decidesEarly === true)
      this.#talking = this.#talking.then(() => this.#decideEarly());
  }

  async #decideEarly(): Promise<void> {
    const { runId, calls } = this.#around.run.context;
    const gated = calls.filter(({ status }) => status === 'gated');
    for (const { callId, name, input } of gated) await this.#decide({ runId, callId, name, input });
  }

  /** Whether the message is due: at the start, or once its tool has acted, also in an earlier process. */
  #isDue({ when }: Message): boolean {
    if (typeof when === 'string') return when === 'started';
    return this.#around.outside.acts.some(({ tool }) => tool === when.acts);
  }

  #say({ text, elsewhere }: Message): void {
    this.#talking = this.#talking.then(async () => {
      const { run } = this.#around;
      if (await this.#isSaid(text)) return;
      const handle = elsewhere ? await this.#openElsewhere(run.id) : run;
      const answer = await handle.send(text, { by: 'zoe' });
      if (answer.accepted) this.#write({ type: 'sent', text });
    });
  }

  async #isSaid(text: string): Promise<boolean> {
    if (
      this.#around.outside.acknowledged.some(
        acknowledged => acknowledged.type === 'sent' && acknowledged.text === text,
      )
    )
      return true;
    const entries = await this.#around.store.read(this.#around.run.id);
    return entries.some(
      ({ event }) => event.type === 'message.received' && JSON.stringify(event.items).includes(text),
    );
  }

  #openElsewhere(runId: string): Promise<Run> {
    const opened = this.#elsewhere.get(runId) ?? this.#around.other.open(runId);
    this.#elsewhere.set(runId, opened);
    return opened;
  }

  /** Whether the call was already decided or resolved; then nobody may be asked again. */
  #isDone(call: Place, by: 'decision' | 'resolution'): boolean {
    const done = this.#around.outside.acknowledged.some(acknowledged => {
      switch (acknowledged.type) {
        case 'approved':
        case 'rejected':
        case 'answered':
          return by === 'decision' && isSame(acknowledged, call);
        case 'resolved':
          return by === 'resolution' && isSame(acknowledged, call) && acknowledged.as !== 'retry';
        default:
          return false;
      }
    });
    if (done) this.#around.outside.acknowledge({ type: 'asked again', ...call });
    return done;
  }

  async #decide({
    runId,
    callId,
    name,
    input,
  }: Pick<OpenCall, 'runId' | 'callId' | 'name' | 'input'>): Promise<void> {
    if (this.#isDone({ runId, callId }, 'decision')) return;
    const { scripted } = this.#around;
    const isBelow = scripted.decidesBelow === true && runId !== RUN;
    const run = isBelow ? await this.#openElsewhere(runId) : this.#around.run;
    const decision = scripted.decide?.({ name, input: input as JsonValue }) ?? { type: 'approve' };
    switch (decision.type) {
      case 'approve': {
        const { type: _, ...how } = decision;
        const { accepted } = await run.approve(callId, { by: 'ann', runId, ...how });
        if (accepted) this.#write({ type: 'approved', runId, callId, ...how });
        return;
      }
      case 'reject': {
        const { accepted } = await run.reject(callId, { by: 'ann', runId, reason: decision.reason });
        if (accepted) this.#write({ type: 'rejected', runId, callId });
        return;
      }
      case 'answer':
        return await this.#answer({ runId, callId }, decision.output);
      case 'send':
        this.#say({ text: decision.text, when: 'started', elsewhere: false });
        return await this.#talking;
    }
  }

  /** One editor decides about the answer: every second one from another handle, as in another process. */
  async #review({ runId, callId, answer, approvedBy = [] }: OpenReview): Promise<void> {
    const { scripted, outside } = this.#around;
    for (const message of scripted.messages ?? []) if (message.when === 'reviewed') this.#say(message);
    await this.#talking;
    const { by, ...decision } = scripted.review?.(answer, approvedBy) ?? { by: 'ann', type: 'approve' };
    const isDone = outside.acknowledged.some(
      line => line.type === 'reviewed' && isSame(line, { runId, callId }) && line.by === by,
    );
    if (isDone) return outside.acknowledge({ type: 'asked again', runId, callId });
    const run = approvedBy.length % 2 === 0 ? this.#around.run : await this.#openElsewhere(runId);
    const { type, ...how } = decision;
    const as = { name: by, groups: EDITORS };
    const { accepted } = await run[type](callId, { as, runId, ...how });
    if (accepted) this.#write({ type: 'reviewed', runId, callId, by, ...how });
  }

  async #steer(byStep: boolean): Promise<void> {
    const { run } = this.#around;
    const { accepted } = await (byStep ? run.step() : run.unpause());
    if (accepted) this.#write({ type: 'steered', by: byStep ? 'step.requested' : 'run.unpaused' });
  }

  async #answer({ runId, callId }: Place, output: JsonValue): Promise<void> {
    if (this.#isDone({ runId, callId }, 'decision')) return;
    const { accepted } = await this.#around.run.answer(callId, { output, runId, by: 'bob' });
    if (accepted) this.#write({ type: 'answered', runId, callId, output });
  }

  /** Answers what a tool asks: one of several questions, or the only one. */
  async #tell({ runId, callId, questions: [question] }: OpenQuestion): Promise<void> {
    if (question === undefined) return;
    const { key } = question;
    const { outside, run, scripted } = this.#around;
    const isTold = outside.acknowledged.some(
      line => line.type === 'told' && isSame(line, { runId, callId }) && line.keys.includes(key),
    );
    if (isTold) return outside.acknowledge({ type: 'asked again', runId, callId });
    const isBelow = scripted.decidesBelow === true && runId !== RUN;
    const handle = isBelow ? await this.#openElsewhere(runId) : run;
    const { accepted } = await handle.answer(callId, { answers: { [key]: 'yes' }, runId, by: 'bob' });
    if (accepted) this.#write({ type: 'told', runId, callId, keys: [key] });
  }

  /** Looks up whether the call happened, and resolves the doubt accordingly. */
  async #resolve({ runId, callId, name, reason = '' }: OpenCall): Promise<void> {
    if (this.#isDone({ runId, callId }, 'resolution')) return;
    const { run, outside, scripted } = this.#around;
    outside.acknowledge({ type: 'doubted', runId, callId, name, reason });
    const found = outside.hasActed({ runId, callId }) ? 'happened' : 'retry';
    const as = scripted.writtenOff?.includes(name) ? 'failed' : found;
    const { accepted } = await run.resolve(callId, { ...RESOLUTIONS[as], runId, by: 'ann' });
    if (accepted) this.#write({ type: 'resolved', runId, callId, as });
  }

  #write(acknowledged: Acknowledged): void {
    this.#around.reach('acknowledged.before');
    this.#around.outside.acknowledge(acknowledged);
  }
}
