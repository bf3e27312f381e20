import type { MiddlewareHandler } from 'hono';
import type { Host } from '../engine/host/host.ts';
import { EngineError, messageOf } from '../protocol/error.ts';
import type { Store } from '../protocol/store.ts';
import { ApiError } from './error-envelope.ts';

const ANSWER_MS = 2_000;

/** How long a request may take before the store is asked whether it answers, in ms. */
const REQUEST_MS = 10_000;

export class StoreProbe {
  readonly #store: Store;
  readonly #host: Host;
  readonly #log: (line: string) => void;
  /** Shared by all who ask meanwhile. */
  #asked: Promise<boolean> | undefined;

  constructor(store: Store, host: Host, log: (line: string) => void) {
    this.#store = store;
    this.#host = host;
    this.#log = log;
  }

  async answers(): Promise<boolean> {
    this.#asked ??= this.#ask(async () => void (await this.#store.list({ limit: 1 }))).finally(() => {
      this.#asked = undefined;
    });
    return await this.#asked;
  }

  async assertReady(): Promise<void> {
    if (!(await this.answers())) throw new ApiError('store-unavailable', 'The store does not answer.');
    const hasRoom = await this.#ask(async () => await this.#store.assertRoom?.());
    if (!hasRoom)
      throw new ApiError('store-full', 'The disk of the store is full. Free space; runs then continue.');
  }

  async #ask(question: () => Promise<void>): Promise<boolean> {
    const { promise: late, reject } = Promise.withResolvers<never>();
    const giveUp = () => reject(new Error(`no answer within ${ANSWER_MS} ms`));
    const cancel = this.#host.setTimer(ANSWER_MS, giveUp, { keepAlive: false });
    try {
      await Promise.race([question(), late]);
      return true;
    } catch (error) {
      this.#log(`The store is not ready: ${messageOf(error)}`);
      return false;
    } finally {
      cancel();
    }
  }

  /** Drivers wait longer for their store, and so does what the request has begun: it may still take effect. */
  readonly limitWaits: MiddlewareHandler = async (_, next) => {
    const { promise: away, reject } = Promise.withResolvers<never>();
    let cancel = () => {};
    const watch = () => {
      cancel = this.#host.setTimer(REQUEST_MS, () => void ask(), { keepAlive: false });
    };
    let hasEnded = false;
    const ask = async () => {
      const answers = await this.answers();
      if (!answers) reject(storeAway());
      else if (!hasEnded) watch();
    };
    watch();
    const answered = next();
    answered.catch(() => {});
    try {
      await Promise.race([answered, away]);
    } finally {
      hasEnded = true;
      cancel();
    }
  };
}

function storeAway(): EngineError {
  return new EngineError(
    'store-unavailable',
    'The store does not answer. A command may still take effect: repeat it with the same requestId.',
  );
}
