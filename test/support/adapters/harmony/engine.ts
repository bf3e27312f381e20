import { afterAll, beforeAll, beforeEach, vi } from 'vitest';
import { type HarmonyOptions, harmony } from '../../../../adapters/harmony.ts';
import type { ProviderContext } from '../../../../adapters/http/provider-errors.ts';
import type { ModelRequest, ModelTurn } from '../../../../protocol/turn.ts';
import { type GrpcEngine, messagesOf, type Respond, startEngine } from '../grpc-engine.ts';
import { calling } from '../requests.ts';
import { idsOf } from './ids.ts';

/** The provider of the errors of harmony(). */
export const CONTEXT: ProviderContext = {
  provider: 'harmony',
  model: 'm',
  keyVariable: '',
  baseURLVariable: '',
  baseURL: '',
  secrets: [],
};

/** A reply with reasoning, then a call. */
export const REPLY =
  '<|channel|>analysis<|message|>Naïve 😀?<|end|><|start|>assistant<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{"city":"Köln"}<|call|>';

/** A gRPC engine for the tests of one file, which answers with `REPLY` unless a test changes that. */
export class HarmonyEngine {
  #engine: GrpcEngine | undefined;
  #respond: Respond = async function* () {};

  /** Starts an engine before the tests of a file, and stops it after them. */
  static forFile(): HarmonyEngine {
    const engine = new HarmonyEngine();
    beforeAll(async () => {
      engine.#engine = await startEngine((of, signal) => engine.#respond(of, signal));
    });
    afterAll(() => engine.#engine?.[Symbol.asyncDispose]());
    beforeEach(() => {
      vi.unstubAllEnvs();
      engine.requests.length = 0;
      engine.answer(REPLY);
    });
    return engine;
  }

  get requests(): GrpcEngine['requests'] {
    return this.#started.requests;
  }

  /** Resolves with the ids of the next `Abort`. */
  aborted(): Promise<string[]> {
    return this.#started.aborted();
  }

  get baseURL(): string {
    return this.#started.baseURL;
  }

  get #started(): GrpcEngine {
    if (this.#engine === undefined) throw new Error('The engine starts before the tests of the file.');
    return this.#engine;
  }

  respondWith(respond: Respond): void {
    this.#respond = respond;
  }

  /** Answers with the token ids of a text. */
  answer(reply: string, options?: Parameters<typeof messagesOf>[1]): void {
    this.respondWith(async function* () {
      yield* messagesOf(idsOf(reply), options);
    });
  }

  open(options: Partial<HarmonyOptions> = {}): ReturnType<typeof harmony> {
    return harmony({ model: 'gpt-oss', baseURL: this.baseURL, today: '2025-06-28', ...options });
  }

  async generate(of: ModelRequest, options?: Partial<HarmonyOptions>): Promise<ModelTurn> {
    return await this.open(options).generate(of, calling());
  }
}
