import { TerminalError, TimeoutError } from '@restatedev/restate-sdk';
import type { RestateCalls } from '../../../hosts/restate/ingress.ts';
import { RUN_OBJECT, TEXT_OBJECT, THREAD_OBJECT } from '../../../hosts/restate/requests.ts';
import type { makeRestateServices } from '../../../hosts/restate/services.ts';

type Services = Awaited<ReturnType<typeof makeRestateServices>>;

/** A step of an invocation that Restate has recorded; `result` is what a replay of it returns. */
type Command = { described: string; result?: { value: unknown } };

type Target = { service: string; key: string; handler: string };

type Invocation = Target & {
  input: string;
  commands: Command[];
  done: PromiseWithResolvers<unknown>;
};

type Handler = (ctx: unknown, input: unknown) => Promise<unknown>;

/** A process that serves handlers; nothing of it acts any more once it has died. */
type Worker = { services: Services; isDead: boolean; died: PromiseWithResolvers<'died'> };

class Crash extends Error {}

const NEVER = new Promise<never>(() => {});

/**
 * Restate in memory, for tests without its server. What it promises of Restate it checks:
 *
 * - The exclusive handlers of one key run one at a time; shared ones run beside them.
 * - Each step of a handler is recorded with its result. A handler that fails or whose process dies runs again from its
 *   beginning: recorded steps are not taken again, and a step that differs from its record is an error.
 * - Each invocation that ends is replayed once more, and has to take the same steps to the same answer.
 * - Values are JSON between all parties. A send is delivered in any case, a delayed one later.
 *
 * `crashes` says, after each new step, whether the process of that invocation crashes there.
 */
export class RestateStandIn {
  readonly #states = new Map<string, Map<string, string>>();
  readonly #locks = new Map<string, Promise<unknown>>();
  readonly #awakeables = new Map<string, PromiseWithResolvers<unknown>>();
  readonly #crashes: () => boolean;
  #worker = Promise.withResolvers<Worker>();
  #current: Worker | undefined;
  /** How often each handler was invoked, by its name. */
  readonly invoked = new Map<string, number>();
  /** What went wrong in handlers, such as a replay that differs. */
  readonly faults: string[] = [];
  crashed = 0;
  /** What a query for the deliveries of a run that have not ended finds. */
  deliveries: Record<string, unknown>[] = [{ id: 'alive' }];
  /** The characters of JSON that were set. */
  written = 0;

  constructor({ crashes = () => false }: { crashes?: () => boolean } = {}) {
    this.#crashes = crashes;
  }

  /** Starts a worker process, in place of the one before, which dies. Its calls never return once it is dead. */
  serve(make: (calls: RestateCalls) => Promise<Services>): void {
    this.killWorker();
    const died = Promise.withResolvers<'died'>();
    const worker: Worker = { services: [] as never, isDead: false, died };
    this.#current = worker;
    const ready = this.#worker.resolve;
    void make(this.calls(worker)).then(services => {
      worker.services = services;
      ready(worker);
    });
  }

  /** Invocations in progress wait for the next worker. */
  killWorker(): void {
    if (this.#current === undefined) return;
    this.#current.isDead = true;
    this.#current.died.resolve('died');
    this.#current = undefined;
    this.#worker = Promise.withResolvers();
  }

  /** Calls from a process outside; from a worker, they end with it. */
  calls(worker?: Worker): RestateCalls {
    const call = async (service: string, key: string, handler: string, input: unknown) => {
      const answer = await this.#invoke({ service, key, handler }, input);
      return worker?.isDead === true ? await NEVER : (answer as never);
    };
    return {
      run: (runId, name, input) => call(RUN_OBJECT, runId, name, input),
      thread: (key, name, input) => call(THREAD_OBJECT, key, name, input),
      text: (runId, name, input) => call(TEXT_OBJECT, runId, name, input),
      query: async sql =>
        sql.includes('sys_invocation')
          ? this.deliveries
          : [...this.#states].flatMap(([name, state]) => {
              const [service, service_key] = [
                name.slice(0, name.indexOf(' ')),
                name.slice(name.indexOf(' ') + 1),
              ];
              const rows = [...state].map(([key, value_utf8]) => ({ service_key, key, value_utf8 }));
              const [, prefix] = / key like '([^%']+)%'/.exec(sql) ?? [];
              const isWanted = (key: string) =>
                prefix === undefined ? key === 'meta' : key.startsWith(prefix);
              return service === RUN_OBJECT ? rows.filter(({ key }) => isWanted(key)) : [];
            }),
    };
  }

  /** The state of a run's object, to look at or to damage. */
  stateOf(runId: string): Map<string, string> {
    return this.#stateOf(`${RUN_OBJECT} ${runId}`);
  }

  #stateOf(name: string): Map<string, string> {
    const state = this.#states.get(name) ?? new Map<string, string>();
    this.#states.set(name, state);
    return state;
  }

  async #invoke(target: Target, input: unknown): Promise<unknown> {
    const { service, key, handler } = target;
    this.invoked.set(handler, (this.invoked.get(handler) ?? 0) + 1);
    const text = JSON.stringify(input) ?? 'null';
    const invocation = { ...target, input: text, commands: [], done: Promise.withResolvers<unknown>() };
    const name = `${service} ${key}`;
    const isExclusive = key !== '' && !(await this.#find(target)).isShared;
    const before = isExclusive ? this.#locks.get(name) : undefined;
    const run = (before ?? Promise.resolve()).then(() => this.#complete(invocation));
    if (isExclusive)
      this.#locks.set(
        name,
        run.catch(() => {}),
      );
    return copy(await run);
  }

  async #find({ service, handler }: Target): Promise<{ run: Handler; isShared: boolean; worker: Worker }> {
    const worker = await this.#worker.promise;
    const found = worker.services.find(({ name }) => name === service) as unknown as {
      object?: Record<string, Handler>;
      service?: Record<string, Handler>;
      _handlers: Record<string, { _shared: boolean }>;
    };
    const run = (found.object ?? found.service)?.[handler];
    if (run === undefined) throw new Error(`no handler ${service}/${handler}`);
    return { run, isShared: found._handlers[handler]?._shared === true, worker };
  }

  /** Attempts an invocation until it ends. */
  async #complete(invocation: Invocation): Promise<unknown> {
    for (;;) {
      const { run, worker } = await this.#find(invocation);
      const context = this.#makeContext(invocation, worker, false);
      const attempt = run(context, copy(JSON.parse(invocation.input)));
      try {
        const output = await Promise.race([attempt, worker.died.promise.then(() => DIED)]);
        if (output === DIED) {
          attempt.catch(() => {});
          continue;
        }
        await this.#checkReplay(invocation, run, worker, output);
        return output;
      } catch (error) {
        if (error instanceof Crash) this.crashed += 1;
        else if (error instanceof TerminalError) throw error;
        else if (!(error instanceof Error && error.name === 'EngineError')) this.faults.push(String(error));
        if (this.faults.length > 0) throw error;
        await new Promise(resolve => setTimeout(resolve, 1));
      }
    }
  }

  async #checkReplay(invocation: Invocation, run: Handler, worker: Worker, output: unknown): Promise<void> {
    const context = this.#makeContext(invocation, worker, true);
    const again = await run(context, copy(JSON.parse(invocation.input)));
    if (JSON.stringify(again) !== JSON.stringify(output))
      this.faults.push(`${invocation.handler} answers differently`);
    if (context.taken() !== invocation.commands.length)
      this.faults.push(`${invocation.handler} takes fewer steps in a replay`);
  }

  #makeContext(invocation: Invocation, worker: Worker, isReplay: boolean) {
    const { service, key, commands } = invocation;
    const state = this.#stateOf(`${service} ${key}`);
    let place = 0;
    const next = (kind: string, args: unknown): Command => {
      const described = JSON.stringify([kind, args]);
      const known = commands[place];
      place += 1;
      if (known === undefined && isReplay)
        throw new Error(`${invocation.handler}: a replay adds ${described}`);
      if (known !== undefined && known.described !== described)
        throw new Error(`${invocation.handler}: a replay takes ${described} instead of ${known.described}`);
      const command = known ?? { described };
      if (known === undefined) commands.push(command);
      return command;
    };
    const take = <Value>(kind: string, args: unknown, act: () => Value): Value => {
      if (worker.isDead) throw new Crash();
      const command = next(kind, args);
      if (command.result === undefined) {
        command.result = { value: copy(act()) };
        if (this.#crashes()) throw new Crash();
      }
      return copy(command.result.value) as Value;
    };
    const takeLater = async <Value>(
      kind: string,
      args: unknown,
      act: () => Promise<Value>,
    ): Promise<Value> => {
      if (worker.isDead) return await NEVER;
      const command = next(kind, args);
      if (command.result === undefined) {
        const value = await act();
        if (worker.isDead) return await NEVER;
        command.result = { value: copy(value) };
      }
      return copy(command.result.value) as Value;
    };
    const send = (target: Target, parameter: unknown, delay: number) => {
      const deliver = () =>
        void this.#invoke(target, parameter).catch(error => this.faults.push(String(error)));
      if (delay > 0) setTimeout(deliver, delay).unref();
      else deliver();
    };
    return {
      key,
      taken: () => place,
      get: async (name: string) => take('get', name, () => JSON.parse(state.get(name) ?? 'null')),
      set: (name: string, value: unknown) =>
        take('set', [name, value], () => {
          const text = JSON.stringify(value);
          this.written += text.length;
          state.set(name, text);
        }),
      clear: (name: string) => take('clear', name, () => void state.delete(name)),
      clearAll: () => take('clearAll', null, () => state.clear()),
      stateKeys: async () => take('stateKeys', null, () => [...state.keys()]),
      date: { now: async () => take('now', null, () => Date.now()) },
      run: (name: string, act: () => Promise<unknown>) => takeLater('run', name, act),
      genericSend: ({ service: to, key: toKey = '', method, parameter, delay = 0 }: Send) =>
        take('send', [to, toKey, method, parameter, delay], () =>
          send({ service: to, key: toKey, handler: method }, parameter, delay),
        ),
      genericCall: ({ service: to, key: toKey = '', method, parameter }: Send) =>
        takeLater('call', [to, toKey, method, parameter], () =>
          this.#invoke({ service: to, key: toKey, handler: method }, parameter),
        ),
      awakeable: () => {
        const id = take('awakeable', null, () => `awakeable ${this.#awakeables.size}`);
        const waiting = this.#awakeables.get(id) ?? Promise.withResolvers<unknown>();
        this.#awakeables.set(id, waiting);
        const orTimeout = async (ms: number) => {
          const late = new Promise(resolve => setTimeout(resolve, ms, LATE).unref());
          const value = await takeLater('await', id, () => Promise.race([waiting.promise, late]));
          if (value === LATE) throw new TimeoutError();
          return value;
        };
        return { id, promise: { orTimeout } };
      },
      resolveAwakeable: (id: string, value: unknown) =>
        take('resolve', id, () => this.#awakeables.get(id)?.resolve(value)),
    };
  }
}

type Send = { service: string; key?: string; method: string; parameter: unknown; delay?: number };

const DIED = Symbol('died');
const LATE = 'late';

function copy<Value>(value: Value): Value {
  return value === undefined ? value : JSON.parse(JSON.stringify(value));
}
